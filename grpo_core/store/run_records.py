"""What runs noted about the artefacts that they used, read with care.

```
runs/<run>/run.json           label → node of the latest attempt that touched it (the pins)
runs/<run>/attempts/0003.json one attempt and its nodes
```

A node is in its attempt before it is in run.json, so a run.json that is missing or torn is made
again from the attempts, and nothing that a run used is forgotten. For a torn attempt, see
`run_mending`.
"""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from grpo_core.errors import ArtifactError
from grpo_core.store.files import read_json
from grpo_core.store.reading import entries_in, reading

RUN, ATTEMPTS, CONFIG = "run.json", "attempts", "config.json"
NODE_FIELDS = (
    "stage",
    "label",
    "kind",
    "phase",
    "key",
    "content",
    "state",
    "seconds",
    "tokens",
    "finished_at",
)
_RENEWED = "run it again: it is made again from the attempts"
_LOST_RUN = "put it back from a copy, or remove the run's directory"

logger = logging.getLogger(__name__)


def is_run(directory: Path) -> bool:
    """Whether a run has begun in this directory."""
    is_noted = any(path.name == RUN and path.is_file() for path in entries_in(directory))
    return is_noted or bool(attempt_files(directory))


def attempt_files(directory: Path) -> list[Path]:
    """Records of a run's attempts, in order.

    Raises:
        FileUnreadableError: The system does not let their directory be listed.
    """
    return [
        path
        for path in entries_in(directory / ATTEMPTS)
        if path.suffix == ".json" and path.stem.isdecimal()
    ]


def read_run(directory: Path) -> dict[str, Any]:
    """Contents of run.json; what the attempts say where it is missing or torn.

    Raises:
        ArtifactError: It is, and there are no attempts, or one is torn, too.
        FileUnreadableError: The system does not let one be read.
    """
    try:
        return check_run(directory)
    except ArtifactError as error:
        paths = attempt_files(directory)
        if not paths:
            raise ArtifactError(error.message, hint=_LOST_RUN) from error
        logger.warning("what the attempts say is used: %s", error.message)
    attempts = [read_attempt(path) for path in paths]
    nodes = {node["label"]: node for attempt in attempts for node in attempt["nodes"]}
    return {"run": directory.name, "attempt": attempts[-1]["attempt"], "nodes": nodes}


def check_run(directory: Path) -> dict[str, Any]:
    """Contents of run.json.

    Raises:
        ArtifactError: It is missing or damaged.
        FileUnreadableError: The system does not let it be read.
    """
    path = directory / RUN
    record = _read(path, hint=_RENEWED)
    nodes = record.get("nodes")
    if not isinstance(nodes, dict):
        raise ArtifactError(f"{path} lists no nodes", hint=_RENEWED)
    _check_nodes(path, nodes.values(), hint=_RENEWED)
    return record


def read_attempt(path: Path) -> dict[str, Any]:
    """One attempt's record.

    Raises:
        ArtifactError: It is missing or damaged.
        FileUnreadableError: The system does not let it be read.
    """
    hint = (
        f"grpo lake restore --run {path.parents[1].name} makes it again from run.json, as the next "
        "attempt does; what only that attempt used is garbage then, so a copy is better"
    )
    record = _read(path, hint=hint)
    nodes = record.get("nodes")
    if not isinstance(nodes, list):
        raise ArtifactError(f"{path} lists no nodes", hint=hint)
    _check_nodes(path, nodes, hint=hint)
    return record


def check_settings(directory: Path) -> None:
    """Whether config.json, where there is one, holds settings.

    Raises:
        ArtifactError: It is torn.
        FileUnreadableError: The system does not let it be read.
    """
    path = directory / CONFIG
    hint = "run it again to renew the file"
    try:
        with reading(path, hint=hint):
            settings = read_json(path)
    except FileNotFoundError:
        return
    if not isinstance(settings, dict):
        raise ArtifactError(f"{path} holds no settings", hint=hint)


def check_records(directory: Path) -> list[tuple[Path, ArtifactError]]:
    """Every record of a run that is damaged or missing, and how.

    Raises:
        FileUnreadableError: The system does not let one be read.
    """
    found = []
    try:
        check_run(directory)
    except ArtifactError as error:
        found.append((directory / RUN, error))
    try:
        check_settings(directory)
    except ArtifactError as error:
        found.append((directory / CONFIG, error))
    for path in attempt_files(directory):
        try:
            read_attempt(path)
        except ArtifactError as error:
            found.append((path, error))
    return found


def _read(path: Path, *, hint: str) -> dict[str, Any]:
    try:
        with reading(path, hint=hint):
            record = read_json(path)
    except FileNotFoundError as error:
        raise ArtifactError(f"{path} is missing", hint=hint) from error
    if not isinstance(record, dict) or not isinstance(record.get("attempt"), int):
        raise ArtifactError(f"{path} is no record of a run", hint=hint)
    return record


def _check_nodes(path: Path, nodes: Iterable[Any], *, hint: str) -> None:
    for node in nodes:
        lost = set(NODE_FIELDS) - (node.keys() if isinstance(node, Mapping) else set())
        if lost:
            raise ArtifactError(f"{path} holds a node without {', '.join(sorted(lost))}", hint=hint)
