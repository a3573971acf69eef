"""Changed problems with golds that are certain; a problem in doubt gets none."""

from grpo_core.prompts.variants.build import (
    VariantsResult,
    attempt,
    build_variants,
    derive_variants,
    generate,
)
from grpo_core.prompts.variants.draws import Limits
from grpo_core.prompts.variants.problem import Problem, RefusalError, Variant

__all__ = [
    "Limits",
    "Problem",
    "RefusalError",
    "Variant",
    "VariantsResult",
    "attempt",
    "build_variants",
    "derive_variants",
    "generate",
]
