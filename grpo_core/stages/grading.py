"""The grader of a stage, checked before anything is sampled."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from grpo_core.rewards.grader import Grader
from grpo_core.rewards.rows import Problem, grader_rules
from grpo_core.rewards.start_check import check_verifiers, require_sound
from grpo_core.stages.context import MakeContext


@contextmanager
def checked_grader(context: MakeContext, problems: Sequence[Problem]) -> Iterator[Grader]:
    """The configured grader, once it has shown that it pays golds and only golds.

    Args:
        context: Of the artefact being made.
        problems: What will be graded, in an order that is a function of content.

    Raises:
        ConfigError: A verifier is inverted, constant, failing or wrong about some golds, and
            `reward.start_check` is `refuse`.
    """
    with Grader(grader_rules(context.config)) as grader:
        _check(context, grader, problems)
        yield grader


def check_grader(context: MakeContext, problems: Sequence[Problem]) -> None:
    """Find a reward that cannot teach before the first sample is paid for.

    Args:
        context: Of the artefact being made.
        problems: What will be graded, in an order that is a function of content.

    Raises:
        ConfigError: As `checked_grader`.
    """
    with Grader(grader_rules(context.config)) as grader:
        _check(context, grader, problems)


def _check(context: MakeContext, grader: Grader, problems: Sequence[Problem]) -> None:
    check = context.config.reward.start_check
    if check == "refuse":
        require_sound(grader, problems)
    elif check == "warn":
        for finding in check_verifiers(grader, problems):
            context.note(str(finding))
