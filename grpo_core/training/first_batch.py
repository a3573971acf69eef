"""The first rollout batch of a run, taken from the prefilter's samples; imports no torch.

At step 0 the policy is the one that the prefilter sampled from, so these samples are exactly
on-policy. G of a prompt's samples are drawn at random, never by their verdict: picking mixed groups
would bias the baseline.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from grpo_core.config import RunConfig
from grpo_core.errors import DataContractError
from grpo_core.prompts.curriculum import draw_prompts
from grpo_core.seeds import generator


@dataclass(frozen=True, slots=True)
class PickedGroup:
    """A group of persisted samples.

    Args:
        prompt_id: Their prompt.
        sample_indices: Samples of the prompt that form the group, [G].
    """

    prompt_id: str
    sample_indices: tuple[int, ...]


def draw_batch_prompts(bands: pa.Table, config: RunConfig, first_step: int) -> list[str]:
    """Prompts of the rollout batch whose first optimiser step is `first_step`, in draw order."""
    return draw_prompts(
        bands,
        num_prompts=config.train.prompts_per_rollout,
        seed=(config.seed_of("train"), "draw", first_step),
    )


def draw_further_prompts(
    bands: pa.Table, config: RunConfig, first_step: int, count: int, taken: Collection[str]
) -> list[str]:
    """At most `count` further prompts for a rollout batch that has `taken`, in draw order.

    Args:
        bands: The `bands` table.
        config: Reads train.seed.
        first_step: First optimiser step of the batch.
        count: How many are wanted; fewer come when fewer have a positive weight.
        taken: Prompts of the batch.
    """
    prompts, weights = bands.column("prompt_id").to_pylist(), bands.column("weight").to_pylist()
    left = sum(w > 0 and p not in taken for p, w in zip(prompts, weights, strict=True))
    return draw_prompts(
        bands,
        num_prompts=min(count, left),
        seed=(config.seed_of("train"), "draw", first_step),
        exclude=taken,
    )


def pick_first_batch(bands: pa.Table, config: RunConfig) -> list[PickedGroup]:
    """Groups of the first rollout batch; empty when `train.prefilter_batches` is 0.

    Raises:
        DataContractError: A prompt has fewer samples than a group needs.
    """
    if not config.train.prefilter_batches:
        return []
    samples = dict(
        zip(bands.column("prompt_id").to_pylist(), bands.column("n").to_pylist(), strict=True)
    )
    group_size = config.train.group_size
    groups = []
    for prompt_id in draw_batch_prompts(bands, config, first_step=1):
        if samples[prompt_id] < group_size:
            raise DataContractError(
                f"prompt {prompt_id} has {samples[prompt_id]} samples, expected at least the "
                f"group size {group_size}",
                hint="raise prefilter.samples_per_prompt or set train.prefilter_batches=0",
            )
        rng = generator(config.seed_of("train"), "pick", prompt_id)
        chosen = np.sort(rng.choice(samples[prompt_id], size=group_size, replace=False))
        groups.append(PickedGroup(prompt_id, tuple(int(index) for index in chosen)))
    return groups
