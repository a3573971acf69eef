"""Rewards: extraction, equivalence, killable verification and shaping.

`grade` judges one completion, `VerifierPool` many. Plain answers are decided in this process by
exact arithmetic; whatever needs computer algebra runs in a process that can be killed.
"""

from grpo_core.rewards.agreement import agreement
from grpo_core.rewards.gold import check_gold
from grpo_core.rewards.grading import grade
from grpo_core.rewards.options import VerifierOptions
from grpo_core.rewards.pool import VerifierPool
from grpo_core.rewards.shaping import overlong_penalty
from grpo_core.rewards.verdict import VERIFIER_VERSION, Label, Verdict

__all__ = [
    "VERIFIER_VERSION",
    "Label",
    "Verdict",
    "VerifierOptions",
    "VerifierPool",
    "agreement",
    "check_gold",
    "grade",
    "overlong_penalty",
]
