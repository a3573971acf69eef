"""The sync proof's first half: does an engine do what the trainer's weights do?

An engine that runs apart from the trainer can keep old weights, take them over in part or pack them
wrongly, and go on sampling without any error. So it samples a few probes, and the trainer scores
the very same tokens: only weights that are equal, up to rounding, give log-probs that are. The
other half compares their bits; see `checksum`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from grpo_core.errors import SamplerError
from grpo_core.types import SampledCompletion, SamplingRequest

Logprobs = npt.NDArray[np.float32]
Draw = Callable[[Sequence[SamplingRequest]], list[list[SampledCompletion]]]
Score = Callable[[Sequence[tuple[Sequence[int], Sequence[int]]], Sequence[float]], list[Logprobs]]
"""(prompt ids, completion ids) of each row and its temperature -> log-probs [T] of each row."""

PROBE_TEMPERATURES = (1.0, 0.7)
"""At T = 1 alone, log-probs that ignore the temperature would pass."""
PROOF_HINT = (
    "nothing was sampled with these weights; use execution.engine = hf, or another attention or "
    "dtype, if it comes again"
)
_PROMPT_TOKENS = (3, 12)
_COMPLETION_TOKENS = 8
_SAMPLES = 4


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Largest allowed difference in nats a token.

    Args:
        mean: Of the mean over all probe tokens.
        most: Of any single token.
    """

    mean: float
    most: float


TOLERANCES = {"float32": Tolerance(1e-4, 1e-3), "bfloat16": Tolerance(1.2e-1, 1.0)}
"""By dtype. vLLM and transformers agree to 1e-6 (tiny model) and 1e-5 (30 layers) in fp32. bf16
rounds after each layer: 0.05 on average and 0.2 at most over 30 layers. So only weights
that are wrong can be told apart, not weights that are small steps old."""


@dataclass(frozen=True, slots=True)
class SyncProof:
    """What a proof measured.

    Args:
        num_tokens: Probe tokens compared.
        mean_difference: Mean absolute difference in nats.
        most_difference: Largest absolute difference in nats.
    """

    num_tokens: int
    mean_difference: float
    most_difference: float


def probe_requests(vocabulary_size: int, context_tokens: int) -> list[SamplingRequest]:
    """Probes of random tokens, the same in every proof; they fit into any context of 4 or more."""
    rng = np.random.default_rng(0)
    budget = max(1, min(_COMPLETION_TOKENS, context_tokens // 4))
    return [
        SamplingRequest(
            tuple(rng.integers(0, vocabulary_size, min(length, context_tokens - budget)).tolist()),
            tuple(range(_SAMPLES)),
            temperature,
            budget,
        )
        for length in _PROMPT_TOKENS
        for temperature in PROBE_TEMPERATURES
    ]


def prove(
    draw: Draw, score: Score, requests: Sequence[SamplingRequest], tolerance: Tolerance
) -> SyncProof:
    """Sample the probes and compare with the trainer's log-probs of the same tokens.

    Args:
        draw: Samples from the engine.
        score: Scores with the trainer's weights.
        requests: From `probe_requests`.
        tolerance: What may differ.

    Raises:
        SamplerError: The log-probs differ by more than the tolerance.
        NonFiniteError: The engine gave NaN log-probs.
    """
    drawn = draw(requests)
    pairs = [
        (request, completion)
        for request, completions in zip(requests, drawn, strict=True)
        for completion in completions
    ]
    scored = score(
        [(request.prompt_token_ids, completion.token_ids) for request, completion in pairs],
        [request.temperature for request, _ in pairs],
    )
    sampled = [np.asarray(completion.sampling_logprobs) for _, completion in pairs]
    differences = [np.abs(a - b) for a, b in zip(sampled, scored, strict=True)]
    flat = np.concatenate(differences)
    proof = SyncProof(len(flat), float(flat.mean()), float(flat.max()))
    # `not <=` instead of `>`: a NaN of the trainer must not pass
    if not (proof.mean_difference <= tolerance.mean and proof.most_difference <= tolerance.most):
        worst = max(range(len(pairs)), key=lambda n: float(differences[n].max()))
        token = int(differences[worst].argmax())
        raise SamplerError(
            f"the engine does not hold the trainer's weights: over {proof.num_tokens} probe tokens "
            f"log-probs differ by {proof.mean_difference:.2g} nats on average (allowed "
            f"{tolerance.mean:g}) and {proof.most_difference:.2g} at most (allowed "
            f"{tolerance.most:g}); at temperature {pairs[worst][0].temperature:g}, token {token}: "
            f"engine {sampled[worst][token]:.4f}, trainer {scored[worst][token]:.4f}",
            PROOF_HINT,
        )
    return proof
