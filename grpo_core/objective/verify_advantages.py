"""Configured advantages, and a KL penalty in the reward, against their fp64 definitions.

Binary and graded rewards, an outlier, nulls, a flat group, a group with a single reward, two data
sources of which one was never seen before, and confidence weights on every second step.
"""

import torch

from grpo_core.objective.advantages import configured_advantages
from grpo_core.objective.config import AdvantageConfig, KlConfig, LossConfig
from grpo_core.objective.generated import generate_step
from grpo_core.objective.kl import kl_reward_penalty
from grpo_core.objective.presets import resolve_std
from grpo_core.objective.reference import KL
from grpo_core.objective.reference_advantages import RewardedStep, reference_advantages

ADVANTAGE_TOLERANCE = 1e-9
"""Largest relative error that fp64 rounding explains."""

_OUTLIER = 30.0


def advantage_error(
    advantage: AdvantageConfig, loss: LossConfig, *, group_size: int, seeds: int
) -> float:
    """Returns the largest |advantage - definition| over the largest |definition|; NaN stays.

    Args:
        advantage: Advantage section.
        loss: Loss section; its preset gives the divisor where `advantage.std` is unset.
        group_size: G of the generated groups.
        seeds: Generated steps.
    """
    std = resolve_std(advantage, loss)
    worst = 0.0
    for seed in range(seeds):
        step = rewarded_step(seed, group_size)
        expected = reference_advantages(step, advantage, std)
        actual = configured_advantages(
            step.rewards,
            advantage,
            loss,
            sources=step.sources,
            weights=torch.tensor(step.weights, dtype=torch.float64),
            ema_baseline=torch.tensor(
                [step.running_means.get(source, float("nan")) for source in step.sources],
                dtype=torch.float64,
            ),
        )
        target = torch.tensor(expected, dtype=torch.float64)
        scale = max(float(target.abs().max()), 1e-30)
        error = float((actual.to(torch.float64) - target).abs().max()) / scale
        worst = error if error != error else max(worst, error)
    return worst


def penalty_error(kl: KlConfig, *, seeds: int) -> float:
    """Returns the largest error of beta sum_t u_t k_t of a rollout, relative as above.

    Args:
        kl: KL section whose `place` is reward.
        seeds: Generated steps.
    """
    worst = 0.0
    for seed in range(seeds):
        step = generate_step(seed)
        weights = torch.where(step.mask, step.kl_token_weights, 0.0)
        penalties = kl_reward_penalty(
            step.old_logprobs,
            step.ref_logprobs,
            step.mask,
            kind=kl.kind,
            beta=kl.beta,
            token_weights=weights,
        )
        old, ref = step.old_logprobs.to(torch.float64), step.ref_logprobs.to(torch.float64)
        expected = [
            kl.beta * sum(float(weights[i, t] * KL[kl.kind](ref[i, t] - old[i, t])) for t in live)
            for i, live in enumerate(row.nonzero().flatten().tolist() for row in step.mask)
        ]
        target = torch.tensor(expected, dtype=torch.float64)
        scale = max(float(target.abs().max()), 1e-30)
        error = float((penalties.to(torch.float64) - target).abs().max()) / scale
        worst = error if error != error else max(worst, error)
    return worst


def rewarded_step(seed: int, group_size: int) -> RewardedStep:
    """Returns rewards, sources, weights and running means drawn from a seed."""
    draw = torch.Generator().manual_seed(seed)
    graded = torch.rand((6, group_size), generator=draw, dtype=torch.float64)
    rewards: list[list[float | None]] = [list(row) for row in graded.tolist()]
    rewards[0] = [float(value > 0.5) for value in graded[0]]
    rewards[1] = [1.0] * group_size
    rewards[2][0] = _OUTLIER
    rewards[3][-1] = None
    rewards[4] = [None] * (group_size - 1) + [1.0]
    weights = torch.ones((6, group_size), dtype=torch.float64)
    if seed % 2:
        weights = 0.25 + 0.75 * torch.rand((6, group_size), generator=draw, dtype=torch.float64)
        weights[5, 0] = 0.0
    return RewardedStep(
        rewards=rewards,
        sources=["seen", "new"] * 3,
        weights=weights.tolist(),
        running_means={"seen": 0.4},
    )
