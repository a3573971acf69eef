"""One plain fp64 definition of each method, written with loops, as its paper writes it.

Nothing here is shared with the production loss: it is what that one is checked against.
i runs over rollouts, t over the live tokens of a rollout. A rollout of a dropped group has no
live tokens. Log-probs are fp64 tensors with gradient, everything else plain numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, expm1

import torch
from torch import Tensor

TAIL_NATS = 30.0
"""Where exp is continued by its tangent; that of the production loss in fp32."""


@dataclass(frozen=True)
class ReferenceStep:
    """A whole optimiser step.

    Attributes:
        logprobs: Current policy, fp64 [N, T], with gradient.
        old_logprobs: [N][T].
        advantages: One a token, [N][T].
        live: Positions of the live tokens of each rollout.
        groups: Group of each rollout.
        sampled_rollouts: Dropped ones included.
        ref_logprobs: [N][T].
        sampling_logprobs: [N][T], NaN where the sampler reported none.
        kl_token_weights: [N][T].
    """

    logprobs: Tensor
    old_logprobs: list[list[float]]
    advantages: list[list[float]]
    live: list[list[int]]
    groups: list[int]
    sampled_rollouts: int
    ref_logprobs: list[list[float]] | None = None
    sampling_logprobs: list[list[float]] | None = None
    kl_token_weights: list[list[float]] | None = None

    @property
    def rollouts(self) -> list[int]:
        """Rollouts with at least one live token."""
        return [i for i, tokens in enumerate(self.live) if tokens]

    def log_ratio(self, i: int, t: int) -> Tensor:
        """Log r_{i,t} = log pi_theta - log pi_old."""
        return self.logprobs[i, t] - self.old_logprobs[i][t]

    def ratio(self, i: int, t: int) -> Tensor:
        """r_{i,t} = pi_theta / pi_old."""
        return tangent_exp(self.log_ratio(i, t))

    def sequence_ratio(self, i: int) -> Tensor:
        """s_i = (pi_theta(o_i) / pi_old(o_i))^(1 / |o_i|), GSPO eq. 7."""
        total = torch.zeros((), dtype=torch.float64)
        for t in self.live[i]:
            total = total + self.log_ratio(i, t)
        return tangent_exp(total / len(self.live[i]))


def tangent_exp(x: Tensor) -> Tensor:
    """e^x, continued by its tangent above TAIL_NATS."""
    if float(x.detach()) <= TAIL_NATS:
        return torch.exp(x)
    return exp(TAIL_NATS) * (1.0 + x - TAIL_NATS)


def clipped_gain(
    ratio: Tensor, advantage: float, low: float, high: float, dual: float | None = None
) -> Tensor:
    """min(r A, clip(r, 1 - low, 1 + high) A); at least dual x A for A < 0 (arXiv 1912.09729)."""
    bounded = ratio
    if float(ratio.detach()) < 1.0 - low:
        bounded = ratio.detach() * 0.0 + (1.0 - low)
    elif float(ratio.detach()) > 1.0 + high:
        bounded = ratio.detach() * 0.0 + (1.0 + high)
    plain, held = ratio * advantage, bounded * advantage
    gain = plain if float(plain.detach()) <= float(held.detach()) else held
    if dual is not None and advantage < 0 and float(gain.detach()) < dual * advantage:
        gain = gain.detach() * 0.0 + dual * advantage
    return gain


def grpo(step: ReferenceStep) -> Tensor:
    """-1/G sum_i 1/|o_i| sum_t min(r A, clip(r, 0.8, 1.2) A); DeepSeekMath eq. 3, beta 0."""
    total = torch.zeros((), dtype=torch.float64)
    for i in step.rollouts:
        row = torch.zeros((), dtype=torch.float64)
        for t in step.live[i]:
            row = row + clipped_gain(step.ratio(i, t), step.advantages[i][t], 0.2, 0.2)
        total = total + row / len(step.live[i])
    return -total / max(len(step.rollouts), 1)


def dapo(step: ReferenceStep) -> Tensor:
    """-1/(sum_i |o_i|) sum_i sum_t min(r A, clip(r, 0.8, 1.28) A); DAPO eq. 8."""
    total, tokens = torch.zeros((), dtype=torch.float64), 0
    for i in step.rollouts:
        for t in step.live[i]:
            total = total + clipped_gain(step.ratio(i, t), step.advantages[i][t], 0.2, 0.28)
            tokens += 1
    return -total / max(tokens, 1)


def dr_grpo(step: ReferenceStep, length: int) -> Tensor:
    """-1/(sampled x L) sum_i sum_t min(r A, clip(r, 0.8, 1.2) A); Dr. GRPO section 3.2."""
    total = torch.zeros((), dtype=torch.float64)
    for i in step.rollouts:
        for t in step.live[i]:
            total = total + clipped_gain(step.ratio(i, t), step.advantages[i][t], 0.2, 0.2)
    return -total / (step.sampled_rollouts * length)


def gspo(step: ReferenceStep) -> Tensor:
    """-1/G sum_i min(s_i A_i, clip(s_i, 1 - 3e-4, 1 + 4e-4) A_i); GSPO eq. 5.

    With advantages a token, A_i is replaced token by token and averaged over the rollout.
    """
    total = torch.zeros((), dtype=torch.float64)
    for i in step.rollouts:
        s, row = step.sequence_ratio(i), torch.zeros((), dtype=torch.float64)
        for t in step.live[i]:
            row = row + clipped_gain(s, step.advantages[i][t], 3e-4, 4e-4)
        total = total + row / len(step.live[i])
    return -total / max(len(step.rollouts), 1)


def gspo_token(step: ReferenceStep) -> Tensor:
    """-1/G sum_i 1/|o_i| sum_t min(s_t A_t, clip(s_t) A_t), s_t = sg[s_i] pi_t / sg[pi_t].

    GSPO eq. 13 and 14.
    """
    total = torch.zeros((), dtype=torch.float64)
    for i in step.rollouts:
        s, row = step.sequence_ratio(i).detach(), torch.zeros((), dtype=torch.float64)
        for t in step.live[i]:
            own = s * torch.exp(step.logprobs[i, t] - step.logprobs[i, t].detach())
            row = row + clipped_gain(own, step.advantages[i][t], 3e-4, 4e-4)
        total = total + row / len(step.live[i])
    return -total / max(len(step.rollouts), 1)


def cispo(step: ReferenceStep, cap: float = 5.0) -> Tensor:
    """-1/(sum_i |o_i|) sum_i sum_t sg[min(r, cap)] A log pi; MiniMax-M1 eq. 4 and 5."""
    total, tokens = torch.zeros((), dtype=torch.float64), 0
    for i in step.rollouts:
        for t in step.live[i]:
            weight = min(float(step.ratio(i, t).detach()), cap)
            total = total + weight * step.advantages[i][t] * step.logprobs[i, t]
            tokens += 1
    return -total / max(tokens, 1)


def kl_k1(d: Tensor) -> Tensor:
    """K1 = -d with d = log pi_ref - log pi_theta."""
    return -d


def kl_k2(d: Tensor) -> Tensor:
    """K2 = d^2 / 2."""
    return d * d / 2.0


def kl_k3(d: Tensor) -> Tensor:
    """K3 = e^d - 1 - d."""
    if float(d.detach()) <= TAIL_NATS:
        return torch.expm1(d) - d
    return expm1(TAIL_NATS) + exp(TAIL_NATS) * (d - TAIL_NATS) - d


KL: dict[str, Callable[[Tensor], Tensor]] = {"k1": kl_k1, "k2": kl_k2, "k3": kl_k3}


def group_advantages(
    rewards: list[float | None], std: str = "sample", eps: float = 1e-6
) -> list[float]:
    """A_i = (R_i - mean(R)) / (std(R) + eps) over rewards that are not null; null gives 0."""
    known = [r for r in rewards if r is not None]
    if len(known) < 2 or max(known) - min(known) <= 1e-9:
        return [0.0 for _ in rewards]
    mean = sum(known) / len(known)
    freedom = len(known) - 1 if std == "sample" else len(known)
    deviation = (sum((r - mean) ** 2 for r in known) / freedom) ** 0.5
    divisor = 1.0 if std == "none" else deviation + eps
    return [0.0 if r is None else (r - mean) / divisor for r in rewards]
