"""Evaluation: unbiased pass@k, its intervals, paired comparison of checkpoints."""

from grpo_core.evaluation.intervals import Interval, mean_interval
from grpo_core.evaluation.paired import PairedDifference, paired_difference
from grpo_core.evaluation.pass_at_k import pass_at_k
from grpo_core.evaluation.table import PassAtKRow, pass_at_k_table, pass_at_k_values

__all__ = [
    "Interval",
    "PairedDifference",
    "PassAtKRow",
    "mean_interval",
    "paired_difference",
    "pass_at_k",
    "pass_at_k_table",
    "pass_at_k_values",
]
