"""Batches: what carries a label, and how much of a batch is padding."""

import re
from itertools import islice

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from grpo_core.tiny.batches import (
    DRILL_LINES,
    IGNORED,
    demonstration_batches,
    draw_demonstrations,
    drill_batches,
    to_batch,
)
from grpo_core.tiny.demonstrations import Carelessness, Demonstration
from grpo_core.tiny.problems import apply
from grpo_core.tiny.tokenizer import build_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer()


def test_labels_cover_the_completion_and_the_end_token(tokenizer: PreTrainedTokenizerFast) -> None:
    shown = [
        Demonstration("Tom has 3 pens.\nAnswer:", "#### 3", correct=True),
        Demonstration("How?\nAnswer:", "#### 12", correct=True),
    ]
    ids, labels = to_batch(tokenizer, shown)
    live = labels != IGNORED
    assert live.sum(1).tolist() == [3, 4]
    assert torch.equal(ids[live], labels[live])
    assert tokenizer.decode(labels[1][live[1]]) == "#### 12<eos>"
    assert ids[1, -1] == tokenizer.pad_token_id


def test_batches_hold_texts_of_about_the_same_length(tokenizer: PreTrainedTokenizerFast) -> None:
    shown = draw_demonstrations(Carelessness(), seed=0)
    for ids, _ in islice(demonstration_batches(tokenizer, shown, 32), 4):
        assert (ids != tokenizer.pad_token_id).float().mean() > 0.7


def test_drills_are_correct_sums_and_only_results_carry_a_label(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    ids, labels = next(drill_batches(tokenizer, seed=0, size=6))
    for row, labelled in zip(ids, labels, strict=True):
        sums = re.findall(r"<<(\d+)(.)(\d+)=(\d+)>>", tokenizer.decode(row))
        assert len(sums) == DRILL_LINES
        assert all(apply(op, int(a), int(b)) == int(result) for a, op, b, result in sums)
        results = "".join(f"{result}>>" for *_, result in sums)
        assert tokenizer.decode(labelled[labelled != IGNORED]) == results


def test_batches_are_a_function_of_the_seed(tokenizer: PreTrainedTokenizerFast) -> None:
    def first(seed: int) -> torch.Tensor:
        return next(drill_batches(tokenizer, seed=seed, size=4))[0]

    assert torch.equal(first(0), first(0))
    assert first(0).tolist() != first(1).tolist()
