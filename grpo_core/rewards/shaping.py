"""Shaping parts: pure functions from lengths, tokens, texts and verdicts to numbers.

Each part is stored beside the verdict; `shaped_reward` adds them up. The rule parts together are
capped well below the distance between a correct and a wrong answer, so that no amount of form
outweighs the verdict.
"""

import re
import unicodedata
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal

from grpo_core.errors import ConfigError
from grpo_core.rewards.verdict import Label, Verdict

RewardScale = Literal["01", "±1"]
AnswerFormat = Literal["think_answer", "think_boxed", "boxed", "hash"]

OVERLONG_WEIGHT: Final[dict[RewardScale, float]] = {"01": 0.5, "±1": 1.0}
"""Weights that keep a correct answer at the limit above a short wrong one (arXiv 2503.14476
uses 1.0 on a ±1 scale)."""
OVERLONG_BUFFER_FRACTION: Final = 0.2
"""Default ramp: this share of the phase's token budget (DAPO: 4096 of 20480)."""
RULE_CAP: Final = 0.2
"""Most that all rule parts together may move a reward, as a share of correct minus wrong."""

_FORMATS: Final[dict[AnswerFormat, re.Pattern[str]]] = {
    "think_answer": re.compile(
        r"\s*<think>(?P<thought>.+?)</think>\s*<answer>.+?</answer>\s*\Z", re.DOTALL
    ),
    "think_boxed": re.compile(
        r"\s*<think>(?P<thought>.+?)</think>(?:(?!<think>).)*\\boxed", re.DOTALL
    ),
    "boxed": re.compile(r".*\\boxed\s*\{", re.DOTALL),
    "hash": re.compile(r".*^#### ?\S", re.DOTALL | re.MULTILINE),
}
_SCRIPTS: Final[dict[str, frozenset[str]]] = {
    "latin": frozenset({"LATIN"}),
    "cyrillic": frozenset({"CYRILLIC"}),
    "greek": frozenset({"GREEK"}),
    "arabic": frozenset({"ARABIC"}),
    "hebrew": frozenset({"HEBREW"}),
    "devanagari": frozenset({"DEVANAGARI"}),
    "han": frozenset({"CJK"}),
    "japanese": frozenset({"CJK", "HIRAGANA", "KATAKANA"}),
    "korean": frozenset({"HANGUL"}),
}
_NOT_PROSE: Final = re.compile(r"\\[a-zA-Z]+|\$[^$\n]*\$|<[^<>\s]+>|\b\w\b")


def overlong_penalty(length: int, *, max_length: int, buffer: int) -> float:
    """Return DAPO's soft overlong punishment (arXiv 2503.14476, Eq. 13), in [-1, 0].

    0 up to `max_length - buffer`, then linear down to -1 at `max_length`, -1 beyond. With
    `buffer` 0 it is a step: 0 up to and including `max_length`, -1 beyond.

    Args:
        length: Completion length in tokens, end-of-sequence token included.
        max_length: The completion budget in tokens.
        buffer: Length of the ramp in tokens.

    Raises:
        ConfigError: When a length is negative or the buffer is longer than the budget.

    >>> overlong_penalty(90, max_length=100, buffer=20)
    -0.5
    """
    if length < 0 or not 0 <= buffer <= max_length:
        raise ConfigError(
            "overlong_penalty needs length >= 0 and 0 <= buffer <= max_length, "
            f"got length={length}, buffer={buffer}, max_length={max_length}"
        )
    if length > max_length:
        return -1.0
    over = length - (max_length - buffer)
    return -over / buffer if over > 0 else 0.0


def repetition_penalty(tokens: Sequence[Hashable], *, ngram: int = 8) -> float:
    """Return minus the share of n-grams that occurred before, in (-1, 0].

    Args:
        tokens: Token ids (or words) of one completion.
        ngram: Length of the n-grams in tokens; shorter completions have penalty 0.

    Raises:
        ConfigError: When `ngram` is below 1.

    >>> repetition_penalty([1, 2, 1, 2, 1], ngram=2)
    -0.5
    """
    if ngram < 1:
        raise ConfigError(f"repetition_penalty needs ngram >= 1, got {ngram}")
    total = len(tokens) - ngram + 1
    if total < 2:
        return 0.0
    distinct = len({tuple(tokens[start : start + ngram]) for start in range(total)})
    return -(total - distinct) / total if distinct < total else 0.0


def format_credit(completion: str, verdict: Verdict, *, answer_format: AnswerFormat) -> float:
    """Return 1.0 for the asked format with a parsed answer in it, else 0.0.

    An empty shell, an unreadable answer and a hedge earn nothing.

    Args:
        completion: The completion's text.
        verdict: Its verdict.
        answer_format: `think_answer` (one thought, then one `<answer>`), `think_boxed`, `boxed` or
            `hash` (`#### 42`).
    """
    if verdict.label not in (Label.CORRECT, Label.WRONG) or verdict.extracted is None:
        return 0.0
    match = _FORMATS[answer_format].match(completion)
    if match is None:
        return 0.0
    thought = match.groupdict().get("thought")
    return 0.0 if thought is not None and (not thought.strip() or "<think>" in thought) else 1.0


@lru_cache(maxsize=8192)
def _script(char: str) -> str:
    return unicodedata.name(char, "UNKNOWN").partition(" ")[0]


def language_consistency(text: str, *, script: str) -> float:
    """Return the share of letters written in one script, in [0, 1]; 1.0 for a text without any.

    LaTeX commands, formulas, tags and single letters are no prose and do not count.

    Args:
        text: The completion's text.
        script: `latin`, `han`, `japanese`, `cyrillic`, `arabic`, `greek`, `hebrew`, `korean` or
            `devanagari`.

    Raises:
        ConfigError: When the script is unknown.
    """
    if script not in _SCRIPTS:
        raise ConfigError(f"unknown script {script!r}, expected one of {', '.join(_SCRIPTS)}")
    letters = [char for char in _NOT_PROSE.sub(" ", text) if char.isalpha()]
    if not letters:
        return 1.0
    wanted = _SCRIPTS[script]
    return sum(_script(char) in wanted for char in letters) / len(letters)


def length_bonus(length: int, verdict: Verdict, *, max_length: int) -> float:
    """Return the unused share of the budget for a correct answer, else 0.0; in [0, 1].

    Args:
        length: Completion length in tokens.
        verdict: The completion's verdict.
        max_length: The completion budget in tokens, at least 1.
    """
    if verdict.label is not Label.CORRECT:
        return 0.0
    return max(0.0, 1.0 - length / max_length)


def base_reward(
    reward: float | None,
    label: Label,
    *,
    scale: RewardScale = "01",
    hedged_value: float | None = None,
) -> float | None:
    """Return the verdict's reward on its scale.

    Args:
        reward: `reward_raw` or `reward_graded`, in [0, 1]; None stays None.
        label: The verdict.
        scale: `01` leaves it, `±1` maps 0 to -1 and 1 to 1.
        hedged_value: What a hedged answer is worth instead, on the scale; None changes nothing.
    """
    if reward is None:
        return None
    if label is Label.HEDGED and hedged_value is not None:
        return hedged_value
    return 2.0 * reward - 1.0 if scale == "±1" else reward


def shaped_reward(
    base: float | None,
    parts: Mapping[str, float],
    weights: Mapping[str, float],
    *,
    scale: RewardScale = "01",
    rule_cap: float = RULE_CAP,
) -> float | None:
    """Return the base reward plus weighted parts, the rule parts capped; None stays None.

    Args:
        base: From `base_reward`.
        parts: Values by name: `overlong`, and the rule parts `repetition`, `format`, `language`,
            `length`.
        weights: Weights by the same names; a part without a weight counts nothing.
        scale: The scale of `base`.
        rule_cap: Most that the rule parts together may add or take away, as a share of correct
            minus wrong. The overlong penalty is not among them.
    """
    if base is None:
        return None
    spread = 2.0 if scale == "±1" else 1.0
    weighted = {name: value * weights.get(name, 0.0) for name, value in parts.items()}
    overlong = weighted.pop("overlong", 0.0)
    limit = rule_cap * spread
    return base + overlong + max(-limit, min(limit, sum(weighted.values())))
