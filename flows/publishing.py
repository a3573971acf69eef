"""Puts tables and the report on Prefect's Artifacts pages, and tags on the run.

What can not be shown, because the server is away or a figure can not be read, costs a warning in
the run's log and not the run.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.client.orchestration import get_client
from prefect.logging import get_run_logger
from prefect.runtime import flow_run

from flows.presence import server_is_there, telling
from flows.reports import audit_of_run, make_report, summary_of_run
from flows.result_tables import Rows, audit_rows, report_text, tables_after
from grpo_core.errors import GrpoError, ServiceError
from grpo_core.stages import StageResult
from grpo_core.store.lake import Lake
from grpo_core.types import StageName

DESCRIPTIONS = {
    "bands": "problems by difficulty, as the policy solved them when measured",
    "waste": "where rollout tokens went: those that carry loss and those that do not, by reason",
    "pass-at-k": "unbiased pass@k on test problems with intervals over problems",
    "audits": "what each SQL audit found; a blocking one with rows fails the run",
}


def publish_stage(lake: Lake, run: str, result: StageResult) -> None:
    """Publish the stage's artefacts in short, and the result tables that it brought up to date."""
    rows = [
        {"artefact": node.label, "state": node.state, "seconds": round(node.seconds, 1)}
        | {"tokens": node.tokens}
        | {name: round(value, 4) for name, value in node.figures.items()}
        for node in result.nodes
    ]
    text = f"Stage {result.stage} of run {run}: its artefacts and key figures."
    _publish_table(artifact_key(run, result.stage), rows, text)
    if result.stage == StageName.AUDIT:
        publish_audits(lake, run)
    elif result.stage in (StageName.PREFILTER, StageName.TRAIN, StageName.EVALUATE):
        _show(f"what stage {result.stage} measured", lambda: _publish_tables(lake, run, result))


def publish_audits(lake: Lake, run: str) -> None:
    """Publish what every audit finds now, passed or not."""
    text = f"Run {run}: {DESCRIPTIONS['audits']}."
    _show(
        "the table of audits",
        lambda: _create_table(
            artifact_key(run, "audits"), audit_rows(audit_of_run(lake, run)), text
        ),
    )


def publish_report(lake: Lake, run: str) -> Path:
    """Write the report and publish where it is; returns its path."""
    path = make_report(lake, run)
    _show(
        "the report",
        lambda: _create_page(
            artifact_key(run, "report"),
            report_text(summary_of_run(lake, run), path),
            f"Run {run}: what was done, and where its report is.",
        ),
    )
    return path


def artifact_key(run: str, name: str) -> str:
    """Key of an artifact: Prefect takes lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", f"{run}-{name}".lower()).strip("-")


def add_tags(tags: Sequence[str]) -> None:
    """Give the present flow run these tags besides those that it has."""
    tagged = list(dict.fromkeys([*flow_run.tags, *tags]))
    flow_run_id = flow_run.id
    if flow_run_id and tagged != flow_run.tags:
        _show("what the run is tagged with", lambda: _set_tags(UUID(flow_run_id), tagged))


def _show(what: str, publish: Callable[[], object]) -> None:
    try:
        if not server_is_there():
            raise ServiceError("the Prefect server does not answer")
        publish()
    except GrpoError as error:
        get_run_logger().warning("%s is not in the UI: %s", what, error)


def _set_tags(flow_run_id: UUID, tags: Sequence[str]) -> None:
    with telling(), get_client(sync_client=True) as client:
        client.update_flow_run(flow_run_id, tags=tags)


def _publish_tables(lake: Lake, run: str, result: StageResult) -> None:
    for name, table in tables_after(result.stage, summary_of_run(lake, run)).items():
        _publish_table(artifact_key(run, name), table, f"Run {run}: {DESCRIPTIONS[name]}.")


def _publish_table(key: str, rows: Rows, description: str) -> None:
    _show(f"the table {key}", lambda: _create_table(key, rows, description))


def _create_table(key: str, rows: Rows, description: str) -> None:
    create: Callable[..., Any] = create_table_artifact
    with telling():
        create(key=key, table=rows, description=description)


def _create_page(key: str, text: str, description: str) -> None:
    create: Callable[..., Any] = create_markdown_artifact
    with telling():
        create(key=key, markdown=text, description=description)
