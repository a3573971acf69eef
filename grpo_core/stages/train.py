"""Stage train: one artefact a phase, started from whatever brings it furthest.

In this order: the state that a killed attempt left, the state to fork from, the final state of a
shorter phase that is equal otherwise, the phase before, the initial policy.
"""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from grpo_core.config import RunConfig
from grpo_core.errors import StageInputError
from grpo_core.models.context import budgets, check_prompts
from grpo_core.models.render import PromptRenderer
from grpo_core.objective.kl_control import resumed_control, start_control
from grpo_core.objective.presets import resolve_loss
from grpo_core.planning.externals import model_directory
from grpo_core.planning.graph import total_steps
from grpo_core.policy.reference import Reference
from grpo_core.policy.runtime import load_runtime
from grpo_core.prompts.ingest import active, draw_limit
from grpo_core.prompts.suffixes import SUFFIXES
from grpo_core.rewards.grader import Grader
from grpo_core.rewards.rows import Problem, problems_by_id
from grpo_core.stages.alerts import step_alerts
from grpo_core.stages.context import Made, MakeContext
from grpo_core.stages.grading import checked_grader
from grpo_core.stages.prefilter import train_problems
from grpo_core.stages.ref_logp import picked_samples
from grpo_core.stages.shorter_phase import adopt_shorter_phase
from grpo_core.training.collect import Collector
from grpo_core.training.first_batch import pick_first_batch
from grpo_core.training.phase import PhasePlan, PhaseTrainer
from grpo_core.training.state import (
    CHECKPOINT,
    STATE,
    TrainerState,
    load_optimizer,
    load_trainer_state,
)
from grpo_core.training.step_rows import pass_rate
from grpo_core.training.updates import Updater, make_optimizer
from grpo_core.training.validation import Validator
from grpo_core.types import Split


@dataclass(frozen=True, slots=True)
class Start:
    """Where a phase starts from.

    Args:
        directory: Model directory.
        state_directory: Directory with `state/`, or None for a fresh optimiser.
        state: Trainer state.
        batches_done: Rollout batches of the phase that the state includes.
        first_step: Optimiser steps of the run before the phase.
    """

    directory: Path
    state_directory: Path | None
    state: TrainerState
    batches_done: int
    first_step: int


def make_phase(context: MakeContext) -> Made:
    """Train one phase; see the module docstring for where it starts."""
    start = _start(context)
    plan = _plan(context, start)
    with checked_grader(context, list(plan.problems.values())) as grader:
        trainer = _trainer(context, start, plan, grader)
        with closing(trainer.runtime.sampler):
            _run_batches(context, trainer, start)
    return _made(context, plan)


def _run_batches(context: MakeContext, trainer: PhaseTrainer, start: Start) -> None:
    """Every rollout batch behind the start, with a state now and then and at the end."""
    every = -(-context.config.execution.checkpoint_every_steps // trainer.steps_per_batch)
    for batch in range(start.batches_done, trainer.num_batches):
        with context.timings.part("train") as timed:
            before = trainer.generated_tokens
            steps = trainer.run_batch(batch)
            timed.tokens = trainer.generated_tokens - before
            is_last = batch + 1 == trainer.num_batches
            if (batch + 1) % every == 0 or is_last or context.is_asked_to_stop:
                trainer.save()
        _report(context, trainer, batch, steps)


def _start(context: MakeContext) -> Start:
    base = _phase_start(context)
    states = context.partial.directories("state")
    if not states and "parent_state" not in context.node.externals:
        adopt_shorter_phase(context, base.first_step)
        states = context.partial.directories("state")
    if not states:
        return base
    step = max(states)
    train = context.config.train
    done = (step - base.first_step) // (train.updates_per_rollout * train.epochs_per_rollout)
    context.note(f"continued after step {step}")
    directory = states[step]
    return Start(
        directory / CHECKPOINT,
        directory,
        load_trainer_state(directory),
        done,
        base.first_step,
    )


def _phase_start(context: MakeContext) -> Start:
    """The start of the phase when nothing of it was done yet."""
    if "parent_state" in context.node.externals:
        if context.fork is None:
            raise StageInputError(f"{context.node.label} forks, but the attempt names no state")
        directory = context.lake.root / str(context.fork["directory"])
    elif "parent" in context.inputs:
        directory = context.inputs["parent"].path
    else:
        state = TrainerState(0, start_control(context.config.kl))
        return Start(model_directory(context.config.model.path), None, state, 0, 0)
    state = load_trainer_state(directory)
    return Start(directory / CHECKPOINT, directory, state, 0, state.step)


def _plan(context: MakeContext, start: Start) -> PhasePlan:
    config, node = context.config, context.node
    prompts = context.inputs["train_problems"].table("prompts")
    own_steps = config.train.phases[node.phase - 1].max_steps
    max_steps = int(node.fields.get("remaining_steps", own_steps))
    return PhasePlan(
        phase=node.phase,
        first_step=start.first_step,
        max_steps=max_steps,
        total_steps=total_steps(config),
        bands=context.inputs["bands"].table("bands"),
        problems=problems_by_id(train_problems(context, prompts)),
        variants=_variants(context, prompts),
        persisted=_persisted(context),
    )


def _variants(context: MakeContext, prompts: pa.Table) -> Mapping[str, list[Problem]]:
    if "variants" not in context.inputs:
        return {}
    parents = problems_by_id(active(prompts, Split.TRAIN))
    found: dict[str, list[Problem]] = {}
    for row in context.inputs["variants"].table("variants").to_pylist():
        parent = parents[row["prompt_id"]]
        inherited = {name: parent[name] for name in ("source", "verifier", "tests")}
        found.setdefault(row["prompt_id"], []).append({**row, **inherited})
    return found


def _persisted(context: MakeContext) -> tuple[pa.Table, pa.Table] | None:
    """Samples and verdicts of the first rollout batch, when it takes the prefilter's."""
    if "samples" not in context.inputs:
        return None
    groups = pick_first_batch(context.inputs["bands"].table("bands"), context.config)
    wanted = [(group.prompt_id, index) for group in groups for index in group.sample_indices]
    return (
        picked_samples(context.inputs["samples"].table("samples"), wanted),
        picked_samples(context.inputs["verdicts"].table("verdicts"), wanted),
    )


def _trainer(context: MakeContext, start: Start, plan: PhasePlan, grader: Grader) -> PhaseTrainer:
    config, node = context.config, context.node
    validation = context.inputs["validation_problems"].table("prompts")
    rows = draw_limit(active(validation, Split.VALIDATION), config.prompts.validation_limit)
    validated = problems_by_id(rows)

    def longest_prompt(renderer: PromptRenderer, limit: int) -> int:
        return _longest_prompt(config, plan, validated, renderer, limit)

    runtime = load_runtime(config, start.directory, longest_prompt)
    optimizer = make_optimizer(runtime.model, config)
    if start.state_directory is not None:
        load_optimizer(optimizer, start.state_directory, model=runtime.model)
    longest = config.train.phases[-1].max_completion_tokens
    loss = resolve_loss(config.loss, longest_completion_tokens=longest)
    budget = config.train.phases[node.phase - 1].max_completion_tokens
    reference = None
    if "reference" in node.externals:
        reference = Reference.open(
            config,
            context.lake.root,
            weights=node.externals["reference"],
            tokenizer=node.externals["tokenizer"],
            scorer=context.scorer,
        )
    progress = start.state.step / total_steps(config)
    kl = resumed_control(start.state.kl, config.kl, progress=progress)
    is_reference = config.model.reference in ("", config.model.path)
    collector = Collector(
        config=config,
        runtime=runtime,
        reference=reference,
        grader=grader,
        loss=loss,
        phase=node.phase,
        max_completion_tokens=budget,
        policy_name=context.key,
        is_reference_at_start=is_reference and "policy" in node.externals,
    )
    return PhaseTrainer(
        config=config,
        plan=plan,
        runtime=runtime,
        reference=reference,
        collector=collector,
        updater=Updater(runtime.model, optimizer, config, loss, runtime.head, runtime.device),
        validator=Validator(config, list(validated.values()), grader, budget),
        partial=context.partial,
        state=replace(start.state, kl=kl),
        tokenizer_from=model_directory(config.model.path),
    )


def _longest_prompt(
    config: RunConfig,
    plan: PhasePlan,
    validated: Mapping[str, Problem],
    renderer: PromptRenderer,
    limit: int,
) -> int:
    """Refuse prompts, variants and suffixes that some phase's budget leaves no room for."""
    problems = [*plan.problems.items(), *validated.items()]
    problems += [(v["variant_id"], v) for found in plan.variants.values() for v in found]
    return check_prompts(
        renderer,
        [(name, problem["text"]) for name, problem in problems],
        budgets(config),
        limit,
        SUFFIXES.values() if config.variants.suffix_share else (),
    )


def _report(context: MakeContext, trainer: PhaseTrainer, batch: int, steps: pa.Table) -> None:
    rows: list[dict[str, Any]] = steps.to_pylist()
    for alert in step_alerts(rows, context.config.execution.alerts):
        context.alert(alert)
    last = rows[-1]
    figures = {
        "reward": last["reward_mean"],
        "pass_rate": _pass_rate(context, batch),
        "ref_kl_k3": last["ref_kl_k3"],
        "entropy": last["policy_entropy_nats"],
        "truncation_rate": last["truncation_rate"],
        "validation_pass_at_1": last["validation_pass_at_1"],
    }
    known = {name: value for name, value in figures.items() if value is not None}
    done = (batch + 1) * trainer.steps_per_batch
    context.report(done, trainer.plan.max_steps, "steps", known)


def _pass_rate(context: MakeContext, batch: int) -> float:
    return pass_rate(context.partial.read("rollouts", batch, ["label", "reward_raw"]))


def _made(context: MakeContext, plan: PhasePlan) -> Made:
    states = context.partial.directories("state")
    final = states[plan.first_step + plan.max_steps]
    steps = context.partial.read_all("steps")
    kept = states if context.config.execution.keep_step_states else {}
    batches = context.partial.units("rollouts")
    validations = [v for v in steps.column("validation_pass_at_1").to_pylist() if v is not None]
    figures = {
        "pass_rate_first": _pass_rate(context, batches[0]),
        "pass_rate_last": _pass_rate(context, batches[-1]),
    }
    if validations:
        figures["validation_pass_at_1"] = validations[-1]
    return Made(
        tables={
            "rollouts": context.partial.read_all("rollouts"),
            "steps": steps,
            "events": context.partial.read_all("events"),
            "ref_reads": context.partial.read_all("ref_reads"),
        },
        directories={CHECKPOINT: final / CHECKPOINT, STATE: final / STATE},
        side_directories={f"states/{step:06d}": path for step, path in kept.items()},
        figures=figures,
    )
