"""A pipeline that is small enough to run several times in a test session."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from grpo_core.config import load_config
from grpo_core.planning.graph import ForkPoint
from grpo_core.stages import RunSession, StageResult, executor, run_stage
from grpo_core.stages.context import Made, MakeContext
from grpo_core.types import StageName

MINI = (
    "prompts.train_limit=24",
    "prompts.validation_limit=6",
    "prompts.test_limit=8",
    "prefilter.samples_per_prompt=8",
    "prefilter.prompts_per_unit=8",
    "bands.weight_unsolved=1",
    "bands.weight_solved=1",
    "train.group_size=4",
    "train.prompts_per_rollout=8",
    "train.validation_samples=2",
    'train.phases=[{"max_completion_tokens":24,"max_steps":4},'
    '{"max_completion_tokens":40,"max_steps":4}]',
    "evaluate.samples_per_prompt=4",
    "evaluate.ks=[1,4]",
    "evaluate.prompts_per_unit=4",
    "execution.checkpoint_every_steps=2",
    "execution.threads=1",
)

Maker = Callable[[MakeContext], Made]
Results = dict[str, Any]
Run = Callable[..., Results]


@pytest.fixture(scope="session")
def run_mini() -> Run:
    """Runs stages of the mini pipeline; returns node label → NodeResult."""

    def run(
        root: Path,
        *overrides: str,
        name: str = "mini",
        stages: Sequence[StageName] = tuple(StageName),
        force: Sequence[StageName] = (),
        fork: ForkPoint | None = None,
    ) -> Results:
        config = load_config("tiny", overrides=[*MINI, *overrides])
        results: list[StageResult] = []
        with RunSession.open(
            config, root=root, run=name, stages=stages, force=force, fork=fork
        ) as session:
            results += [run_stage(session.directory, stage) for stage in stages]
        return {node.label: node for result in results for node in result.nodes}

    return run


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, run_mini: Run) -> tuple[Path, Results]:
    """A lake with one finished run, not to be changed, and what the run did."""
    root = tmp_path_factory.mktemp("finished") / "lake"
    return root, run_mini(root)


@pytest.fixture
def lake_copy(tmp_path: Path, finished: tuple[Path, Results]) -> Path:
    """A copy of the finished lake that a test may change: moved, so it also proves moving."""
    import shutil

    return Path(shutil.copytree(finished[0], tmp_path / "elsewhere"))


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Runs stage ingest with another maker; returns the attempt's record and raises its error."""

    def run(maker: Maker, *overrides: str, name: str = "demo") -> dict[str, Any]:
        monkeypatch.setattr(executor, "_maker", lambda kind: maker)
        config = load_config("tiny", overrides=list(overrides))
        with RunSession.open(config, root=tmp_path, run=name, stages=[StageName.INGEST]) as opened:
            result = run_stage(opened.directory, StageName.INGEST)
        return {"state": result.state, "directory": opened.directory}

    return run
