"""From nodes to keys and artefacts on disk, following the run's pins."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grpo_core.errors import ArtifactError
from grpo_core.planning.graph import Graph, Node
from grpo_core.store.artifacts import Artifact
from grpo_core.store.lake import Lake
from grpo_core.store.ref_usage import check_rows
from grpo_core.types import Kind


@dataclass(frozen=True, slots=True)
class Found:
    """What the lake holds of a node.

    Args:
        key: Full key; empty while an input is not made yet.
        artifact: A complete, checked generation; None when there is none.
        pending_on: Labels of inputs whose content is not known yet.
        damage: Why the generation in force cannot be used; empty when it can.
    """

    key: str
    artifact: Artifact | None
    pending_on: tuple[str, ...] = ()
    damage: str = ""


@dataclass
class Resolver:
    """Finds the artefacts of one graph; remembers what it has checked.

    Args:
        lake: Where to look.
        graph: What to look for.
        pins: Node label → {key, content} that the run used last; a pinned generation wins over
            CURRENT, so that no other run changes this run's data.
    """

    lake: Lake
    graph: Graph
    pins: Mapping[str, Mapping[str, Any]]
    _found: dict[str, Found] = field(default_factory=dict)

    def find(self, node: Node) -> Found:
        """Look a node up, and its inputs before it."""
        if node.label not in self._found:
            self._found[node.label] = self._find(node)
        return self._found[node.label]

    def settle(self, node: Node, artifact: Artifact) -> None:
        """Take a freshly made artefact as the node's."""
        self._found[node.label] = Found(artifact.key, artifact)

    def input_digests(self, node: Node) -> tuple[dict[str, str], tuple[str, ...]]:
        """Role → digest of each input that is there, and the labels of those that are not."""
        digests: dict[str, str] = {}
        missing: list[str] = []
        for role, reference in node.inputs.items():
            artifact = self.find(self.graph[reference.label]).artifact
            if artifact is None:
                missing.append(reference.label)
            else:
                digests[role] = artifact.aspect(reference.aspect)
        return digests, tuple(missing)

    def _find(self, node: Node) -> Found:
        digests, missing = self.input_digests(node)
        if missing:
            return Found("", None, pending_on=missing)
        key = node.key(digests)
        try:
            return Found(key, self._pinned(node, key) or current(self.lake, node, key))
        except ArtifactError as error:
            return Found(key, None, damage=error.message)

    def _pinned(self, node: Node, key: str) -> Artifact | None:
        pin = self.pins.get(node.label)
        if pin is None or pin["key"] != key:
            return None
        return _with_rows(
            self.lake, node, self.lake.store.generation(node.stage, key, pin["content"])
        )


def current(lake: Lake, node: Node, key: str) -> Artifact | None:
    """The generation of a node that is in force, checked; None when there is none.

    Raises:
        ArtifactError: There is one, but it is damaged, or a receipt of rows that are gone.
    """
    artifact = lake.store.current(node.stage, key)
    return None if artifact is None else _with_rows(lake, node, artifact)


def _with_rows(lake: Lake, node: Node, artifact: Artifact) -> Artifact:
    """A receipt is worth the rows that it names; making it again scores those that are missing."""
    if node.kind is Kind.REF_LOGP:
        check_rows(lake, [artifact], hint="they are scored again")
    return artifact
