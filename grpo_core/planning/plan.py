"""`grpo plan`: what would run and why, without running anything."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from grpo_core.errors import ArtifactError
from grpo_core.planning.graph import Graph, Node
from grpo_core.planning.resolve import Found, Resolver
from grpo_core.store.artifacts import library_versions, read_artifact
from grpo_core.store.lake import Lake
from grpo_core.types import StageName

_SHORT = 12
_MAX_PAYLOADS = 200


class PlanState(StrEnum):
    """What would happen to a node."""

    HIT = "HIT"
    """It is there and will be reused."""
    MISS = "MISS"
    """It will be computed."""
    PARTIAL = "PARTIAL"
    """Work in progress was left; it will be continued."""
    PENDING = "PENDING"
    """Its key depends on content that is not made yet."""


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One node of the plan.

    Args:
        label: Node of the DAG.
        stage: Stage that makes it.
        state: What would happen.
        key: Full key; empty while pending.
        reasons: Why, one line each; for a HIT, what is worth knowing.
    """

    label: str
    stage: StageName
    state: PlanState
    key: str
    reasons: tuple[str, ...]


def plan(
    graph: Graph,
    lake: Lake,
    pins: Mapping[str, Mapping[str, Any]],
    *,
    force: Collection[StageName] = (),
    stages: Collection[StageName] = tuple(StageName),
    strict_versions: bool = False,
) -> list[PlanRow]:
    """One row a node of the wanted stages, in order.

    Args:
        graph: The DAG of the configuration.
        lake: Where artefacts lie.
        pins: What this run used last, by node label.
        force: Stages to compute although they are there.
        stages: Stages that would run.
        strict_versions: A library that differs from the artefact's makes it a MISS.
    """
    resolver = Resolver(lake, graph, pins)
    unsettled: set[str] = set()
    rows = []
    for node in graph.nodes:
        row = _row(node, resolver, unsettled, force, strict_versions)
        if row.state is not PlanState.HIT:
            unsettled.add(node.label)
        if node.stage in stages:
            rows.append(row)
    return rows


def _row(
    node: Node,
    resolver: Resolver,
    unsettled: set[str],
    force: Collection[StageName],
    strict_versions: bool,
) -> PlanRow:
    waiting = sorted({ref.label for ref in node.inputs.values()} & unsettled)
    if waiting:
        reason = f"depends on the content of {', '.join(waiting)}"
        return PlanRow(node.label, node.stage, PlanState.PENDING, "", (reason,))
    found = resolver.find(node)
    partial = resolver.lake.partial(node.stage, found.key)
    if node.stage in force and not (partial.is_forced and partial.exists()):
        return PlanRow(node.label, node.stage, PlanState.MISS, found.key, ("forced",))
    if found.artifact is not None and node.stage not in force:
        changed = tuple(_version_changes(found.artifact.manifest))
        state = PlanState.MISS if changed and strict_versions else PlanState.HIT
        return PlanRow(node.label, node.stage, state, found.key, changed)
    if partial.exists():
        units = "work in progress will be continued"
        return PlanRow(node.label, node.stage, PlanState.PARTIAL, found.key, (units,))
    reasons = tuple(_miss_reasons(node, resolver, found))
    return PlanRow(node.label, node.stage, PlanState.MISS, found.key, reasons)


def _version_changes(manifest: Mapping[str, Any]) -> Iterator[str]:
    now = library_versions()
    for name, before in manifest["libraries"].items():
        if name in now and now[name] != before:
            yield f"made with {name} {before}, now {now[name]}"


def _miss_reasons(node: Node, resolver: Resolver, found: Found) -> Iterator[str]:
    if found.damage:
        yield f"damaged: {found.damage}"
        return
    payload = node.payload(resolver.input_digests(node)[0])
    compared = _last_used(node, resolver) or _nearest(node, resolver.lake, payload)
    if compared is None:
        yield "never made"
        return
    whom, before = compared
    yield f"compared with {whom}:"
    yield from _differences(before, payload)


def _last_used(node: Node, resolver: Resolver) -> tuple[str, Mapping[str, Any]] | None:
    pin = resolver.pins.get(node.label)
    if pin is None:
        return None
    directory = resolver.lake.store.key_directory(node.stage, str(pin["key"]))
    payload = _payload(directory / str(pin["content"])[:_SHORT])
    return ("what this run used last", payload) if payload is not None else None


def _nearest(
    node: Node, lake: Lake, payload: Mapping[str, Any]
) -> tuple[str, Mapping[str, Any]] | None:
    """The artefact of the same kind with the fewest differences, newest first."""
    directories = sorted(
        (lake.root / "artifacts" / node.stage).glob("*/*/manifest.json"),
        key=lambda path: path.stat().st_mtime,
        reverse=True,
    )
    candidates = []
    for manifest in directories[:_MAX_PAYLOADS]:
        before = _payload(manifest.parent)
        if before is not None and before["kind"] == node.kind:
            candidates.append((len(list(_differences(before, payload))), manifest, before))
    if not candidates:
        return None
    _, manifest, before = min(candidates, key=lambda item: item[0])
    return f"the nearest {node.kind} ({manifest.parent.parent.name[:_SHORT]})", before


def _payload(directory: Path) -> Mapping[str, Any] | None:
    try:
        payload: Mapping[str, Any] = read_artifact(directory).manifest["payload"]
    except ArtifactError:
        return None  # nothing to compare with; what is damaged is said where it is used
    return payload


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    old, new = _flat(before), _flat(after)
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            yield f"{name}: {_show(name, old)} → {_show(name, new)}"


def _flat(payload: Mapping[str, Any]) -> dict[str, Any]:
    inputs = {f"input {role}": digest for role, digest in payload["inputs"].items()}
    # Fields pass through JSON in manifests, so tuples and lists must compare equal.
    fields = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in payload["fields"].items()
    }
    return {"version": payload["version"], **fields, **inputs}


def _show(name: str, values: Mapping[str, Any]) -> str:
    if name not in values:
        return "absent"
    value = values[name]
    return str(value)[:_SHORT] if name.startswith("input ") else repr(value)
