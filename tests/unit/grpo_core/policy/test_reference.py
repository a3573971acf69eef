"""The reference behind its cache: only misses are scored, stale rows are refused, hits are told."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from grpo_core.config import RunConfig, load_config
from grpo_core.errors import CacheStaleError
from grpo_core.policy.origins import RefOrigin, Scorer
from grpo_core.policy.reference import Reference
from grpo_core.store import RefRow

KEY = "k" * 64


def config(*overrides: str) -> RunConfig:
    return load_config("tiny", overrides=["execution.device=cpu", *overrides])


def reference(root: Path, *overrides: str, label: str = "train/1", run: str = "a") -> Reference:
    return Reference.open(
        config(*overrides),
        root,
        weights="w" * 64,
        tokenizer="t" * 64,
        scorer=Scorer(run, 1, label, KEY),
    )


def rows(count: int) -> list[RefRow]:
    rng = np.random.default_rng(0)
    return [
        RefRow(rng.integers(1, 143, 12).tolist(), rng.integers(1, 143, 5 + n % 9).tolist(), 1.0)
        for n in range(count)
    ]


def test_a_partly_filled_cache_gives_the_bits_of_an_empty_one(tmp_path: Path) -> None:
    whole = reference(tmp_path / "empty").read(rows(20)).logprobs
    filled = reference(tmp_path / "filled")
    filled.read(rows(20)[5:9])
    mixed = filled.read(rows(20))
    assert (filled.hits, filled.misses) == (4, 20)
    for expected, got in zip(whole, mixed.logprobs, strict=True):
        np.testing.assert_array_equal(expected, got)


def test_each_hit_is_told_apart_and_a_second_asking_counts_nothing(tmp_path: Path) -> None:
    first = reference(tmp_path, label="ref_logp")
    assert first.read(rows(3)).origins == [RefOrigin.SCORED] * 3
    second = reference(tmp_path, run="b")
    read = second.read(rows(4))
    assert read.origins == [RefOrigin.PREFILTER] * 3 + [RefOrigin.SCORED]
    assert second.read(rows(4)) is read
    assert (second.hits, second.misses) == (3, 1)


def test_rows_that_are_equal_are_scored_once(tmp_path: Path) -> None:
    """A prompt may draw the same completion twice in one batch."""
    one, other = rows(2)
    asked = reference(tmp_path)
    read = asked.read([one, other, one, RefRow(*dataclasses.astuple(one)), other])
    assert (asked.hits, asked.misses) == (3, 2)
    assert read.origins == [RefOrigin.SCORED] * 2 + [RefOrigin.REPEAT] * 3
    for n, same in enumerate((0, 1, 0, 0, 1)):
        np.testing.assert_array_equal(read.logprobs[n], read.logprobs[same])
    assert min(read.seconds[:2]) > max(read.seconds[2:])
    assert asked.cache.num_rows == 2
    assert reference(tmp_path).read([one, other]).origins == [RefOrigin.REPEAT] * 2


@pytest.mark.parametrize(
    ("signature", "is_forced", "origin"),
    [
        (f"a 1 ref_logp {KEY[:12]}", False, RefOrigin.PREFILTER),
        ("a 2 train/1 other", False, RefOrigin.REPEAT),
        (f"a 1 train/2 {KEY[:12]}", False, RefOrigin.RESUME),
        (f"a 1 train/2 {KEY[:12]}", True, RefOrigin.GENERATION),
        ("a 1 train/2 other", False, RefOrigin.RERUN),
        ("b 1 train/2 other", False, RefOrigin.SWEEP),
        ("", False, RefOrigin.UNKNOWN),
    ],
)
def test_origin_of_a_row(signature: str, is_forced: bool, origin: RefOrigin) -> None:
    assert Scorer("a", 2, "train/2", KEY, is_forced).origin_of(signature) is origin


@pytest.mark.parametrize("damage", ["shifted", "bf16"])
def test_cached_rows_that_the_reference_does_not_confirm_are_refused(
    tmp_path: Path, damage: str
) -> None:
    right = reference(tmp_path / "right").read(rows(12)).logprobs
    wrong = [
        values - np.float32(0.01)
        if damage == "shifted"
        else (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
        for values in right
    ]
    stale = reference(tmp_path / "stale")
    stale.cache.absorb([row.key for row in rows(12)], wrong, [""] * 12)
    with pytest.raises(CacheStaleError, match=r"the cache says .* the reference"):
        stale.read(rows(12))
    trusting = reference(tmp_path / "stale", "execution.reference.check_rows=0")
    assert trusting.read(rows(12)).origins == [RefOrigin.UNKNOWN] * 12


def test_the_model_is_loaded_for_a_miss_or_a_proof_and_else_never(tmp_path: Path) -> None:
    assert reference(tmp_path)._loaded is None
    reference(tmp_path).read(rows(3))
    trusting = reference(tmp_path, "execution.reference.check_rows=0")
    trusting.read(rows(3))
    assert (trusting.hits, trusting._loaded) == (3, None)
    proving = reference(tmp_path)
    proving.read(rows(3))
    assert proving._loaded is not None


@pytest.mark.parametrize(("share", "stays"), [("0", False), ("0.25", True)])
def test_a_reference_that_fits_stays_in_memory(tmp_path: Path, share: str, stays: bool) -> None:
    opened = reference(tmp_path, f"execution.reference.memory_share={share}")
    opened.read(rows(2))
    opened.release()
    assert (opened._loaded is not None) == stays
    assert opened.read(rows(3)).origins[-1] is RefOrigin.SCORED
