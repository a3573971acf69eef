"""Words that several rooms share: enumerations and the small records that cross them.

Units: token counts are lengths in tokens, log-probs are nats, rates lie in [0, 1].
"""

from dataclasses import dataclass
from enum import StrEnum


class Split(StrEnum):
    """Which problems may teach, steer or judge; disjoint by problem."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


class FinishReason(StrEnum):
    """Why a completion ended, as the sampler reports it."""

    STOP = "stop"
    """An end-of-sequence id or a stop string."""
    LENGTH = "length"
    """The budget `max_completion_tokens` was used up: the completion is truncated."""


class Band(StrEnum):
    """Difficulty of a prompt for one policy, from its measured pass rate."""

    UNSOLVED = "unsolved"
    HARD = "hard"
    MEDIUM = "medium"
    EASY = "easy"
    SOLVED = "solved"
    UNKNOWN = "unknown"


class StageName(StrEnum):
    """The stages of the DAG, in order; each is a deployment `grpo/<stage>`."""

    INGEST = "ingest"
    PREFILTER = "prefilter"
    VARIANTS = "variants"
    REF_LOGP = "ref-logp"
    TRAIN = "train"
    EVALUATE = "evaluate"
    AUDIT = "audit"


class Kind(StrEnum):
    """The kinds of artefacts; the value is also what a config field names to enter its key."""

    PROMPTS = "prompts"
    SAMPLES = "samples"
    VERDICTS = "verdicts"
    BANDS = "bands"
    VARIANTS = "variants"
    REF_LOGP = "ref_logp"
    TRAIN = "train"
    EVAL_SAMPLES = "eval_samples"
    EVAL_VERDICTS = "eval_verdicts"
    AUDIT = "audit"


@dataclass(frozen=True, slots=True)
class SamplingRequest:
    """What a sampler is asked for: `num_samples` completions of one rendered prompt.

    Args:
        prompt_token_ids: The rendered prompt, [P].
        seeds: One seed per sample, [num_samples]; the same seed, prompt and policy give the same
            completion whatever else is in the batch (up to fp32 rounding of the forward pass).
        temperature: Divides the logits before the softmax; > 0.
        max_completion_tokens: Budget in tokens, end-of-sequence included.
    """

    prompt_token_ids: tuple[int, ...]
    seeds: tuple[int, ...]
    temperature: float
    max_completion_tokens: int


@dataclass(frozen=True, slots=True)
class SampledCompletion:
    """One completion as it came from the sampler; never re-tokenised.

    Args:
        token_ids: [T], end-of-sequence id included when it was sampled.
        sampling_logprobs: [T] nats, at the sampling temperature, over the full vocabulary.
        finish_reason: `stop` or `length`.
    """

    token_ids: tuple[int, ...]
    sampling_logprobs: tuple[float, ...]
    finish_reason: FinishReason
