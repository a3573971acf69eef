"""Muon: orthogonal steps of the stated size."""

import pytest
import torch

from grpo_core.tiny.muon import Muon, orthogonalised


@pytest.mark.parametrize("shape", [(6, 6), (4, 12), (12, 4)])
def test_singular_values_move_to_about_one(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonalised(matrix))
    assert values.min() > 0.5
    assert values.max() < 1.3


def test_a_step_goes_against_the_gradient_whatever_its_size() -> None:
    steps = []
    for size in (1e-3, 1e3):
        weight = torch.nn.Parameter(torch.zeros(2, 2))
        weight.grad = size * torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        Muon([weight]).step(learning_rate=0.1)
        steps.append(weight.detach())
    torch.testing.assert_close(steps[0], steps[1], rtol=1e-4, atol=1e-5)
    assert (steps[0].diagonal() < -0.05).all()


def test_a_matrix_without_gradient_stays() -> None:
    weight = torch.nn.Parameter(torch.ones(2, 3))
    Muon([weight]).step(learning_rate=0.1)
    assert torch.equal(weight, torch.ones(2, 3))
