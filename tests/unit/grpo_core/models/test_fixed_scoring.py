"""Scoring in fixed shapes: a row's bits depend on nothing but the row."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from grpo_core.errors import DataContractError
from grpo_core.models.fixed_scoring import (
    HEAD_POSITIONS,
    padded_length,
    rows_per_pass,
    score_fixed,
)
from grpo_core.models.head import FullLogits, check_head
from grpo_core.models.load import load_policy
from grpo_core.models.scoring import TokenRow, score
from grpo_core.paths import resolve_path


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    return load_policy(
        Path(resolve_path("data/models/tiny")),
        dtype="float32",
        attention="sdpa",
        trust_remote_code=False,
        device=torch.device("cpu"),
    )


def make_rows(count: int) -> list[TokenRow]:
    rng = np.random.default_rng(0)
    return [
        (
            rng.integers(1, 143, rng.integers(4, 60)).tolist(),
            rng.integers(1, 143, rng.integers(0, 40)).tolist(),
        )
        for _ in range(count)
    ]


def test_company_order_and_padding_move_no_bit(model: torch.nn.Module) -> None:
    rows, head = make_rows(90), check_head(model)
    heat = [0.8 + 0.1 * (n % 4) for n in range(len(rows))]
    expected = score_fixed(model, rows, heat, head)
    rng = np.random.default_rng(1)
    for count in (1, 7, 60):
        chosen = rng.permutation(len(rows))[:count]
        got = score_fixed(model, [rows[n] for n in chosen], [heat[n] for n in chosen], head)
        for n, values in zip(chosen, got, strict=True):
            np.testing.assert_array_equal(values, expected[n])


@pytest.mark.parametrize("is_full", [False, True])
def test_values_are_those_of_plain_scoring(model: torch.nn.Module, is_full: bool) -> None:
    rows = make_rows(40)
    head = FullLogits() if is_full else check_head(model)
    plain = score(model, rows, [0.9] * 40, rows_per_batch=40)
    for fixed, expected in zip(score_fixed(model, rows, [0.9] * 40, head), plain, strict=True):
        np.testing.assert_allclose(fixed, expected, atol=2e-4)


class LargestLogits(TorchDispatchMode):
    """Notes the most positions whose values over the whole vocabulary exist in one tensor."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.vocabulary, self.positions = vocabulary, 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> torch.Tensor:
        result: torch.Tensor = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.shape[-1:] == (self.vocabulary,):
            self.positions = max(self.positions, result.numel() // self.vocabulary)
        return result


def test_the_logits_of_a_pass_never_exist_at_once(model: torch.nn.Module) -> None:
    rng = np.random.default_rng(0)
    rows = [(rng.integers(1, 143, 4).tolist(), rng.integers(1, 143, 60).tolist())] * 30
    head = check_head(model)
    with LargestLogits(model.get_output_embeddings().weight.shape[0]) as seen:
        score_fixed(model, rows, [1.0] * len(rows), head)
    assert 0 < seen.positions <= HEAD_POSITIONS < 30 * 60


@pytest.mark.parametrize(
    ("rows", "heat", "reason"),
    [
        ([((5,), (1, 2)), ((), (1, 2, 3))], [1.0, 1.0], "row 1: empty prompt"),
        ([((), ())], [1.0], "row 0: empty prompt"),
        ([((5,), (1, 2))], [1.0, 1.0], "1 rows but 2 temperatures"),
    ],
)
def test_rows_that_nothing_predicts_are_refused(
    model: torch.nn.Module, rows: list[TokenRow], heat: list[float], reason: str
) -> None:
    with pytest.raises(DataContractError, match=reason):
        score_fixed(model, rows, heat, check_head(model))


def test_nothing_to_score_gives_nothing(model: torch.nn.Module) -> None:
    assert score_fixed(model, [], [], check_head(model)) == []


@pytest.mark.parametrize("tokens", [1, 16, 17, 255, 256, 257, 2047, 2049, 5000])
def test_padding_is_an_eighth_at_most_and_a_pass_is_never_empty(tokens: int) -> None:
    length = padded_length(tokens)
    assert tokens <= length < tokens + max(16, tokens / 7)
    assert rows_per_pass(length) >= 1
