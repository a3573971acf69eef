"""For each audit, changes of the small lake that the audit must find."""

import mutations_before_training
import mutations_of_evaluation
import mutations_of_training
from mutation_registry import MUTATIONS, Mutation

__all__ = ["MUTATIONS", "Mutation"]
PARTS = (mutations_before_training, mutations_of_training, mutations_of_evaluation)
"""Importing them fills `MUTATIONS`."""
