"""What the command line asks for, checked before anything starts."""

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

from flows.deployment_names import FLOW_NAME
from grpo_core.config import RunConfig, load_config
from grpo_core.errors import ConfigError, GrpoError
from grpo_core.paths import real_path, resolve_path
from grpo_core.types import StageName

FULL = "full"
WAY_ON = "\nto go on: "
"""Stands before the command in the message of a flow that did not complete."""
_LAKE_OVERRIDE = "execution.lake="
RUN_NAME_PATTERN = r"^([A-Za-z0-9][A-Za-z0-9_-]{0,63})?$"


@dataclass(frozen=True)
class Request:
    """One request to run or to plan.

    Args:
        target: `full` or a stage: the deployment's name.
        preset: Name of a preset.
        config_file: TOML file over the preset.
        run: Name of the run; empty means the preset's.
        overrides: `section.field=value` each.
        force: Stages to compute again.
        fork: RUN:PHASE[:STEP] to start from, or empty.
    """

    target: str
    preset: str
    config_file: Path | None
    run: str
    overrides: tuple[str, ...]
    force: tuple[StageName, ...]
    fork: str = ""

    @cached_property
    def config(self) -> RunConfig:
        """The resolved configuration.

        Raises:
            ConfigError: It cannot mean what it says.
        """
        return load_config(
            self.preset, config_file=self.config_file, overrides=list(self.overrides)
        )

    @property
    def stages(self) -> tuple[StageName, ...]:
        """The stages that would run."""
        return tuple(StageName) if self.target == FULL else (StageName(self.target),)

    @property
    def run_name(self) -> str:
        """The run's name in the lake."""
        return self.run or default_run_name(self.preset)

    def parameters(self) -> dict[str, Any]:
        """Parameters of the flow run; what is at its default is left out."""
        given = {
            "preset": self.preset,
            "run": self.run_name,
            "config_file": str(real_path(self.config_file)) if self.config_file else "",
            "overrides": list(self.overrides),
            "force": [stage.value for stage in self.force],
            "fork": self.fork,
        }
        return {name: value for name, value in given.items() if value}

    def command(self, finished: Collection[StageName] = ()) -> str:
        """The command that goes on with the same, for hints.

        Args:
            finished: Stages that are not to be forced again.
        """
        words = ["grpo", "run", self.target]
        words += [] if self.preset == "tiny" else ["--preset", self.preset]
        words += ["--config", str(self.config_file)] if self.config_file else []
        words += ["--run", self.run] if self.run else []
        words += [word for override in self.overrides for word in ("--set", override)]
        forced = [stage for stage in self.force if stage not in finished]
        words += [word for stage in forced for word in ("--force", stage.value)]
        words += ["--from", self.fork] if self.fork else []
        return shlex.join(words)


def make_request(
    target: str,
    preset: str,
    config_file: Path | None,
    run: str,
    overrides: Sequence[str] | None,
    force: Sequence[str] | None,
    fork: str = "",
) -> Request:
    """Check names; the configuration itself is checked when it is first used.

    Raises:
        ConfigError: A target or forced stage that does not exist.
    """
    if run and not re.fullmatch(RUN_NAME_PATTERN, run):
        raise ConfigError(
            f"run: {run!r} is not a run name",
            hint="letters, digits, _ and -, at most 64, starting with a letter or digit",
        )
    return Request(
        target=_known(target, [FULL, *StageName], "deployment"),
        preset=preset,
        config_file=config_file,
        run=run,
        overrides=tuple(overrides or ()),
        force=tuple(StageName(_known(name, list(StageName), "stage")) for name in force or ()),
        fork=fork,
    )


def default_run_name(preset: str) -> str:
    """Name of a run that was given none: the preset's, in letters that a run name takes."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", preset)


def run_name_of(parameters: Mapping[str, Any]) -> str:
    """Name in the lake of the run that a flow run with these parameters works on."""
    return parameters.get("run") or default_run_name(parameters.get("preset") or "tiny")


def lake_of(parameters: Mapping[str, Any]) -> Path | None:
    """Lake of the run that a flow run with these parameters works on.

    Returns:
        Its absolute path; what an override says where the other settings can not be read, and None
        where none says anything.
    """
    config_file = parameters.get("config_file")
    overrides = [str(override) for override in parameters.get("overrides") or ()]
    named = [override for override in overrides if override.startswith(_LAKE_OVERRIDE)]
    try:
        config = load_config(
            parameters.get("preset") or "tiny",
            config_file=Path(config_file) if config_file else None,
            overrides=overrides,
        )
    except (GrpoError, OSError):
        if not named:
            return None
        try:
            config = load_config(overrides=named)
        except GrpoError:
            return None
    return resolve_path(config.execution.lake)


def is_of_run(parameters: Mapping[str, Any], directory: Path) -> bool:
    """Whether a flow run with these parameters works on the run in `lake/runs/<run>`.

    Names are compared, and lakes where the settings can be read. Where they can not, the flow run
    counts: it would fail at its start, and there is most often one lake.
    """
    if run_name_of(parameters) != directory.name:
        return False
    lake = lake_of(parameters)
    return lake is None or real_path(lake) == real_path(directory.parents[1])


def run_tags(run: str, preset: str) -> list[str]:
    """Tags of every flow run, by which the UI finds those of a run or a preset."""
    return [FLOW_NAME, f"run:{run}", f"preset:{preset}"]


def command_of(parameters: Mapping[str, Any], finished: Collection[StageName] = ()) -> str:
    """The command that goes on with what a flow run with these parameters began.

    Args:
        parameters: Of the flow run.
        finished: Stages that it has finished; of some but not all stages, the first other is named.
    """
    chosen = [stage for stage in StageName if stage in (parameters.get("stages") or StageName)]
    left = [stage for stage in chosen if stage not in finished] or chosen[-1:]
    is_full = len(chosen) == len(StageName)
    named = left if is_full else left[:1]
    config_file = parameters.get("config_file")
    return Request(
        target=FULL if is_full else str(left[0]),
        preset=parameters.get("preset") or "tiny",
        config_file=Path(config_file) if config_file else None,
        run=parameters.get("run") or "",
        overrides=tuple(parameters.get("overrides") or ()),
        force=tuple(StageName(stage) for stage in parameters.get("force") or ()),
        fork=parameters.get("fork") or "",
    ).command([stage for stage in StageName if stage not in named or stage in finished])


def _known(name: str, names: Sequence[str], what: str) -> str:
    if name not in names:
        close = get_close_matches(name, names, n=1)
        meant = f"did you mean {close[0]}? " if close else ""
        raise ConfigError(f"there is no {what} {name!r}", hint=f"{meant}known: {', '.join(names)}")
    return name
