"""A forced stage that is stopped is gone on with, and forced anew once it was finished."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grpo_core.errors import RunStoppedError
from grpo_core.stages import executor
from grpo_core.stages.context import Made, MakeContext
from grpo_core.stages.stopping import request_stop
from grpo_core.store.progress import read_events
from grpo_core.types import Kind, StageName

pytestmark = pytest.mark.slow

Maker = Callable[[MakeContext], Made]
Results = dict[str, Any]
Run = Callable[..., Results]
TRAIN = (StageName.TRAIN,)


def _computed(results: Results) -> set[str]:
    return {label for label, node in results.items() if node.state == "Computed"}


def test_forced_training_that_is_stopped_goes_on_where_it_was(
    lake_copy: Path, finished: tuple[Path, Results], run_mini: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, maker_of = lake_copy / "runs" / "mini", executor._maker

    def stopping(kind: Kind) -> Maker:
        def make(context: MakeContext) -> Made:
            if context.node.label == "train/2":
                request_stop(directory, "ada")
            return maker_of(kind)(context)

        return make

    with monkeypatch.context() as patched:
        patched.setattr(executor, "_maker", stopping)
        with pytest.raises(RunStoppedError, match="train/2 after"):
            run_mini(lake_copy, stages=TRAIN, force=TRAIN)

    again = run_mini(lake_copy, stages=TRAIN, force=TRAIN)
    assert _computed(again) == {"train/2", "bands/2"}
    notes = [
        e["text"] for e in read_events(directory / "progress.jsonl")[0] if e["event"] == "note"
    ]
    assert any(note.startswith("continued after step") for note in notes)
    assert all(again[label].content == finished[1][label].content for label in again)

    anew = run_mini(lake_copy, stages=TRAIN, force=TRAIN)
    assert _computed(anew) == {"train/1", "bands/1", "train/2", "bands/2"}


def test_forcing_does_not_need_the_record_of_an_earlier_attempt(
    lake_copy: Path, run_mini: Run
) -> None:
    run_mini(lake_copy, stages=[StageName.AUDIT])
    max((lake_copy / "runs" / "mini" / "attempts").iterdir()).unlink()
    assert _computed(run_mini(lake_copy, stages=[StageName.AUDIT], force=[StageName.AUDIT]))
