"""`--from RUN:PHASE[:STEP]`: the training state of another run as the start of this one."""

import re
from pathlib import Path

from grpo_core.errors import ConfigError
from grpo_core.planning.graph import ForkPoint
from grpo_core.store.artifacts import Artifact
from grpo_core.store.canonical import sha256_json
from grpo_core.store.files import read_json
from grpo_core.store.lake import Lake
from grpo_core.store.run_records import is_run, read_run

_PATTERN = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]*):(\d+)(?::(\d+))?")
_STATE_FILE = "state/trainer.json"


def resolve_fork(lake: Lake, text: str) -> ForkPoint:
    """Find the state that `RUN:PHASE` (its end) or `RUN:PHASE:STEP` names.

    Raises:
        ConfigError: Not of that form, no such run or phase, or no state kept at that step; says
            which steps there are.
    """
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"from: {text!r} is not of the form RUN:PHASE or RUN:PHASE:STEP",
            hint="for example --from tiny:2 or --from tiny:2:16",
        )
    run, phase, step = match[1], int(match[2]), match[3]
    artifact = _phase_artifact(lake, run, phase)
    end = int(read_json(artifact.path / _STATE_FILE)["step"])
    start = min(artifact.table("steps", ["step"]).column("step").to_pylist()) - 1
    if step is None or int(step) == end:
        return _fork(lake, artifact.path, phase, end, start, is_phase_end=True)
    states = {int(path.name): path for path in (artifact.path / "states").glob("*")}
    if int(step) not in states:
        kept = ", ".join(str(number) for number in sorted({*states, end}))
        raise ConfigError(
            f"from: run {run!r} keeps no state of phase {phase} at step {step}",
            hint=f"steps kept: {kept}; execution.keep_step_states=true keeps more",
        )
    return _fork(lake, states[int(step)], phase, int(step), start, is_phase_end=False)


def _phase_artifact(lake: Lake, run: str, phase: int) -> Artifact:
    directory = lake.run_directory(run)
    if not is_run(directory):
        known = ", ".join(lake.run_names()) or "none yet"
        raise ConfigError(f"from: there is no run called {run!r}", hint=f"runs: {known}")
    nodes = read_run(directory)["nodes"]
    node = nodes.get(f"train/{phase}")
    if node is None:
        phases = sorted(label for label in nodes if label.startswith("train/"))
        raise ConfigError(
            f"from: run {run!r} has no finished phase {phase}",
            hint=f"it has {', '.join(phases) or 'none'}",
        )
    return lake.store.generation(node["stage"], node["key"], node["content"])


def _fork(
    lake: Lake, directory: Path, phase: int, step: int, start: int, *, is_phase_end: bool
) -> ForkPoint:
    files = sorted(
        path
        for part in ("checkpoint", "state")
        for path in (directory / part).rglob("*")
        if path.is_file()
    )
    digest = sha256_json(
        {str(path.relative_to(directory)): lake.digests.digest(path) for path in files}
    )
    return ForkPoint(
        phase=phase,
        step=step,
        digest=digest,
        is_phase_end=is_phase_end,
        directory=str(directory.relative_to(lake.root)),
        phase_start=start,
    )
