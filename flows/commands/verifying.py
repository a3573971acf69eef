"""`grpo verify-loss`: the configured loss against its fp64 definition."""

import json
from dataclasses import asdict
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table

from flows.commands.options import ConfigOption, PresetOption, SetOption
from flows.console import out

if TYPE_CHECKING:
    from grpo_core.config import RunConfig
    from grpo_core.objective.verify import VerifyReport

_STYLES = {"warn": "yellow", "note": "dim"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("verify-loss")(verify_loss_command)


def verify_loss_command(
    preset: PresetOption = "tiny",
    config: ConfigOption = None,
    overrides: SetOption = None,
    output_format: Annotated[
        Literal["table", "json"], typer.Option("--format", help="table or json.")
    ] = "table",
) -> None:
    """Compare the configured loss with its fp64 definition; exit code 1 when they disagree.

    Runs the trainer's own loss on generated steps, over micro-batch splits, paddings, row orders
    and two ranks, then its advantages and masks; a few seconds, no model.
    """
    from grpo_core.config import load_config
    from grpo_core.config.checks import run_facts
    from grpo_core.objective import verify_loss

    chosen = load_config(preset, config_file=config, overrides=overrides or ())
    report = verify_loss(
        chosen.loss,
        advantage=chosen.advantage,
        kl=chosen.kl,
        mask=chosen.mask,
        facts=run_facts(chosen),
    )
    if output_format == "json":
        out.print_json(json.dumps(as_record(report, options_of(chosen)), allow_nan=False))
    else:
        _show(report, options_of(chosen))
    if not report.passed:
        raise typer.Exit(1)


def as_record(report: "VerifyReport", options: dict[str, Any]) -> dict[str, Any]:
    """The report as JSON types; an error that is no number is null."""
    record = {
        "passed": report.passed,
        "max_loss_error": report.max_loss_error,
        "max_gradient_error": report.max_gradient_error,
        "advantage_error": report.advantage_error,
        "penalty_error": report.penalty_error,
        "masks": asdict(report.masks),
        "tolerance": report.tolerance,
        "options": options,
        "cases": [asdict(case) for case in report.cases],
        "weights": [asdict(row) for row in report.weights],
        "findings": [asdict(finding) for finding in report.findings],
    }
    return {name: _json_value(value) for name, value in record.items()}


def _json_value(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {name: _json_value(item) for name, item in value.items()}
    return [_json_value(item) for item in value] if isinstance(value, list) else value


def options_of(config: "RunConfig") -> dict[str, Any]:
    """What the loss of a run is made of: options that are on, presets filled in."""
    from grpo_core.objective.presets import resolve_loss, resolve_std

    longest = config.train.phases[-1].max_completion_tokens
    loss = asdict(resolve_loss(config.loss, longest_completion_tokens=longest))
    if config.loss.sampler_correction == "none":
        del loss["correction_low"], loss["correction_cap"]
    advantage = {**config.advantage.model_dump(), "std": resolve_std(config.advantage, config.loss)}
    kl = config.kl.model_dump(exclude={"budget"}) if config.kl.place != "none" else {}
    return {
        **{f"loss.{name}": value for name, value in loss.items() if value is not None},
        **{f"advantage.{name}": advantage[name] for name in ("std", "baseline", "eps", "clip")},
        **{f"kl.{name}": kl[name] for name in ("place", "kind", "gradient", "beta") if kl},
        **{f"mask.{name}": value for name, value in _masks_on(config).items()},
    }


def _masks_on(config: "RunConfig") -> dict[str, Any]:
    mask = config.mask.model_dump(mode="json", exclude_defaults=True)
    return {"truncated": config.mask.truncated, **mask}


def _show(report: "VerifyReport", options: dict[str, Any]) -> None:
    for table in (_options(options), _errors(report), _weights(report)):
        out.print(table)
        out.print()
    for finding in report.findings:
        out.print(f"[{_STYLES[finding.level]}]{finding.level}[/]", end=" ")
        _say(f"{finding.message}; {finding.hint}")
    if not report.findings:
        _say("no warnings: the configuration is what its name promises")
    in_reward = report.penalty_error
    penalty = "" if in_reward is None else f", of the KL penalty in the reward {in_reward:.1e}"
    verdict = "agrees with its definition" if report.passed else "DISAGREES with its definition"
    _say(
        f"{report.resolved.method} {verdict}: maximum relative error of the loss "
        f"{report.max_loss_error:.1e}, of the gradient {report.max_gradient_error:.1e} "
        f"(tolerance {report.tolerance:.0e}), of the advantages {report.advantage_error:.1e}"
        f"{penalty}"
    )
    masks = report.masks
    _say(
        f"under the masks {masks.tokens - masks.masked} of {masks.tokens} generated tokens carry "
        f"loss; {masks.wrong} differ from their definition"
    )


def _say(line: str) -> None:
    out.print(line, markup=False, highlight=False, soft_wrap=True)


def _options(options: dict[str, Any]) -> Table:
    table = _table("option", "value")
    for name, value in options.items():
        table.add_row(name, f"{value:g}" if isinstance(value, float) else str(value))
    return table


def _errors(report: "VerifyReport") -> Table:
    """The worst step of every arrangement."""
    table = _table("arrangement", "loss error", "gradient error")
    for name in dict.fromkeys(case.arrangement for case in report.cases):
        cases = [case for case in report.cases if case.arrangement == name]
        table.add_row(
            name,
            f"{max(case.loss_error for case in cases):.1e}",
            f"{max(case.gradient_error for case in cases):.1e}",
        )
    return table


def _weights(report: "VerifyReport") -> Table:
    """Each weight that the live rollouts of the first step have, shortest rollout first."""
    table = _table("live tokens", "weight of a token", "of the rollout", "relative to token mean")
    for row in sorted(set(report.weights), key=lambda row: (row.length_tokens, row.token_weight)):
        table.add_row(
            str(row.length_tokens),
            f"{row.token_weight:.5f}",
            f"{row.rollout_weight:.5f}",
            f"{row.relative_weight:.3f}",
        )
    return table


def _table(*titles: str) -> Table:
    table = Table(box=None, padding=(0, 2), header_style="bold")
    for title in titles:
        table.add_column(title, no_wrap=True)
    return table
