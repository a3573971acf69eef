"""The `grpo` command. Commands import what they need when they run, so that all start at once."""

import sys

import typer

from flows.commands import (
    grading,
    lake,
    planning,
    queries,
    regrading,
    running,
    scheduling,
    services,
    verifying,
)
from flows.console import say_error
from grpo_core.errors import GrpoError

app = typer.Typer(
    name="grpo",
    help="GRPO post-training: run stages, ask what would run, query the lake with SQL.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
_COMMANDS = (running, planning, services, scheduling, queries, grading, regrading, verifying)
for module in _COMMANDS:
    module.register(app)
app.add_typer(lake.app, name="lake")


def main() -> None:
    """Entry point: errors that the product raises on purpose become two lines and exit code 1."""
    try:
        app()
    except GrpoError as error:
        say_error(error.message, error.hint)
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        from grpo_core.stages.faults import machine_fault

        fault = machine_fault(error)
        if fault is None:
            raise
        say_error(fault.message, fault.hint)
        sys.exit(1)


if __name__ == "__main__":
    main()
