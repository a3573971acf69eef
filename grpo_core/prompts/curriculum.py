"""Which prompts a rollout batch takes, as which variant, and with which instruction suffixes.

Every draw derives from what it is for and from the prompt itself, so neither row order nor the
other prompts of the batch change it.
"""

import difflib
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from grpo_core.config.data import VariantsConfig
from grpo_core.errors import ConfigError, DataContractError
from grpo_core.prompts.columns import require_columns
from grpo_core.seeds import derive_seed, generator
from grpo_core.types import Band


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One group to roll out.

    Args:
        group: Its number in the rollout batch, from 0.
        prompt_id: The problem.
        variant_id: The changed problem to use instead; None for the original.
        suffix_ids: Instruction suffix of each rollout, [G]; None for none.
    """

    group: int
    prompt_id: str
    variant_id: str | None
    suffix_ids: tuple[str | None, ...]

    @property
    def group_size(self) -> int:
        """G."""
        return len(self.suffix_ids)


def draw_prompts(
    bands: pa.Table,
    *,
    num_prompts: int,
    seed: Sequence[str | int],
    exclude: Collection[str] = (),
) -> list[str]:
    """Return `num_prompts` different prompts, drawn by weight without replacement.

    The prompts with the largest log(u) / weight, u uniform in (0, 1), in falling order: the first
    is drawn with probability weight / sum of weights, the next likewise among the rest
    (Efraimidis and Spirakis 2006, algorithm A). Weight 0 is never drawn.

    Args:
        bands: Columns prompt_id, band, weight.
        num_prompts: How many.
        seed: What the draw is for, for example `(train_seed, "train", step)`.
        exclude: Prompts that this rollout batch has already.

    Raises:
        DataContractError: Fewer prompts than asked for have a positive weight.
    """
    require_columns(bands, "bands", ("prompt_id", "band", "weight"))
    excluded = set(exclude)
    keys = [
        (_log_uniform(seed, prompt_id) / weight, prompt_id)
        for prompt_id, weight in _pairs(bands, "weight")
        if weight > 0 and prompt_id not in excluded
    ]
    if len(keys) < num_prompts:
        raise _too_few(bands, len(keys), num_prompts, excluded)
    return [prompt_id for _, prompt_id in sorted(keys, reverse=True)[:num_prompts]]


def draw_groups(
    prompt_ids: Sequence[str],
    *,
    group_size: int,
    variants: Mapping[str, Sequence[str]],
    variant_share: float,
    suffix_ids: Sequence[str],
    suffix_share: float,
    seed: Sequence[str | int],
    first_group: int = 0,
) -> list[GroupPlan]:
    """Return the plan of each prompt's group.

    With chance `variant_share` a prompt that has variants takes one of them, evenly; each rollout
    gets a suffix with chance `suffix_share`, evenly among `suffix_ids`.

    Args:
        prompt_ids: From `draw_prompts`, in order.
        group_size: G.
        variants: prompt_id -> its variant ids, as `variants_by_prompt` gives them.
        variant_share: `variants.draw_share`, in [0, 1].
        suffix_ids: From `select_suffixes`; empty means none.
        suffix_share: `variants.suffix_share`, in [0, 1].
        seed: What the draw is for, for example `(train_seed, "train", step)`.
        first_group: Number of the first group, when the batch holds some already.
    """
    return [
        GroupPlan(
            group,
            prompt_id,
            _draw_variant(sorted(variants.get(prompt_id, ())), variant_share, seed, prompt_id),
            _draw_suffixes(suffix_ids, suffix_share, group_size, seed, prompt_id),
        )
        for group, prompt_id in enumerate(prompt_ids, start=first_group)
    ]


def variants_by_prompt(variants: pa.Table) -> dict[str, tuple[str, ...]]:
    """Return prompt_id -> its variant ids, sorted, from a `variants` table."""
    require_columns(variants, "variants", ("prompt_id", "variant_id"))
    found: dict[str, list[str]] = {}
    for prompt_id, variant_id in _pairs(variants, "variant_id"):
        found.setdefault(prompt_id, []).append(variant_id)
    return {prompt_id: tuple(sorted(ids)) for prompt_id, ids in found.items()}


def select_suffixes(config: VariantsConfig, shipped: Mapping[str, str]) -> tuple[str, ...]:
    """Return the suffix ids to draw from: the configured ones, else all shipped, in order.

    Raises:
        ConfigError: A configured id is not shipped.
    """
    for suffix_id in config.suffixes:
        if suffix_id not in shipped:
            close = difflib.get_close_matches(suffix_id, shipped, n=1)
            raise ConfigError(
                f"variants.suffixes: expected some of {list(shipped)}, got {suffix_id!r}",
                f"did you mean {close[0]!r}?" if close else "",
            )
    return config.suffixes or tuple(shipped)


def _draw_variant(
    ids: Sequence[str], share: float, seed: Sequence[str | int], prompt_id: str
) -> str | None:
    rng = generator(*seed, "variant", prompt_id)
    if not ids or rng.random() >= share:
        return None
    return ids[int(rng.integers(len(ids)))]


def _draw_suffixes(
    ids: Sequence[str], share: float, group_size: int, seed: Sequence[str | int], prompt_id: str
) -> tuple[str | None, ...]:
    if not ids or share == 0:
        return (None,) * group_size
    rng = generator(*seed, "suffix", prompt_id)
    chosen = rng.random(group_size) < share
    which = rng.integers(len(ids), size=group_size)
    return tuple(ids[int(w)] if c else None for c, w in zip(chosen, which, strict=True))


def _log_uniform(seed: Sequence[str | int], prompt_id: str) -> float:
    """The logarithm of a uniform number in (0, 1), the prompt's own in this draw."""
    return math.log((derive_seed(*seed, "prompt", prompt_id) + 0.5) / 2**63)


def _too_few(bands: pa.Table, available: int, wanted: int, excluded: set[str]) -> DataContractError:
    total = Counter(band for _, band in _pairs(bands, "band"))
    drawable = Counter(
        band
        for (prompt_id, band), (_, weight) in zip(
            _pairs(bands, "band"), _pairs(bands, "weight"), strict=True
        )
        if weight > 0 and prompt_id not in excluded
    )
    listing = ", ".join(
        f"{band.value} {drawable[band.value]} of {total[band.value]}" for band in Band
    )
    return DataContractError(
        f"drawing prompts: expected at least {wanted} with a positive weight, got {available} "
        f"(drawable by band: {listing}; already in the batch: {len(excluded)})",
        "raise a bands.weight_* that is 0, lower train.prompts_per_rollout, or add problems "
        "(prompts.source, prompts.train_limit)",
    )


def _pairs(table: pa.Table, column: str) -> Iterator[tuple[str, Any]]:
    return zip(table["prompt_id"].to_pylist(), table[column].to_pylist(), strict=True)
