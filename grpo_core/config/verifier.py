"""Config section of the verifier: every grading rule that is a choice."""

from typing import Any, Literal

from pydantic import Field

from grpo_core.config.fields import Section, keyed
from grpo_core.types import Kind

_GOLDS = (Kind.PROMPTS, Kind.VERDICTS, Kind.TRAIN, Kind.EVAL_VERDICTS)


def _choice(default: Any, **constraints: Any) -> Any:
    """A grading rule; at its default it is in no key, so that a new rule keeps every lake."""
    return keyed(default, *_GOLDS, absent=default, **constraints)


class LimitsConfig(Section):
    """How much text is read."""

    max_completion_chars: int = _choice(200_000, ge=1)
    """Only the last so many visible characters are looked at."""
    max_answer_chars: int = _choice(10_000, ge=1)
    """Longer answers are unparseable; plain numbers may have any length."""


class VerifierConfig(Section):
    """The choices of the `math` verifier, and of reading golds at ingest."""

    relative_tolerance: float = _choice(1e-12, ge=0, lt=1)
    """Largest relative difference between a decimal and an exact value that counts as rounding
    noise: 0.30000000000000004 is 0.3, 0.33 is not 1/3. Integers are always compared exactly."""
    fallback: Literal["last_sentence", "last_number", "none"] = _choice("last_sentence")
    """What to read when no answer is marked: the one value of the last sentence, the last number,
    or nothing."""
    missing_unit: bool = _choice(True)
    """Accept a bare number for a gold with a unit (12 for 12 cm)."""
    convert_units: bool = _choice(True)
    """Accept another unit of the same dimension (1 m for 100 cm)."""
    missing_percent: bool = _choice(True)
    """Accept 15 for 15%; 0.15% for 15% is always wrong."""
    missing_base: bool = _choice(True)
    """Accept 2516 for 2516_8; another base is always wrong."""
    list_matches_set: bool = _choice(True)
    """A bare list `1,3` equals the set {1,3}, in any order."""
    list_matches_tuple: bool = _choice(False)
    """A bare list `1,3` equals the pair (1,3)."""
    join_boxes: bool = _choice(True)
    """Several boxes count as one list when the gold lists that many values."""
    decimal_comma: bool = _choice(False)
    """Read `3,5` as 3.5 instead of a list; `3{,}5` is always 3.5."""
    ratio_as_fraction: bool = _choice(True)
    """1:2 equals 1/2."""
    number_words: bool = _choice(True)
    """Read "forty-two" as 42."""
    log_base_ten: bool = _choice(True)
    r"""`\log` without a base means base 10; `\ln` is natural."""
    accept_unterminated: bool = _choice(False)
    """Grade a box, a tag or a program block that the text ends in; off, it counts as cut off."""
    reasoning_tags: tuple[str, ...] = _choice(("think", "thinking", "reasoning", "thought"))
    """Names of tags whose content is never graded."""
    limits: LimitsConfig = Field(default_factory=LimitsConfig)

    def options(self) -> dict[str, Any]:
        """Every choice by its name, those of the limits among them."""
        return self.model_dump(exclude={"limits"}) | self.limits.model_dump()
