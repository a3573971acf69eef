"""How values worked out by hand are written; they are in the `values_*` modules.

Each check takes the objective's modules, so that the mutation tests can hand it broken ones.
"""

import math
from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor

from grpo_core.errors import DataContractError
from grpo_core.objective.config import KlConfig, LossConfig

Check = Callable[[SimpleNamespace], None]
CHECKS: list[Check] = []

NAN = float("nan")
SQRT2 = math.sqrt(2.0)


def golden(check: Check) -> Check:
    CHECKS.append(check)
    return check


def close(actual: object, expected: object, tolerance: float = 1e-12) -> None:
    """Asserts equal shape and values; NaN equals nothing."""
    left = torch.as_tensor(actual, dtype=torch.float64)
    right = torch.as_tensor(expected, dtype=torch.float64)
    assert left.shape == right.shape, (left.shape, right.shape)
    assert bool(((left - right).abs() <= tolerance).all()), (left, right)


def f64(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def refused(call: Callable[..., object], *arguments: object, **options: object) -> None:
    """Asserts that a call raises DataContractError."""
    try:
        call(*arguments, **options)
    except DataContractError:
        return
    raise AssertionError(f"accepted {arguments} {options}")


def loss_of(
    o: SimpleNamespace,
    config: LossConfig,
    log_ratio: list[list[float]],
    advantages: object,
    mask: list[list[int]] | None = None,
    *,
    kl: KlConfig | None = None,
    beta: float | None = None,
    old: float = -1.0,
    **optional: Tensor,
) -> tuple[float, Tensor, dict[str, float], Tensor]:
    """Returns loss, gradient to logprobs, metrics and token weights of a one-batch step."""
    gaps = f64(log_ratio)
    old_logprobs = torch.full_like(gaps, old)
    logprobs = (old_logprobs + gaps).requires_grad_()
    live = torch.ones_like(gaps, dtype=torch.bool) if mask is None else torch.tensor(mask) == 1
    batch = o.batch.LossBatch.whole_step(logprobs, old_logprobs, f64(advantages), live, **optional)
    output = o.losses.policy_loss(batch, config, kl=kl, beta=beta)
    output.loss.backward()
    metrics = o.metrics.finalize_metrics(output.metrics, batch.totals)
    return float(output.loss.detach()), logprobs.grad, metrics, output.token_weights
