"""One training phase: rollout batches, updates, validation, resumable states.

Unit of work is the rollout batch with its optimiser steps. Its rollouts are persisted before its
first update; a killed run loads the last state and replays the persisted batches behind it.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from grpo_core.config import RunConfig
from grpo_core.config.data import VariantsConfig
from grpo_core.models.pieces import token_pieces
from grpo_core.objective.advantages import reward_tensor
from grpo_core.objective.kl_control import next_control
from grpo_core.objective.winsorise import updated_means
from grpo_core.policy.reference import Reference, RefRead
from grpo_core.policy.runtime import PolicyRuntime
from grpo_core.prompts.curriculum import draw_groups, select_suffixes
from grpo_core.prompts.suffixes import SUFFIXES
from grpo_core.rewards.rows import Problem
from grpo_core.store.partials import Partial
from grpo_core.store.ref_rows import RefRow
from grpo_core.store.schemas import EVENTS, REF_READS, STEPS
from grpo_core.training.budget_events import budget_events
from grpo_core.training.collect import Collector, PlannedGroup, persisted_batch
from grpo_core.training.decide import BatchFacts, group_of_update, live_group_flags
from grpo_core.training.first_batch import draw_batch_prompts, draw_further_prompts
from grpo_core.training.groups import by_group, filter_key
from grpo_core.training.ref_reads import hit_rate, reference_fields, step_reads
from grpo_core.training.refill import SampledBatch, refill_events, sample_batch
from grpo_core.training.state import TrainerState, save_state
from grpo_core.training.step_rows import StepFacts, rollout_metrics, step_row
from grpo_core.training.tensors import TrainRow, needs_pieces
from grpo_core.training.updates import Updater, UpdateResult
from grpo_core.training.validation import Validator
from grpo_core.types import FinishReason


@dataclass(frozen=True, slots=True)
class PhasePlan:
    """Where a phase begins, ends, and what it draws from.

    Args:
        phase: Phase number, from 1.
        first_step: Optimiser steps of the run before the phase.
        max_steps: Optimiser steps of the phase.
        total_steps: Optimiser steps of all phases.
        bands: The `bands` table that prompts are drawn by.
        problems: prompt_id → problem.
        variants: prompt_id → its variants, as problems with a variant_id.
        persisted: Prefilter samples and verdicts of the first batch, in row order; None when the
            first batch is sampled.
    """

    phase: int
    first_step: int
    max_steps: int
    total_steps: int
    bands: pa.Table
    problems: Mapping[str, Problem]
    variants: Mapping[str, Sequence[Problem]]
    persisted: tuple[pa.Table, pa.Table] | None


@dataclass
class PhaseTrainer:
    """Runs the batches of one phase.

    Args:
        config: The resolved configuration.
        plan: What to run.
        runtime: The policy.
        reference: Read-through reference, or None.
        collector: Makes rollout batches.
        updater: Takes optimiser steps.
        validator: Measures pass@1 on validation problems.
        partial: Where units and states are written.
        state: Trainer state to start from.
        tokenizer_from: Model directory whose tokenizer files checkpoints carry.
        generated_tokens: Tokens that this process sampled, validation included; replayed batches
            cost none.
    """

    config: RunConfig
    plan: PhasePlan
    runtime: PolicyRuntime
    reference: Reference | None
    collector: Collector
    updater: Updater
    validator: Validator
    partial: Partial
    state: TrainerState
    tokenizer_from: Path
    generated_tokens: int = 0

    @property
    def steps_per_batch(self) -> int:
        """Optimiser steps on one rollout batch."""
        return self.config.train.updates_per_rollout * self.config.train.epochs_per_rollout

    @property
    def num_batches(self) -> int:
        """Rollout batches of the phase."""
        return self.plan.max_steps // self.steps_per_batch

    def run_batch(self, batch: int) -> pa.Table:
        """Collect (or replay) batch `batch` of the phase and update on it; returns its steps."""
        step = self.plan.first_step + batch * self.steps_per_batch + 1
        if self.partial.has("rollouts", batch):
            rollouts = self.partial.read("rollouts", batch)
        else:
            rollouts = self._collect(batch, step)
            self.partial.write("rollouts", batch, rollouts)
        self.runtime.sampler.sleep()
        rows = self._train_rows(rollouts)
        metrics = rollout_metrics(rollouts, self.config.train.group_size, filter_key(self.config))
        steps: list[dict[str, Any]] = []
        reads: list[dict[str, Any]] = []
        events = refill_events(self.config, rollouts, self.plan.phase, step)
        for offset in range(self.steps_per_batch):
            epoch, members = self._members(rows, step, offset)
            used = step_reads(members, phase=self.plan.phase, step=step + offset, epoch=epoch)
            reads += used
            facts = self._facts(batch, step + offset, offset, hit_rate(used))
            update = self._update(members, facts)
            self.runtime.sampler.mark_stale()
            if update.is_empty:
                events.append(_empty_step_event(facts))
            validated = self._validate(facts.step)
            facts = replace(facts, validation_pass_at_1=validated)
            steps.append(step_row(facts, metrics, rollouts, update))
            events += self._advance(facts, update)
        self._remember_rewards(rollouts)
        table = pa.Table.from_pylist(steps, schema=STEPS.schema)
        self.partial.write("ref_reads", batch, pa.Table.from_pylist(reads, REF_READS.schema))
        self.partial.write("events", batch, _event_table(events))
        self.partial.write("steps", batch, table)
        return table

    def save(self) -> Path:
        """Write the present state as a resumable one."""
        return self.partial.write_directory(
            f"state-{self.state.step:06d}",
            lambda directory: save_state(
                directory,
                model=self.runtime.model,
                optimizer=self.updater.optimizer,
                state=self.state,
                tokenizer_from=self.tokenizer_from,
            ),
        )

    def _collect(self, batch: int, step: int) -> pa.Table:
        facts = BatchFacts(step=step, beta=self.state.kl.beta, ema_rewards=self.state.ema_rewards)
        if batch == 0 and self.plan.persisted is not None:
            sampled = self._persisted(step, *self.plan.persisted)
        else:
            sampled = self._sample(step)
        if needs_pieces(self.config):
            pieces = [self._pieces(ids) for ids in sampled.completions["completion_token_ids"]]
            facts = replace(facts, pieces=pieces)
        self.runtime.sampler.sleep()  # what scores next needs the memory
        return self.collector.finish(sampled.groups, sampled.completions, sampled.verdicts, facts)

    def _persisted(self, step: int, samples: pa.Table, verdicts: pa.Table) -> SampledBatch:
        """What the prefilter sampled: the original problems, without suffixes."""
        variants = self.config.variants.model_copy(update={"draw_share": 0.0, "suffix_share": 0.0})
        prompt_ids = draw_batch_prompts(self.plan.bands, self.config, step)
        return SampledBatch(
            self._groups(prompt_ids, step, variants), *persisted_batch(samples, verdicts)
        )

    def _sample(self, step: int) -> SampledBatch:
        def draw_more(count: int, taken: Collection[str], first: int) -> list[PlannedGroup]:
            more = draw_further_prompts(self.plan.bands, self.config, step, count, taken)
            return self._groups(more, step, self.config.variants, first)

        prompt_ids = draw_batch_prompts(self.plan.bands, self.config, step)
        groups = self._groups(prompt_ids, step, self.config.variants)
        sampled = sample_batch(self.config, self.collector, groups, draw_more, step=step)
        self.generated_tokens += sum(sampled.completions["num_completion_tokens"])
        return sampled

    def _groups(
        self, prompt_ids: Sequence[str], step: int, variants: VariantsConfig, first: int = 0
    ) -> list[PlannedGroup]:
        plans = draw_groups(
            prompt_ids,
            variants=_variant_ids(self.plan.variants),
            suffix_ids=select_suffixes(variants, SUFFIXES),
            group_size=self.config.train.group_size,
            variant_share=variants.draw_share,
            suffix_share=variants.suffix_share,
            seed=(self.config.seed_of("train"), "groups", step),
            first_group=first,
        )
        return [
            PlannedGroup(plan, self._problem(plan.prompt_id, plan.variant_id)) for plan in plans
        ]

    def _problem(self, prompt_id: str, variant_id: str | None) -> Problem:
        if variant_id is None:
            return self.plan.problems[prompt_id]
        return next(v for v in self.plan.variants[prompt_id] if v["variant_id"] == variant_id)

    def _facts(self, batch: int, step: int, offset: int, hit_rate: float | None) -> StepFacts:
        return StepFacts(
            phase=self.plan.phase,
            step=step,
            rollout_batch=batch,
            max_completion_tokens=self.collector.max_completion_tokens,
            beta=self.state.kl.beta if self.config.kl.place != "none" else 0.0,
            is_first_of_batch=offset == 0,
            ref_cache_hit_rate=hit_rate,
            validation_pass_at_1=None,
        )

    def _members(
        self, rows: Sequence[TrainRow], step: int, offset: int
    ) -> tuple[int, list[TrainRow]]:
        """Epoch and rows of the batch's update number `offset`."""
        train = self.config.train
        epoch, update = divmod(offset, train.updates_per_rollout)
        drops = [None if row.is_live else "dropped" for row in rows]
        is_live = live_group_flags(drops, train.group_size)
        assignment = group_of_update(self.config, step, is_live, epoch)
        return epoch, [row for row in rows if assignment[row.group] == update]

    def _update(self, members: Sequence[TrainRow], facts: StepFacts) -> UpdateResult:
        update = self.updater.step(
            [row for row in members if row.is_live],
            step=facts.step,
            beta=facts.beta,
            sampled_rollouts=len(members),
            generated_tokens=sum(len(row.completion_token_ids) for row in members),
        )
        self.updater.drop_gradients()  # sampler and reference may need their memory
        return update

    def _validate(self, step: int) -> float | None:
        every = self.config.train.validate_every_steps
        is_end = step == self.plan.first_step + self.plan.max_steps
        if is_end or (every and step % every == 0):
            share, tokens = self.validator.pass_at_1(self.runtime)
            self.runtime.sampler.sleep()
            self.generated_tokens += tokens
            return share
        return None

    def _advance(self, facts: StepFacts, update: UpdateResult) -> list[dict[str, Any]]:
        """Take the step's divergence into account; the event when that moved beta."""
        before = self.state.kl
        after = next_control(
            before,
            self.config.kl,
            ref_kl_k3=update.metrics.get("ref_kl_k3"),
            progress=facts.step / self.plan.total_steps,
        )
        self.state = replace(self.state, step=facts.step, kl=after)
        return budget_events(self.config.kl, before, after, phase=facts.phase, step=facts.step)

    def _remember_rewards(self, rollouts: pa.Table) -> None:
        size = self.config.train.group_size
        values = rollouts.column("reward").to_pylist()
        ids = rollouts.column("prompt_id").to_pylist()[::size]
        after = updated_means(
            self.state.ema_rewards,
            reward_tensor(by_group(values, size)),
            [str(self.plan.problems[prompt_id]["source"]) for prompt_id in ids],
            decay=self.config.advantage.ema_decay,
        )
        self.state = replace(self.state, ema_rewards=after)

    def _train_rows(self, rollouts: pa.Table) -> list[TrainRow]:
        rows = rollouts.to_pylist()
        scored = [n for n, row in enumerate(rows) if row["old_logprobs"] is not None]
        read = self._read_reference([rows[n] for n in scored])
        at = {n: position for position, n in enumerate(scored)} if read is not None else {}
        return [
            TrainRow(
                prompt_token_ids=tuple(row["prompt_token_ids"]),
                completion_token_ids=tuple(row["completion_token_ids"]),
                temperature=row["temperature"],
                is_truncated=row["finish_reason"] == FinishReason.LENGTH,
                is_live=row["drop_reason"] is None,
                group=row["group"],
                advantage=row["advantage"],
                old_logprobs=np.asarray(row["old_logprobs"] or [], np.float32),
                sampling_logprobs=np.asarray(row["sampling_logprobs"], np.float32),
                pieces=self._pieces(row["completion_token_ids"])
                if needs_pieces(self.config)
                else None,
                **reference_fields(read, at.get(n)),
            )
            for n, row in enumerate(rows)
        ]

    def _read_reference(self, rows: Sequence[Mapping[str, Any]]) -> RefRead | None:
        if self.reference is None:
            return None
        wanted = [
            RefRow(
                tuple(row["prompt_token_ids"]),
                tuple(row["completion_token_ids"]),
                row["temperature"],
            )
            for row in rows
        ]
        read = self.reference.read(wanted)
        self.reference.release()
        return read

    def _pieces(self, token_ids: Sequence[int]) -> tuple[str, ...]:
        return token_pieces(self.runtime.tokenizer, token_ids)


def _variant_ids(variants: Mapping[str, Sequence[Problem]]) -> dict[str, list[str]]:
    return {
        prompt_id: [variant["variant_id"] for variant in found]
        for prompt_id, found in variants.items()
    }


def _event_table(events: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The events with their numbers within each step."""
    seen: Counter[int] = Counter()
    rows = []
    for event in events:
        rows.append({**event, "event_index": seen[event["step"]]})
        seen[event["step"]] += 1
    return pa.Table.from_pylist(rows, schema=EVENTS.schema)


def _empty_step_event(facts: StepFacts) -> dict[str, Any]:
    return {
        "phase": facts.phase,
        "step": facts.step,
        "kind": "empty_step",
        "before": None,
        "after": None,
        "reason": "no group of the mini-batch carries signal, so no step was taken",
    }
