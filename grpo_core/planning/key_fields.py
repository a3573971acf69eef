"""What of a configuration enters the key of an artefact."""

from typing import Any

from grpo_core.config import RunConfig
from grpo_core.config.fields import declared_kinds, leaves
from grpo_core.planning.externals import Externals
from grpo_core.rewards.verifier_names import BUILT_IN, MATH
from grpo_core.types import Kind

_SEEDED = ("prefilter", "variants", "train", "evaluate")


def fields_of(config: RunConfig, kind: Kind) -> dict[str, Any]:
    """Config path → value of every leaf that keys `kind`, phases left out."""
    found = {}
    for path, field, value in leaves(config):
        if kind.value not in (declared_kinds(field) or ()) or path.startswith("train.phases."):
            continue
        extra = field.json_schema_extra
        if isinstance(extra, dict) and "absent" in extra and extra["absent"] == value:
            continue
        found[path] = value
    for section in _SEEDED:
        if f"{section}.seed" in found:
            found[f"{section}.seed"] = config.seed_of(section)
    if "reward.overlong_weight" in found:
        found["reward.overlong_weight"] = config.reward.overlong_factor
    if "evaluate.max_completion_tokens" in found:
        found["evaluate.max_completion_tokens"] = config.evaluation_tokens
    return found


def function_digests(externals: Externals) -> dict[str, str]:
    """Role → digest of the user's reward functions; nothing when there is none."""
    return {"reward_functions": externals.functions} if externals.functions else {}


def verifier_names(config: RunConfig) -> dict[str, Any]:
    """What ingest must know of verifiers: who reads a gold, and which names rows may use."""
    default, named = config.reward.function, sorted(config.reward.verifiers)
    kind = default if default in BUILT_IN else "function"
    return {} if kind == MATH and not named else {"default_verifier": kind, "verifiers": named}
