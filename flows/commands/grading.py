"""`grpo grade`: the product's verdicts on completions from anywhere."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from flows.console import out, say

if TYPE_CHECKING:
    from grpo_core.rewards.grader import GraderRules
    from grpo_core.rewards.selftest import Tried

_SHOWN_CHARACTERS = 60


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("grade")(grade_command)


def grade_command(
    source: Annotated[
        Path | None,
        typer.Argument(metavar="[IN.jsonl]", help="Rows {id, completion, gold, answer_type?}."),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Argument(
            metavar="[OUT.jsonl]", help="Rows {id, label, reward_raw, extracted, reason}."
        ),
    ] = None,
    function: Annotated[
        str,
        typer.Option(
            metavar="FUNCTION", help="Verifier: math, code, module:function or file.py:function."
        ),
    ] = "math",
    pass_threshold: Annotated[
        float, typer.Option(help="Least number from a function that counts as correct.")
    ] = 0.5,
    selftest: Annotated[
        str,
        typer.Option(
            metavar="FUNCTION", help="Instead: try a verifier on cases to accept and to refuse."
        ),
    ] = "",
) -> None:
    """Grade completions against gold answers, one JSON row each, order kept.

    With --selftest: exit code 1 when the verifier fails a built-in case.
    """
    from grpo_core.rewards.grader import GraderRules

    rules = GraderRules(function=function, pass_threshold=pass_threshold)
    if selftest:
        _selftest(selftest, rules)
    elif source is None or target is None:
        raise typer.BadParameter("give IN.jsonl and OUT.jsonl, or --selftest FUNCTION")
    else:
        from grpo_core.rewards.grading_io import grade_file

        counts = grade_file(source, target, rules)
        summary = ", ".join(f"{count:,} {label.value}" for label, count in counts.most_common())
        say(f"{counts.total():,} rows: {summary or 'none'}")


def _selftest(function: str, rules: "GraderRules") -> None:
    from grpo_core.rewards.selftest import pattern, selftest

    tried = selftest(function, rules)
    out.print(_totals(tried))
    failed = [item for item in tried if not item.is_right]
    if failed:
        out.print(_failures(failed))
    what = pattern(tried)
    if what:
        out.print(Text(f"{function} {what}", "bold red"), soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def _totals(tried: "list[Tried]") -> Table:
    from grpo_core.rewards.selftest import GROUPS

    table = Table(box=None, padding=(0, 2), header_style="bold")
    for title in ("cases", "number", "right"):
        table.add_column(title, justify="left" if title == "cases" else "right")
    for group in GROUPS:
        own = [item for item in tried if item.case["group"] == group]
        table.add_row(group, str(len(own)), str(sum(item.is_right for item in own)))
    return table


def _failures(failed: "list[Tried]") -> Table:
    table = Table(box=None, padding=(0, 2), header_style="bold")
    for title in ("must", "kind", "completion", "gold", "verdict"):
        table.add_column(title, overflow="fold")
    for item in failed:
        text = " ".join(str(item.case["completion"]).split())[:_SHOWN_CHARACTERS]
        verdict = f"{item.verdict.label.value}: {item.verdict.reason[:_SHOWN_CHARACTERS]}"
        must = "pay" if item.case["group"] == "accept" else "refuse"
        cells = (must, item.case["kind"], text, str(item.case["gold"])[:20], verdict)
        table.add_row(*(Text(str(cell)) for cell in cells))
    return table
