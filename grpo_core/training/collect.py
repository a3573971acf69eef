"""Rollout batches: drawn, sampled (or taken from the prefilter), graded, scored, grouped.

A collected batch is one table of `rollouts` rows that holds everything an update needs, so that a
resumed run replays it instead of sampling again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from grpo_core.config import RunConfig
from grpo_core.objective.presets import ResolvedLoss
from grpo_core.policy.reference import Reference, score_unit
from grpo_core.policy.runtime import PolicyRuntime, completion_columns, sample_request
from grpo_core.prompts.curriculum import GroupPlan
from grpo_core.prompts.suffixes import SUFFIXES
from grpo_core.rewards import Verdict
from grpo_core.rewards.grader import Grader
from grpo_core.rewards.rows import Problem, grade_rows, stored_verdict, verdict_columns
from grpo_core.store.columns import logprob_columns
from grpo_core.store.ref_rows import Logprobs, RefRow
from grpo_core.store.schemas import ROLLOUTS
from grpo_core.training.decide import BatchFacts, Scores, decision_columns
from grpo_core.training.step_rows import SAMPLED
from grpo_core.types import SampledCompletion, SamplingRequest

FROM_PREFILTER = "prefilter"
"""Origin of rollouts that the prefilter had sampled."""

Columns = dict[str, list[Any]]


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """A group and the problem that it is about (the prompt's own, or a variant's)."""

    plan: GroupPlan
    problem: Problem


@dataclass(frozen=True)
class Collector:
    """Collects the rollout batches of one phase.

    Args:
        config: The resolved configuration.
        runtime: The policy, updated between batches.
        reference: None when no reference log-probs are needed.
        grader: Grades completions.
        loss: The resolved loss.
        phase: Phase number, from 1.
        max_completion_tokens: Budget of the phase.
        policy_name: `<phase key>`; with `@<step>` behind it, the id of the policy at a step.
        is_reference_at_start: The initial policy is the reference, so at step 0 the old log-probs
            are the reference's and are computed once.
    """

    config: RunConfig
    runtime: PolicyRuntime
    reference: Reference | None
    grader: Grader
    loss: ResolvedLoss
    phase: int
    max_completion_tokens: int
    policy_name: str
    is_reference_at_start: bool

    def sample(self, groups: Sequence[PlannedGroup], *, step: int) -> Columns:
        """Sample every group; columns of completions in row-major order.

        Args:
            groups: What to sample.
            step: First optimiser step of the batch.
        """
        requests: list[SamplingRequest] = []
        slots: list[list[int]] = []
        for number, group in enumerate(groups):
            for request, indices in self._requests(group, step):
                requests.append(request)
                slots.append([number * len(group.plan.suffix_ids) + index for index in indices])
        sampled = self.runtime.sampler.sample(requests)
        return self._in_row_order(requests, sampled, slots, step)

    def grade(self, groups: Sequence[PlannedGroup], completions: Columns) -> list[Verdict]:
        """Verdict of each completion, row-major."""
        return grade_rows(self.grader, completions["text"], _problem_of_rows(groups))

    def finish(
        self,
        groups: Sequence[PlannedGroup],
        completions: Columns,
        verdicts: Sequence[Verdict],
        facts: BatchFacts,
    ) -> pa.Table:
        """Score and group the completions of a batch.

        Args:
            groups: The groups, in order.
            completions: Columns of completions, row-major, with `origin`.
            verdicts: One a row.
            facts: Where in the run the batch stands.
        """
        problems = _problem_of_rows(groups)
        columns: Columns = {
            **completions,
            **verdict_columns(self.grader.rules, verdicts, problems),
            **self._identity(groups, facts),
        }
        needs_all = self.config.kl.place == "reward" or completions["origin"][0] != SAMPLED
        if needs_all:
            scores = self._score(columns, [True] * len(problems), facts)
            columns |= decision_columns(
                self.config, self.loss, columns, verdicts, problems, scores, facts
            )
        else:
            columns |= decision_columns(
                self.config, self.loss, columns, verdicts, problems, None, facts
            )
            is_live = [reason is None for reason in columns["drop_reason"]]
            scores = self._score(columns, is_live, facts)
        columns |= {
            **logprob_columns("old", scores.old),
            "ref_row_key": scores.keys,
            "ref_logprob_sum": [
                None if r is None else float(r.sum(dtype=np.float64)) for r in scores.refs
            ],
        }
        return pa.Table.from_pydict(columns, schema=ROLLOUTS.schema)

    def _score(self, columns: Columns, wanted: Sequence[bool], facts: BatchFacts) -> Scores:
        """Old and reference log-probs of the wanted rows, whose old ones form one work unit.

        Rows of dropped groups carry no term, so they are not scored, unless rewards depend on
        their divergence or the reference has scored them already (persisted samples).
        """
        rows = [
            RefRow(tuple(prompt), tuple(completion), temperature)
            for prompt, completion, temperature in zip(
                columns["prompt_token_ids"],
                columns["completion_token_ids"],
                columns["temperature"],
                strict=True,
            )
        ]
        unit = [row for row, is_wanted in zip(rows, wanted, strict=True) if is_wanted]
        refs = self.reference.read(unit).logprobs if self.reference is not None else None
        is_start = facts.step == 1 and self.is_reference_at_start and refs is not None
        old = (
            refs
            if is_start
            else score_unit(self.runtime.model, self.runtime.head, unit, self.config)
        )
        return Scores(
            keys=[row.key for row in rows],
            old=_spread(old or [], wanted),
            refs=_spread(refs, wanted) if refs is not None else [None] * len(rows),
        )

    def _requests(self, group: PlannedGroup, step: int) -> list[tuple[SamplingRequest, list[int]]]:
        """One request for each suffix of the group, with the sample indices that it serves."""
        by_suffix: dict[str | None, list[int]] = {}
        for index, suffix_id in enumerate(group.plan.suffix_ids):
            by_suffix.setdefault(suffix_id, []).append(index)
        parts = (
            self.config.seed_of("train"),
            "train",
            step,
            group.plan.prompt_id,
            group.plan.variant_id or "",
        )
        requests = []
        for suffix_id, indices in by_suffix.items():
            text = SUFFIXES[suffix_id] if suffix_id is not None else ""
            whole = sample_request(
                self.runtime.renderer.render(group.problem["text"], text),
                parts,
                num_samples=len(group.plan.suffix_ids),
                temperature=self.config.sampling.temperature,
                max_completion_tokens=self.max_completion_tokens,
            )
            seeds = tuple(whole.seeds[index] for index in indices)
            requests.append((_with_seeds(whole, seeds), indices))
        return requests

    def _in_row_order(
        self,
        requests: Sequence[SamplingRequest],
        sampled: Sequence[Sequence[SampledCompletion]],
        slots: Sequence[Sequence[int]],
        step: int,
    ) -> Columns:
        policy = f"{self.policy_name}@{step - 1}"
        columns = completion_columns(
            requests, sampled, renderer=self.runtime.renderer, policy=policy
        )
        flat = [slot for group in slots for slot in group]
        order = sorted(range(len(flat)), key=flat.__getitem__)
        columns["origin"] = [SAMPLED] * len(flat)
        return {name: [values[n] for n in order] for name, values in columns.items()}

    def _identity(self, groups: Sequence[PlannedGroup], facts: BatchFacts) -> Columns:
        rows = [
            (group.plan, index) for group in groups for index in range(len(group.plan.suffix_ids))
        ]
        return {
            "phase": [self.phase] * len(rows),
            "step": [facts.step] * len(rows),
            "group": [plan.group for plan, _ in rows],
            "sample_index": [index for _, index in rows],
            "prompt_id": [plan.prompt_id for plan, _ in rows],
            "variant_id": [plan.variant_id for plan, _ in rows],
            "suffix_id": [plan.suffix_ids[index] for plan, index in rows],
        }


def persisted_batch(samples: pa.Table, verdicts: pa.Table) -> tuple[Columns, list[Verdict]]:
    """Completion columns and verdicts of prefilter samples, in the given row order."""
    keep = [name for name in samples.column_names if name not in ("prompt_id", "sample_index")]
    columns: Columns = {name: samples.column(name).to_pylist() for name in keep}
    columns["origin"] = [FROM_PREFILTER] * samples.num_rows
    return columns, [stored_verdict(row) for row in verdicts.to_pylist()]


def _problem_of_rows(groups: Sequence[PlannedGroup]) -> list[Problem]:
    return [group.problem for group in groups for _ in group.plan.suffix_ids]


def _spread(values: Sequence[Logprobs], wanted: Sequence[bool]) -> list[Logprobs | None]:
    """Values of the wanted rows at their places, None elsewhere."""
    remaining = iter(values)
    return [next(remaining) if is_wanted else None for is_wanted in wanted]


def _with_seeds(request: SamplingRequest, seeds: tuple[int, ...]) -> SamplingRequest:
    return SamplingRequest(
        request.prompt_token_ids, seeds, request.temperature, request.max_completion_tokens
    )
