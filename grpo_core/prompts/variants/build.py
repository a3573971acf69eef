"""The `variants` table: changed problems of many prompts, none equal to a problem already there."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from grpo_core.config.data import VariantsConfig
from grpo_core.errors import ConfigError
from grpo_core.prompts.columns import require_columns, to_table
from grpo_core.prompts.variants.draws import Limits
from grpo_core.prompts.variants.problem import Problem, RefusalError, Variant
from grpo_core.prompts.variants.substitution import KIND, substitute_numbers
from grpo_core.seeds import generator
from grpo_core.store.schemas import VARIANTS

_REWRITES: dict[str, Callable[[Problem, np.random.Generator, Limits], Variant]] = {
    KIND: substitute_numbers
}
_ATTEMPTS = 4
"""Rewrites tried for each variant before an equal problem is taken as unavoidable."""
_TAKEN = "the rewrite equals another problem"


@dataclass(frozen=True, slots=True)
class VariantsResult:
    """The `variants` table and why problems have none.

    Args:
        table: As `store.schemas.VARIANTS`.
        refused: Reason -> problems and kinds without any variant, most frequent first.
    """

    table: pa.Table
    refused: dict[str, int]


def generate(
    problem: Problem,
    kinds: Iterable[str],
    rng: np.random.Generator,
    *,
    limits: Limits | None = None,
) -> list[Variant]:
    """Return one variant for each kind that can rewrite the problem with a certain gold.

    Raises:
        ConfigError: A kind is unknown.
    """
    variants = []
    for kind in kinds:
        outcome = attempt(problem, kind, rng, limits or Limits())
        if isinstance(outcome, Variant):
            variants.append(outcome)
    return variants


def attempt(problem: Problem, kind: str, rng: np.random.Generator, limits: Limits) -> Variant | str:
    """Return the variant of one kind, or the reason why there is none.

    Raises:
        ConfigError: The kind is unknown.
    """
    rewrite = _REWRITES.get(kind)
    if rewrite is None:
        raise ConfigError(f"variants.kinds: expected some of {sorted(_REWRITES)}, got {kind!r}")
    try:
        return rewrite(problem, rng, limits)
    except RefusalError as refusal:
        return refusal.reason


def derive_variants(
    prompts: pa.Table, config: VariantsConfig, seed: int, *, taken_ids: Collection[str] = ()
) -> VariantsResult:
    """Return up to `config.per_prompt` variants of each prompt and kind, with refusals counted.

    Draws derive from (seed, "variants", prompt_id, kind), so row order changes nothing. A variant
    that equals a taken problem is drawn again; of equal variants of two prompts, the prompt that
    sorts first keeps it.

    Args:
        prompts: Columns prompt_id, text, gold, solution, answer_type; usable rows only.
        config: Kinds, how many, and limits.
        seed: `variants.seed`.
        taken_ids: Ids of all known problems of any split, quarantined ones too.

    Raises:
        DataContractError: A column is missing.
    """
    columns = ["prompt_id", "text", "gold", "solution", "answer_type"]
    require_columns(prompts, "prompts", columns)
    limits = Limits(config.max_number, config.max_result)
    used = set(taken_ids) | set(prompts["prompt_id"].to_pylist())
    refused: Counter[str] = Counter()
    rows: list[Variant] = []
    for row in prompts.select(columns).sort_by("prompt_id").to_pylist():
        problem = Problem(**row)
        for kind in config.kinds:
            rng = generator(seed, "variants", problem.prompt_id, kind)
            made, reason = _rewrite_often(problem, kind, rng, limits, config.per_prompt, used)
            rows += made
            if config.per_prompt and not made:
                refused[reason] += 1
    return VariantsResult(_to_table(rows), dict(refused.most_common()))


def build_variants(
    prompts: pa.Table, config: VariantsConfig, seed: int, *, taken_ids: Collection[str] = ()
) -> pa.Table:
    """Return the table of `derive_variants`."""
    return derive_variants(prompts, config, seed, taken_ids=taken_ids).table


def _rewrite_often(
    problem: Problem,
    kind: str,
    rng: np.random.Generator,
    limits: Limits,
    wanted: int,
    used: set[str],
) -> tuple[list[Variant], str]:
    """Up to `wanted` new variants, added to `used`; and the last reason for having fewer."""
    made: list[Variant] = []
    reason = ""
    for _ in range(wanted * _ATTEMPTS):
        if len(made) == wanted:
            break
        outcome = attempt(problem, kind, rng, limits)
        if isinstance(outcome, str):
            return made, outcome
        if outcome.variant_id in used:
            reason = _TAKEN
            continue
        used.add(outcome.variant_id)
        made.append(outcome)
    return made, reason


def _to_table(variants: Sequence[Variant]) -> pa.Table:
    names = Variant.__slots__
    rows = [{name: getattr(variant, name) for name in names} for variant in variants]
    return to_table(rows, VARIANTS)
