"""Times of day and ratios."""

from fractions import Fraction

from grpo_core.rewards.answers import Clock


def same_clock(answer: Clock, gold: Clock) -> bool:
    """Whether two times of day or two ratios are the same."""
    if answer.is_time and gold.is_time:
        if answer.meridiem and gold.meridiem and answer.meridiem != gold.meridiem:
            return False
        hours = [_hours(clock, other) for clock, other in ((answer, gold), (gold, answer))]
        return hours[0] == hours[1]
    if len(answer.parts) != len(gold.parts):
        return False
    a, g = answer.parts, gold.parts
    return all(x * g[0] == y * a[0] for x, y in zip(a, g, strict=True)) and bool(a[0]) == bool(g[0])


def _hours(clock: Clock, other: Clock) -> tuple[Fraction, ...]:
    """Return a time on the 24-hour clock where the other side's half of the day is known."""
    hour, *rest = clock.parts
    half = clock.meridiem
    if not half and other.meridiem and hour <= 12 and other.parts[0] <= 12:
        half = other.meridiem
    if half == "pm" and hour < 12:
        hour += 12
    elif half == "am" and hour == 12:
        hour = Fraction(0)
    return (hour, *rest)
