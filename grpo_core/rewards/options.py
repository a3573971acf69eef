"""Every grading rule that is a choice, by name, with its default."""

from dataclasses import asdict, dataclass
from typing import Literal

Fallback = Literal["last_sentence", "last_number", "none"]


@dataclass(frozen=True, slots=True)
class VerifierOptions:
    r"""Named choices of the grader. All of them can change a verdict, so all enter cache keys.

    Attributes:
        relative_tolerance: Largest relative difference between a decimal and an exact value that
            still counts as rounding noise. 1e-12 accepts 0.30000000000000004 for 0.3 and refuses
            0.33 for 1/3. Integers are always compared exactly.
        fallback: What to read when no answer is marked: `last_sentence` (the one value of the
            last sentence; default), `last_number`, or `none`.
        missing_unit: Accept a bare number for a gold with a unit (12 for 12 cm). Default on.
        convert_units: Accept another unit of the same dimension (1 m for 100 cm). Default on.
        missing_percent: Accept 15 for 15%. Default on; 0.15% for 15% is always wrong.
        missing_base: Accept 2516 for 2516_8. Default on; another base is always wrong.
        list_matches_set: A bare list `1,3` equals the set {1,3}, in any order. Default on.
        list_matches_tuple: A bare list `1,3` equals the pair (1,3). Default off.
        join_boxes: Several boxes count as one list when the gold lists that many values.
            Default on.
        decimal_comma: Read `3,5` as 3.5. Default off (a list); `3{,}5` is always 3.5.
        ratio_as_fraction: 1:2 equals 1/2. Default on.
        number_words: Read "forty-two" as 42. Default on.
        log_base_ten: `\\log` without a base means base 10. Default on; `\\ln` is natural.
        accept_unterminated: Grade a box or tag that the text ends in. Default off: truncated.
        reasoning_tags: Names of tags whose content is never graded.
        max_completion_chars: Only the last so many visible characters are looked at.
        max_answer_chars: Longer answers are unparseable; plain numbers may have any length.
    """

    relative_tolerance: float = 1e-12
    fallback: Fallback = "last_sentence"
    missing_unit: bool = True
    convert_units: bool = True
    missing_percent: bool = True
    missing_base: bool = True
    list_matches_set: bool = True
    list_matches_tuple: bool = False
    join_boxes: bool = True
    decimal_comma: bool = False
    ratio_as_fraction: bool = True
    number_words: bool = True
    log_base_ten: bool = True
    accept_unterminated: bool = False
    reasoning_tags: tuple[str, ...] = ("think", "thinking", "reasoning", "thought")
    max_completion_chars: int = 200_000
    max_answer_chars: int = 10_000

    def canonical(self) -> dict[str, float | int | str | bool | list[str]]:
        """Return the options as plain JSON values, for cache keys."""
        fields = asdict(self)
        fields["reasoning_tags"] = list(self.reasoning_tags)
        return fields
