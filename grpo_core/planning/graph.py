"""The DAG of artefacts that a configuration describes.

A node knows its config fields, its inputs and what lies outside the lake; given the content of its
inputs it has a key. Inputs may be one *aspect* of an artefact (the test problems of `prompts`, the
checkpoint of a phase), so that a key changes only with what the node really reads.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any

from grpo_core.config import RunConfig
from grpo_core.errors import ConfigError
from grpo_core.objective.presets import resolve_loss
from grpo_core.planning.externals import Externals
from grpo_core.planning.key_fields import fields_of, function_digests, verifier_names
from grpo_core.planning.versions import KIND_VERSIONS
from grpo_core.store.canonical import sha256_json
from grpo_core.types import Kind, StageName

BASE = "base"


@dataclass(frozen=True, slots=True)
class InputRef:
    """An input of a node: another node, or one aspect of it."""

    label: str
    aspect: str = "content"


@dataclass(frozen=True, slots=True)
class Node:
    """One artefact to be made or reused.

    Args:
        label: Name in this run: `samples`, `train/2`, `eval_samples/base`, …
        kind: Kind of artefact.
        stage: Stage that makes it.
        phase: Phase number for train, band and evaluation nodes (0 is before training); -1 else.
        fields: Config path (or derived name) → value; part of the key.
        inputs: Role → node or aspect; their digests are part of the key.
        externals: Role → digest of something outside the lake; part of the key.
    """

    label: str
    kind: Kind
    stage: StageName
    phase: int
    fields: Mapping[str, Any]
    inputs: Mapping[str, InputRef]
    externals: Mapping[str, str]

    def payload(self, input_digests: Mapping[str, str]) -> dict[str, Any]:
        """What the key is the hash of."""
        return {
            "kind": self.kind.value,
            "version": KIND_VERSIONS[self.kind],
            "fields": dict(self.fields),
            "inputs": {**self.externals, **input_digests},
        }

    def key(self, input_digests: Mapping[str, str]) -> str:
        """Full key, 64 hex digits."""
        return sha256_json(self.payload(input_digests))


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in an order in which each comes after its inputs."""

    nodes: tuple[Node, ...]

    def __getitem__(self, label: str) -> Node:
        return next(node for node in self.nodes if node.label == label)

    def of_stage(self, stage: StageName) -> tuple[Node, ...]:
        """Nodes that a stage makes, in order."""
        return tuple(node for node in self.nodes if node.stage == stage)


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """The training state that a run starts from instead of the initial policy.

    Args:
        phase: Phase that the state belongs to.
        step: Optimiser step within the run, counted over all phases.
        digest: Digest of the state.
        is_phase_end: The phase is complete, so training goes on with the next one.
        directory: Where the state lies, relative to the lake's root.
        phase_start: Optimiser steps of the parent run before that phase.
    """

    phase: int
    step: int
    digest: str
    is_phase_end: bool
    directory: str
    phase_start: int


def build_graph(config: RunConfig, externals: Externals, fork: ForkPoint | None = None) -> Graph:
    """Describe every artefact of a run; reads nothing."""
    node = partial(_node, config)
    nodes = [
        node(
            Kind.PROMPTS,
            StageName.INGEST,
            fields=verifier_names(config),
            externals=_prompt_sources(externals),
        ),
        node(
            Kind.SAMPLES,
            StageName.PREFILTER,
            fields={"max_completion_tokens": config.train.phases[0].max_completion_tokens},
            inputs={"prompts": InputRef("prompts", "train_text")},
            externals={"policy": externals.policy},
        ),
        node(
            Kind.VERDICTS,
            StageName.PREFILTER,
            fields={"verifier_version": externals.verifier_version},
            inputs={"prompts": InputRef("prompts", "train"), "samples": InputRef("samples")},
            externals=function_digests(externals),
        ),
        node(
            Kind.BANDS,
            StageName.PREFILTER,
            label="bands/0",
            phase=0,
            fields={"longer_budget_next": False},
            inputs={"verdicts": InputRef("verdicts"), "samples": InputRef("samples")},
        ),
        node(
            Kind.VARIANTS,
            StageName.VARIANTS,
            inputs={"prompts": InputRef("prompts", "problems")},
        ),
        _ref_logp_node(config, externals),
    ]
    for phase in range(1, len(config.train.phases) + 1):
        if fork is None or phase > fork.phase or (phase == fork.phase and not fork.is_phase_end):
            nodes += _phase_nodes(config, externals, phase, fork)
    phases = [n.phase for n in nodes if n.kind is Kind.TRAIN]
    for phase in [0, *phases]:
        nodes += _evaluation_nodes(config, externals, phase)
    nodes.append(_audit_node(config, externals, nodes))
    return Graph(tuple(nodes))


def needs_reference(config: RunConfig) -> bool:
    """Whether reference log-probs are read at all; if not, the reference is never loaded."""
    return config.kl.place != "none" or config.kl.log


def _node(
    config: RunConfig,
    kind: Kind,
    stage: StageName,
    *,
    label: str = "",
    phase: int = -1,
    fields: Mapping[str, Any] | None = None,
    inputs: Mapping[str, InputRef] | None = None,
    externals: Mapping[str, str] | None = None,
) -> Node:
    return Node(
        label=label or kind.value,
        kind=kind,
        stage=stage,
        phase=phase,
        fields=fields_of(config, kind) | dict(fields or {}),
        inputs=inputs or {},
        externals=externals or {},
    )


def _prompt_sources(externals: Externals) -> dict[str, str]:
    return {f"{split}_source": digest for split, digest in externals.prompts.items()}


def _ref_logp_node(config: RunConfig, externals: Externals) -> Node:
    return _node(
        config,
        Kind.REF_LOGP,
        StageName.REF_LOGP,
        fields={"needs_reference": needs_reference(config)},
        inputs={"bands": InputRef("bands/0"), "samples": InputRef("samples")},
        externals={"reference": externals.reference, "tokenizer": externals.tokenizer},
    )


def _phase_nodes(
    config: RunConfig, externals: Externals, phase: int, fork: ForkPoint | None
) -> list[Node]:
    is_forked = fork is not None and phase == fork.phase + fork.is_phase_end
    inputs = {
        "train_problems": InputRef("prompts", "train"),
        "validation_problems": InputRef("prompts", "validation"),
        "bands": InputRef("bands/0" if is_forked else f"bands/{phase - 1}"),
    }
    if config.variants.draw_share > 0:
        inputs["variants"] = InputRef("variants")
    outside = {"tokenizer": externals.tokenizer, **function_digests(externals)}
    if needs_reference(config):
        outside["reference"] = externals.reference
    if is_forked and fork is not None:
        outside["parent_state"] = fork.digest
    elif phase > 1:
        inputs["parent"] = InputRef(f"train/{phase - 1}")
    else:
        outside["policy"] = externals.policy
        if config.train.prefilter_batches:
            inputs |= {"samples": InputRef("samples"), "verdicts": InputRef("verdicts")}
    train = _node(
        config,
        Kind.TRAIN,
        StageName.TRAIN,
        label=f"train/{phase}",
        phase=phase,
        fields=_phase_fields(config, externals, phase) | _fork_fields(config, phase, fork),
        inputs=inputs,
        externals=outside,
    )
    bands = _node(
        config,
        Kind.BANDS,
        StageName.TRAIN,
        label=f"bands/{phase}",
        phase=phase,
        fields={"longer_budget_next": phase < len(config.train.phases)},
        inputs={"rollouts": InputRef(f"train/{phase}"), "previous": inputs["bands"]},
    )
    return [train, bands]


def _phase_fields(config: RunConfig, externals: Externals, phase: int) -> dict[str, Any]:
    """Own fields of a phase and what follows from the rest of the configuration."""
    own = config.train.phases[phase - 1]
    fields: dict[str, Any] = {
        "phase.max_completion_tokens": own.max_completion_tokens,
        "phase.max_steps": own.max_steps,
        "phase": phase,
        "verifier_version": externals.verifier_version,
        "needs_reference": needs_reference(config),
    }
    longest = config.train.phases[-1].max_completion_tokens
    constant = resolve_loss(config.loss, longest_completion_tokens=longest).constant_length_tokens
    if constant is not None:
        fields["constant_length_tokens"] = constant
    if config.kl.budget.nats is not None or config.kl.relax_factor < 1:
        fields["total_steps"] = total_steps(config)
    return fields


def _fork_fields(config: RunConfig, phase: int, fork: ForkPoint | None) -> dict[str, Any]:
    """Steps that are left of a phase which a fork enters in its middle.

    Raises:
        ConfigError: None are left, or not whole rollout batches.
    """
    if fork is None or fork.is_phase_end or phase != fork.phase:
        return {}
    train = config.train
    left = fork.phase_start + train.phases[phase - 1].max_steps - fork.step
    per_batch = train.updates_per_rollout * train.epochs_per_rollout
    if left <= 0 or left % per_batch:
        raise ConfigError(
            f"train.phases.{phase - 1}.max_steps: after step {fork.step} of the parent {left} "
            f"steps of the phase are left, expected a positive multiple of {per_batch}",
            hint="raise max_steps, or fork from the end of the phase",
        )
    return {"remaining_steps": left}


def total_steps(config: RunConfig) -> int:
    """Optimiser steps of all phases; progress = step / total."""
    return sum(phase.max_steps for phase in config.train.phases)


def first_step(config: RunConfig, phase: int) -> int:
    """Optimiser steps that the phases before `phase` take."""
    earlier = takewhile(lambda item: item[0] < phase, enumerate(config.train.phases, start=1))
    return sum(item.max_steps for _, item in earlier)


def _evaluation_nodes(config: RunConfig, externals: Externals, phase: int) -> list[Node]:
    name = str(phase) if phase else BASE
    inputs = {"prompts": InputRef("prompts", "test_text")}
    outside = {"tokenizer": externals.tokenizer}
    if phase:
        inputs["checkpoint"] = InputRef(f"train/{phase}", "checkpoint")
    else:
        outside["checkpoint"] = externals.policy
    samples = _node(
        config,
        Kind.EVAL_SAMPLES,
        StageName.EVALUATE,
        label=f"eval_samples/{name}",
        phase=phase,
        inputs=inputs,
        externals=outside,
    )
    verdicts = _node(
        config,
        Kind.EVAL_VERDICTS,
        StageName.EVALUATE,
        label=f"eval_verdicts/{name}",
        phase=phase,
        fields={"verifier_version": externals.verifier_version},
        inputs={
            "prompts": InputRef("prompts", "test"),
            "samples": InputRef(f"eval_samples/{name}"),
        },
        externals=function_digests(externals),
    )
    return [samples, verdicts]


def _audit_node(config: RunConfig, externals: Externals, nodes: list[Node]) -> Node:
    return _node(
        config,
        Kind.AUDIT,
        StageName.AUDIT,
        inputs={node.label: InputRef(node.label) for node in nodes},
        externals={"sql": externals.sql},
    )
