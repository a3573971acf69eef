"""Audits, summary and HTML report of a run, from what lies in its lake."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from grpo_core.config import stored_config
from grpo_core.errors import DataContractError, StageInputError

if TYPE_CHECKING:
    from grpo_core.config import RunConfig
    from grpo_core.reporting.summary import RunSummary
    from grpo_core.store.lake import Lake
    from grpo_core.store.results import AuditResult

REPORT_NAME = "report.html"


def config_of_run(lake: "Lake", run: str) -> "RunConfig":
    """The resolved configuration of the latest attempt of `run`.

    Raises:
        ConfigError: It is missing or torn, or of another release.
        DataContractError: There is no such run.
    """
    from grpo_core.store.run_records import CONFIG, is_run

    directory = lake.run_directory(run)
    if not (is_run(directory) or (directory / CONFIG).is_file()):
        known = ", ".join(lake.run_names()) or "none yet"
        raise DataContractError(f"there is no run called {run!r}", hint=f"runs: {known}")
    return stored_config(directory)


def audit_of_run(lake: "Lake", run: str, *, deep: bool = False) -> "list[AuditResult]":
    """Run the audits over what the latest attempt of `run` uses, with its configuration.

    Raises:
        DataContractError: There is no such run.
        StageInputError: It has made nothing yet.
    """
    from grpo_core.audits import audit_run
    from grpo_core.stages.audit import audit_params

    config = config_of_run(lake, run)
    catalog = lake.catalog(run, is_hashed=True)
    if not catalog.run_artifacts:
        raise StageInputError(
            f"run {run!r} has made nothing yet", hint="grpo run makes something to look at"
        )
    return audit_run(catalog, run, audit_params(config), deep=deep)


def make_report(lake: "Lake", run: str) -> Path:
    """Write the report of `run` into its directory; returns the file.

    Raises:
        DataContractError: There is no such run.
        StageInputError: It has made nothing yet.
    """
    from grpo_core.reporting.report import write_report
    from grpo_core.store.warehouse import Warehouse

    path = lake.run_directory(run) / REPORT_NAME
    config, audits = config_of_run(lake, run).model_dump(mode="json"), audit_of_run(lake, run)
    with Warehouse(lake.catalog(run, is_hashed=True)) as warehouse:
        write_report(warehouse, run, path, config=config, audits=audits)
    return path


def summary_of_run(lake: "Lake", run: str) -> "RunSummary":
    """What the run cost, how hard its problems are and what it gained.

    Raises:
        DataContractError: There is no such run.
    """
    from grpo_core.reporting.summary import final_summary
    from grpo_core.store.warehouse import Warehouse

    path = lake.run_directory(run) / REPORT_NAME
    evaluate = config_of_run(lake, run).evaluate
    with Warehouse(lake.catalog(run)) as warehouse:
        return final_summary(
            warehouse,
            run,
            report=path if path.is_file() else None,
            ks=evaluate.ks,
            confidence=evaluate.confidence,
        )


def print_summary(lake: "Lake", run: str, console: Console) -> None:
    """Print the summary of the run."""
    from grpo_core.reporting.summary import render_summary

    render_summary(summary_of_run(lake, run), console)
