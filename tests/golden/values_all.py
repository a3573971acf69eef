"""Every check of the objective, in the order of its modules."""

import values_advantages
import values_aggregation
import values_corrections
import values_kl
import values_logprobs
import values_masks
from objective_values import CHECKS

__all__ = ["CHECKS", "MODULES"]

MODULES = (
    values_advantages,
    values_aggregation,
    values_corrections,
    values_kl,
    values_logprobs,
    values_masks,
)
