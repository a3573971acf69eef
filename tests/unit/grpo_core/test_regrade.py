"""Saved completions under the present verifier: counted, compared, and the lake left alone."""

import hashlib
from collections import Counter
from pathlib import Path

import pytest
from lake_fixture import LakeFixture, make_lake

from grpo_core.config import load_config
from grpo_core.errors import StageInputError
from grpo_core.regrade import regrade
from grpo_core.rewards import grade
from grpo_core.store.catalog import Catalog

CONFIG = load_config("tiny", overrides=["execution.verifier_workers=1"])


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> tuple[LakeFixture, Catalog, Path]:
    fixture, directory = make_lake(), tmp_path_factory.mktemp("lake")
    return fixture, fixture.write(directory), directory


def _files(directory: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_the_confusion_counts_every_completion(
    lake: tuple[LakeFixture, Catalog, Path],
) -> None:
    fixture, catalog, directory = lake
    before = _files(directory)
    with regrade(catalog, "tiny", CONFIG) as warehouse:
        confusion = warehouse.run_regrade("regrade_confusion").dicts()
        changes = warehouse.run_regrade("regrade_changes").dicts()
    golds = {row["prompt_id"]: row["gold"] for row in fixture.rows("prompts", "prompts")}
    verdicts = fixture.rows("verdicts", "verdicts")
    samples = fixture.rows("samples", "samples")
    expected = Counter(
        (verdict["label"], grade(sample["text"], golds[sample["prompt_id"]]).label.value)
        for sample, verdict in zip(samples, verdicts, strict=True)
    )
    counted = {
        (row["label_before"], row["label_after"]): row["num_completions"]
        for row in confusion
        if row["stage"] == "prefilter"
    }
    assert counted == expected
    assert {row["stage"] for row in confusion} == {"prefilter", "train", "evaluate"}
    num_rollouts = sum(row["num_completions"] for row in confusion if row["stage"] == "train")
    assert num_rollouts == len(list(fixture.all_rows("rollouts")))
    moved = sum(n for (old, new), n in expected.items() if old != new)
    assert moved
    assert sum(row["stage"] == "prefilter" for row in changes) == moved
    assert all(row["completion_text"] for row in changes)
    assert _files(directory) == before


def test_bands_are_made_again_from_the_new_verdicts(
    lake: tuple[LakeFixture, Catalog, Path],
) -> None:
    fixture, catalog, _ = lake
    golds = {row["prompt_id"]: row["gold"] for row in fixture.rows("prompts", "prompts")}
    right = Counter(
        sample["prompt_id"]
        for sample in fixture.rows("samples", "samples")
        if grade(sample["text"], golds[sample["prompt_id"]]).label.value == "correct"
    )
    with regrade(catalog, "tiny", CONFIG) as warehouse:
        changes = warehouse.run_regrade("regrade_band_changes").dicts()
    assert changes
    stored = {row["prompt_id"]: row["band"] for row in fixture.rows("bands/0", "bands")}
    for row in changes:
        assert row["band_before"] != row["band_after"]
        if row["phase"] == 0:
            assert row["band_before"] == stored[row["prompt_id"]]
            assert (row["pass_rate_after"] == 0) == (right[row["prompt_id"]] == 0)


def test_other_options_change_other_verdicts(lake: tuple[LakeFixture, Catalog, Path]) -> None:
    catalog = lake[1]
    strict = load_config(
        "tiny",
        overrides=[
            "reward.verifier.fallback=none",
            "reward.verifier.limits.max_completion_chars=1",
        ],
    )
    with regrade(catalog, "tiny", strict) as warehouse:
        rows = warehouse.run_regrade("regrade_confusion").dicts()
    labels = Counter(row["label_after"] for row in rows)
    assert set(labels) == {"unparseable"}


def test_a_run_without_completions_is_an_error() -> None:
    with (
        pytest.raises(StageInputError, match="no graded completions"),
        regrade(Catalog((), (), (), {}), "tiny", CONFIG),
    ):
        pass
