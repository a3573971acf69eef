"""One verdict from several graders: the majority's, with the share that agrees as confidence."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from grpo_core.errors import DataContractError
from grpo_core.rewards.verdict import Label, Verdict


def agreement(verdicts: Sequence[Verdict]) -> Verdict:
    """Return what most graders of one completion say, and how many of them say it.

    Graders agree when both say correct or both do not. A grader without a reward (timeout, error)
    has no vote; when none has one, the first verdict stands. Of a tie the side of the earlier
    grader wins.

    Args:
        verdicts: One a grader, of the same completion; the most trusted grader first.

    Returns:
        The first verdict of the majority, `confidence` set to its share of the votes, in (0, 1].

    Raises:
        DataContractError: No verdict is given.
    """
    if not verdicts:
        raise DataContractError("agreement: expected at least one verdict, got none")
    voters = [verdict for verdict in verdicts if verdict.reward_raw is not None]
    if not voters:
        return verdicts[0]
    votes = Counter(verdict.label is Label.CORRECT for verdict in voters)
    winner, count = votes.most_common(1)[0]
    chosen = next(verdict for verdict in voters if (verdict.label is Label.CORRECT) == winner)
    return replace(chosen, confidence=count / len(voters))
