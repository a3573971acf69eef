"""A configured loss against its fp64 definition, over micro-batch splits, paddings and orders.

What `grpo verify-loss` prints.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from grpo_core.objective.aggregation import aggregation_weights
from grpo_core.objective.batch import StepTotals, step_totals
from grpo_core.objective.checks import Finding, RunFacts, check_objective
from grpo_core.objective.config import AdvantageConfig, KlConfig, LossConfig, MaskConfig
from grpo_core.objective.generated import GeneratedStep, generate_step
from grpo_core.objective.losses import policy_loss
from grpo_core.objective.presets import ResolvedLoss, resolve_loss, resolve_std
from grpo_core.objective.reference_options import reference_loss
from grpo_core.objective.verify_advantages import (
    ADVANTAGE_TOLERANCE,
    advantage_error,
    penalty_error,
)
from grpo_core.objective.verify_masks import MaskComparison, compare_masks

TOLERANCE = 1e-5
"""Largest relative error that fp32 rounding explains on the generated steps."""

_TOKEN_DRIFT = 0.3
_SEQUENCE_DRIFT = 1e-3
_SEEDS = 4
_GROUP_SIZE = 4


@dataclass(frozen=True)
class Arrangement:
    """One way to present a step: rows of each micro-batch, and padding columns.

    Attributes:
        name: For the report.
        parts: Row indices of each micro-batch, each row exactly once.
        left: Padding columns before the tokens.
        right: Padding columns after them.
        is_ranked: Each part is a rank that counts its own rows; the counts are then summed.
    """

    name: str
    parts: tuple[Tensor, ...]
    left: int = 0
    right: int = 0
    is_ranked: bool = False


@dataclass(frozen=True)
class VerifiedCase:
    """Errors of one arrangement, relative to the largest reference value of the step."""

    step: int
    arrangement: str
    loss_error: float
    gradient_error: float


@dataclass(frozen=True)
class WeightRow:
    """What one rollout of a generated step weighs in the loss.

    Attributes:
        length_tokens: Live tokens.
        token_weight: Of each of its tokens.
        rollout_weight: Of all of them.
        relative_weight: token_weight over that of the plain token mean; 1 means no preference.
    """

    length_tokens: int
    token_weight: float
    rollout_weight: float
    relative_weight: float


@dataclass(frozen=True)
class VerifyReport:
    """Result of `verify_loss`.

    Attributes:
        resolved: The options that the loss ran with.
        cases: Errors of every step and arrangement.
        weights: Effective weight of each rollout of the first step.
        findings: What the configuration does not do although it reads so.
        advantage_error: Largest relative error of the configured advantages, in fp64.
        penalty_error: Largest relative error of the KL penalty; None unless it is in the reward.
        masks: Tokens that the configured masks were compared on.
        tolerance: Largest error of loss and gradient that passes.
    """

    resolved: ResolvedLoss
    cases: tuple[VerifiedCase, ...]
    weights: tuple[WeightRow, ...]
    findings: tuple[Finding, ...]
    advantage_error: float
    penalty_error: float | None
    masks: MaskComparison
    tolerance: float = TOLERANCE

    @property
    def max_loss_error(self) -> float:
        """Largest relative error of the loss."""
        return max(case.loss_error for case in self.cases)

    @property
    def max_gradient_error(self) -> float:
        """Largest relative error of the gradient."""
        return max(case.gradient_error for case in self.cases)

    @property
    def passed(self) -> bool:
        """Whether all of it agrees everywhere; NaN never does."""
        errors = [e for case in self.cases for e in (case.loss_error, case.gradient_error)]
        errors += [] if self.penalty_error is None else [self.penalty_error]
        agrees = all(error <= self.tolerance for error in errors)
        return agrees and self.advantage_error <= ADVANTAGE_TOLERANCE and self.masks.wrong == 0


def verify_loss(
    loss: LossConfig,
    *,
    advantage: AdvantageConfig | None = None,
    kl: KlConfig | None = None,
    mask: MaskConfig | None = None,
    facts: RunFacts | None = None,
    seeds: int = _SEEDS,
) -> VerifyReport:
    """Returns how far a configured loss is from its fp64 definition on generated steps.

    Args:
        loss: Loss section of the run.
        advantage: Advantage section, compared with its own definition.
        kl: KL section; its term, in the loss or in the reward, is part of the comparison.
        mask: Mask section, compared with its own definition.
        facts: What else the run decides; for the findings and for the constant of
            `constant_length`.
        seeds: Generated steps; every second one has advantages a token.

    Raises:
        ConfigError: The configuration is not legal; see `resolve_loss`.
    """
    known = facts or RunFacts()
    longest = max(known.phase_tokens) if known.phase_tokens else None
    resolved = resolve_loss(loss, longest_completion_tokens=longest)
    section = advantage or AdvantageConfig()
    std = resolve_std(section, loss)
    steps = [
        generate_step(
            seed,
            drift=_TOKEN_DRIFT if resolved.ratio == "token" else _SEQUENCE_DRIFT,
            std=std,
            per_token=seed % 2 == 1,
        )
        for seed in range(seeds)
    ]
    term = kl if kl is not None and kl.place == "loss" else None
    cases = [
        case for index, step in enumerate(steps) for case in _cases(index, step, resolved, term)
    ]
    return VerifyReport(
        resolved=resolved,
        cases=tuple(cases),
        weights=tuple(_weight_rows(steps[0], resolved)),
        findings=tuple(check_objective(loss, advantage=advantage, kl=kl, mask=mask, facts=facts)),
        advantage_error=advantage_error(
            section, loss, group_size=known.group_size or _GROUP_SIZE, seeds=seeds
        ),
        penalty_error=penalty_error(kl, seeds=seeds) if kl and kl.place == "reward" else None,
        masks=compare_masks(mask or MaskConfig(), seeds=seeds),
    )


def arrangements(rows: int, seed: int = 0) -> Iterator[Arrangement]:
    """Yields the ways in which a step of that many rows is presented."""
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    inside = torch.arange(rows)
    yield Arrangement("whole step", (inside,))
    yield Arrangement("one row each", torch.split(inside, 1))
    yield Arrangement("uneven parts, shuffled", torch.split(order, [1, 2, rows - 3]))
    yield Arrangement("padded left 5", (inside,), left=5)
    yield Arrangement(
        "padded both sides, in three, shuffled", torch.split(order, -(-rows // 3)), 2, 7
    )
    yield Arrangement(
        "two ranks", torch.split(order, [rows // 3, rows - rows // 3]), is_ranked=True
    )


def run_arrangement(
    step: GeneratedStep,
    how: Arrangement,
    config: ResolvedLoss,
    kl: KlConfig | None = None,
    needs: tuple[str, ...] = (),
) -> tuple[float, Tensor]:
    """Returns loss and gradient [N, T] of a step summed over the micro-batches of one arrangement.

    Args:
        step: The whole step.
        how: Rows of each micro-batch and padding.
        config: Resolved loss.
        kl: KL section.
        needs: Optional tensors of the batch.
    """
    logprobs = step.logprobs.clone().requires_grad_()
    whole = replace(step, logprobs=logprobs)
    totals = _totals_of_ranks(step, how.parts) if how.is_ranked else step.totals
    loss = 0.0
    for part in how.parts:
        batch = whole.rows(part).padded(how.left, how.right).batch(totals, needs=needs)
        output = policy_loss(batch, config, kl=kl)
        torch.autograd.backward(output.loss)
        loss += float(output.loss.detach())
    gradient = logprobs.grad if logprobs.grad is not None else torch.zeros_like(logprobs)
    return loss, gradient


def _totals_of_ranks(step: GeneratedStep, parts: tuple[Tensor, ...]) -> StepTotals:
    """Returns what every rank counts when an all-reduce sums the counts of all of them."""
    counted: list[Tensor] = []

    def all_reduce(mine: Tensor) -> Tensor:
        counted.append(mine)
        return torch.stack(counted).sum(dim=0)

    for part in parts:
        totals = step_totals(
            step.mask[part],
            group_index=step.group_index[part],
            num_groups=int(step.group_index.max()) + 1,
            reduce_sum=all_reduce,
        )
    return totals


def _cases(
    index: int, step: GeneratedStep, config: ResolvedLoss, kl: KlConfig | None
) -> Iterator[VerifiedCase]:
    needs: tuple[str, ...] = ("sampling_logprobs",)
    if kl is not None:
        needs = (*needs, "ref_logprobs", "kl_token_weights")
    reference = step.reference(needs=needs)
    expected = reference_loss(reference, config, kl, beta=kl.beta if kl is not None else 0.0)
    (gradient,) = torch.autograd.grad(expected, [reference.logprobs])
    gradient = torch.where(step.mask, gradient, 0.0)
    scale = max(float(gradient.abs().max()), 1e-30)
    # The loss is a sum of terms of either sign, so its error is measured against their size.
    size = max(abs(float(expected.detach())), scale)
    for how in arrangements(step.mask.shape[0], seed=index):
        value, actual = run_arrangement(step, how, config, kl, needs)
        yield VerifiedCase(
            step=index,
            arrangement=how.name,
            loss_error=abs(value - float(expected.detach())) / size,
            gradient_error=float((actual.to(torch.float64) - gradient).abs().max()) / scale,
        )


def _weight_rows(step: GeneratedStep, config: ResolvedLoss) -> Iterator[WeightRow]:
    totals = step.totals
    weights = aggregation_weights(step.mask, totals, config, step.group_index)
    for row, tokens in zip(weights, step.mask, strict=True):
        live = int(tokens.sum())
        if live:
            weight = float(row.max())
            yield WeightRow(live, weight, float(row.sum()), weight * totals.live_tokens)
