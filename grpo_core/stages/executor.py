"""Settles the nodes of one stage: reused when they are there, else made under their key's lock."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from grpo_core.errors import ArtifactError, GrpoError, RunStoppedError, StageInputError
from grpo_core.planning.graph import Graph, Node
from grpo_core.planning.resolve import Resolver, current
from grpo_core.stages.context import Made, MakeContext, Timings
from grpo_core.stages.devices import device_lock
from grpo_core.stages.faults import machine_fault
from grpo_core.stages.forcing import is_forced
from grpo_core.stages.records import NodeResult, NodeState, StageResult, utc_now
from grpo_core.stages.sampler_notes import sampler_warnings_noted
from grpo_core.stages.session import RunSession
from grpo_core.stages.stopping import stop_if_asked
from grpo_core.stages.unit_watch import UnitWatch
from grpo_core.store.artifacts import Artifact, Draft
from grpo_core.store.lake import Lake
from grpo_core.store.lake_database import write_lake_database
from grpo_core.store.locks import hold
from grpo_core.types import Kind, StageName

logger = logging.getLogger(__name__)

_MAKERS: dict[Kind, str] = {
    Kind.PROMPTS: "grpo_core.stages.ingest:make_prompts",
    Kind.SAMPLES: "grpo_core.stages.prefilter:make_samples",
    Kind.VERDICTS: "grpo_core.stages.prefilter:make_verdicts",
    Kind.BANDS: "grpo_core.stages.prefilter:make_bands",
    Kind.VARIANTS: "grpo_core.stages.variants:make_variants",
    Kind.REF_LOGP: "grpo_core.stages.ref_logp:make_receipt",
    Kind.TRAIN: "grpo_core.stages.train:make_phase",
    Kind.EVAL_SAMPLES: "grpo_core.stages.evaluate:make_eval_samples",
    Kind.EVAL_VERDICTS: "grpo_core.stages.evaluate:make_eval_verdicts",
    Kind.AUDIT: "grpo_core.stages.audit:make_audit",
}


def run_stage(directory: Path, stage: StageName) -> StageResult:
    """Settle every node of a stage for the attempt in progress.

    Args:
        directory: `lake/runs/<run>` of an open session.
        stage: Stage to run.

    Raises:
        StageInputError: A stage before this one has not been run.
        GrpoError: Whatever the making of an artefact raises.
    """
    session = RunSession.attach(directory)
    graph = session.graph()
    resolver = Resolver(session.lake, graph, session.records.pins())
    _require_inputs(graph, stage, resolver)
    before = session.records.pins()
    try:
        results = tuple(_settle(session, resolver, node) for node in graph.of_stage(stage))
    finally:
        _refresh_database(session, before)
    return StageResult(stage=stage, nodes=results)


def _refresh_database(session: RunSession, before: Mapping[str, Mapping[str, Any]]) -> None:
    """Rebuild `lake.duckdb` when the stage published or pinned something that it does not show."""
    lake = session.lake
    is_same = _content(session.records.pins()) == _content(before)
    if not (is_same and lake.database.is_file()):
        write_lake_database(lake.catalog(), lake.database)


def _content(pins: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    return {label: f"{node['key']} {node['content']}" for label, node in pins.items()}


def _require_inputs(graph: Graph, stage: StageName, resolver: Resolver) -> None:
    """Refuse to start when an earlier stage has not made its part; names the first such stage."""
    order = list(StageName)
    for earlier in graph.nodes:
        if order.index(earlier.stage) >= order.index(stage):
            continue
        is_needed = any(
            reference.label == earlier.label
            for node in graph.of_stage(stage)
            for reference in node.inputs.values()
        )
        if is_needed and resolver.find(earlier).artifact is None:
            missing = _first_missing(graph, earlier, resolver)
            found = resolver.find(missing)
            why = f" ({found.damage})" if found.damage else ""
            raise StageInputError(
                f"stage {stage} needs {earlier.label!r}, which stage {missing.stage} makes and "
                f"which is not there for this configuration{why}",
                hint=f"run stage {missing.stage} first: grpo run {missing.stage}; "
                "grpo plan shows what would run and why",
            )


def _first_missing(graph: Graph, node: Node, resolver: Resolver) -> Node:
    pending = resolver.find(node).pending_on
    return _first_missing(graph, graph[pending[0]], resolver) if pending else node


def _settle(session: RunSession, resolver: Resolver, node: Node) -> NodeResult:
    started = time.perf_counter()
    stop_if_asked(session.directory)
    session.progress.emit("stage_started", stage=node.stage, label=node.label)
    found = resolver.find(node)
    must_make = is_forced(session, resolver.graph, node, found.key)
    if found.damage:
        text = f"damaged and made again: {found.damage}"
        session.progress.emit("note", stage=node.stage, label=node.label, text=text)
        logger.warning("%s: %s", node.label, text)
    artifact, tokens = found.artifact, 0
    state: NodeState = "Reused"
    if artifact is None or must_make:
        logger.info("%s: computing %s", node.label, found.key)
        artifact, state, tokens = _make_alone(session, resolver, node, found.key, must_make)
        resolver.settle(node, artifact)
    result = NodeResult(
        label=node.label,
        kind=node.kind,
        stage=node.stage,
        phase=node.phase,
        key=artifact.key,
        content=artifact.content,
        path=str(artifact.path.relative_to(session.lake.root)),
        state=state,
        seconds=round(time.perf_counter() - started, 3),
        tokens=tokens,
        figures=dict(artifact.manifest["figures"]),
        finished_at=utc_now(),
    )
    session.records.add(result)
    session.progress.emit("stage_finished", **result.model_dump(include=_REPORTED))
    return result


_REPORTED = {"stage", "label", "state", "seconds", "tokens", "figures"}


def _make_alone(
    session: RunSession, resolver: Resolver, node: Node, key: str, must_make: bool
) -> tuple[Artifact, NodeState, int]:
    """Hold the key's lock; whoever waited reuses what the other made."""
    lake = session.lake

    def on_wait(holder: str) -> None:
        session.progress.emit("stage_waiting", stage=node.stage, label=node.label, holder=holder)

    def on_poll() -> None:
        stop_if_asked(session.directory)

    who = f"run {session.run!r}: {node.label}"
    with hold(lake.lock_path(key), who, on_wait=on_wait, on_poll=on_poll):
        if not must_make:
            made_meanwhile = _current(lake, node, key)
            if made_meanwhile is not None:
                return made_meanwhile, "Reused", 0
        else:
            lake.partial(node.stage, key).start_forced()
        with device_lock(session.config, node.kind, who, on_wait=on_wait, on_poll=on_poll):
            artifact, tokens = _make_with_retries(session, resolver, node, key)
        return artifact, "Computed", tokens


def _make_with_retries(
    session: RunSession, resolver: Resolver, node: Node, key: str
) -> tuple[Artifact, int]:
    """Try again after faults that are declared to pass; finished units are read, not redone."""
    retries = session.config.execution.retries
    for attempt in range(retries):
        try:
            return _make(session, resolver, node, key)
        except GrpoError as error:
            if not error.is_transient:
                raise
            text = f"{error.message}; trying again ({attempt + 1} of {retries})"
            session.progress.emit("note", stage=node.stage, label=node.label, text=text)
            logger.warning("%s: %s", node.label, text)
    return _make(session, resolver, node, key)


def _current(lake: Lake, node: Node, key: str) -> Artifact | None:
    try:
        return current(lake, node, key)
    except ArtifactError as error:
        logger.warning("made again: %s", error.message)
        return None


@contextmanager
def _placed(watch: UnitWatch) -> Iterator[None]:
    """Errors from inside say which artefact was in work and how far it was."""
    try:
        with watch.armed():
            yield
    except RunStoppedError as stop:
        stop.add_place(f"{watch.label} {watch.position}")
        raise
    except Exception as error:
        logger.exception("%s failed %s", watch.label, watch.position)
        place = f"{watch.label} failed {watch.position}"
        if isinstance(error, GrpoError):
            error.add_place(place)
        elif (fault := machine_fault(error)) is not None:
            fault.add_place(place)
            raise fault from error
        else:
            error.add_note(place)
        raise


def _make(session: RunSession, resolver: Resolver, node: Node, key: str) -> tuple[Artifact, int]:
    lake = session.lake
    partial = lake.partial(node.stage, key)
    partial.claim(session.run)
    timings = Timings(partial)
    spent_before = sum(timings.seconds.values())
    watch = UnitWatch(node.label, session.config.execution.stall_seconds, session.log)
    context = MakeContext(
        config=session.config,
        lake=lake,
        node=node,
        key=key,
        inputs=_input_artifacts(resolver, node),
        partial=partial,
        progress=session.progress,
        timings=timings,
        run=session.run,
        attempt=session.attempt,
        is_forced=node.stage in session.forced,
        fork=session.request["fork"],
        watch=watch,
    )
    started = time.perf_counter()
    with _placed(watch), sampler_warnings_noted(context.note):
        made = _maker(node.kind)(context)
        artifact = lake.store.publish(
            Draft(
                kind=node.kind,
                stage=node.stage,
                key=key,
                payload=node.payload(resolver.input_digests(node)[0]),
                tables={**made.tables, "timings": timings.table()},
                directories=made.directories,
                side_directories=made.side_directories,
                aspects=made.aspects,
                figures=made.figures,
                seconds=spent_before + time.perf_counter() - started,
                tokens=sum(timings.tokens.values()),
            )
        )
    partial.remove()
    lake.store.remember_files(artifact)
    return artifact, timings.total_tokens


def _input_artifacts(resolver: Resolver, node: Node) -> dict[str, Artifact]:
    artifacts = {}
    for role, reference in node.inputs.items():
        artifact = resolver.find(resolver.graph[reference.label]).artifact
        if artifact is None:
            raise StageInputError(f"{node.label} needs {reference.label}, which is not there")
        artifacts[role] = artifact
    return artifacts


def _maker(kind: Kind) -> Callable[[MakeContext], Made]:
    """Import a maker when it is needed: most of them import torch."""
    module, name = _MAKERS[kind].split(":")
    maker: Callable[[MakeContext], Made] = getattr(import_module(module), name)
    return maker
