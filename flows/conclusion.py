"""What `grpo run` says at the end: the outcome, what each stage did, and how to go on."""

from rich.console import Console
from rich.table import Table

from flows.api import FlowRun
from flows.console import say, say_error
from flows.progress import RunProgress
from flows.reports import print_summary
from flows.request import WAY_ON, Request
from grpo_core.paths import resolve_path
from grpo_core.types import StageName


def conclude(request: Request, ended: FlowRun, progress: RunProgress, console: Console) -> int:
    """Print the summary; returns the exit code."""
    if ended.state_type == "COMPLETED":
        from grpo_core.store.lake import Lake

        print_summary(Lake(resolve_path(request.config.execution.lake)), request.run_name, console)
        return 0
    console.print(stage_table(progress))
    say_outcome(ended)
    _, _, told = ended.message.partition(WAY_ON)
    say(f"what is complete is kept; to go on: {told or _way_on(request, progress)}")
    return 1


def _way_on(request: Request, progress: RunProgress) -> str:
    """For a flow that was killed before it could say it: the stage begun last is not finished."""
    begun = [stage for stage in progress.stages if progress.nodes_of(stage)]
    return request.command([StageName(stage) for stage in begun[:-1]])


def say_outcome(ended: FlowRun) -> None:
    """Print how a run that did not complete ended, with the hint of its error."""
    told, _, _ = ended.message.partition(WAY_ON)
    message, _, hint = told.partition("\nhint: ")
    outcomes = {"FAILED": "the run failed", "CANCELLED": "the run was stopped"}
    outcome = outcomes.get(ended.state_type, "the run crashed")
    is_told = message and (ended.state_type != "CANCELLED" or ended.state_name == "Stopped")
    say_error(f"{outcome}: {message}" if is_told else outcome, hint)


def stage_table(progress: RunProgress) -> Table:
    """Each stage with its state, seconds and tokens generated."""
    table = Table(box=None, padding=(0, 2), header_style="bold")
    table.add_column("stage")
    table.add_column("state")
    table.add_column("seconds", justify="right")
    table.add_column("tokens", justify="right")
    for stage in progress.stages:
        nodes = progress.nodes_of(stage)
        states = {node.state for node in nodes}
        state = "Reused" if states == {"Reused"} else "Computed"
        if not nodes or states - {"Reused", "Computed"}:
            state = "unfinished" if nodes else "not run"
        seconds = sum(node.seconds for node in nodes)
        table.add_row(stage, state, f"{seconds:.1f}", f"{sum(n.tokens for n in nodes):,}")
    return table
