"""What runs noted about the artefacts that they used, read with care.

```
runs/<run>/run.json           label → node of the latest attempt that touched it (the pins)
runs/<run>/attempts/0003.json one attempt and its nodes
```

A node is in its attempt before it is in run.json, so a run.json that is missing or torn is made
again from the attempts, and nothing that a run used is forgotten. For a torn or
missing attempt, see `run_mending`.
"""

import logging
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from grpo_core.errors import ArtifactError
from grpo_core.store.files import read_json
from grpo_core.store.reading import entries_in, reading

RUN, ATTEMPTS, CONFIG = "run.json", "attempts", "config.json"
NODE_FIELDS: dict[str, type | tuple[type, ...]] = {
    "stage": str,
    "label": str,
    "kind": str,
    "phase": int,
    "key": str,
    "content": str,
    "state": str,
    "seconds": (int, float),
    "tokens": int,
    "finished_at": str,
}
"""What every node says, and of which type."""
_ATTEMPT = re.compile(r"[0-9]{4,6}\.json")
MAX_MISSING = 1000
"""How many attempts in a row may be missing; a number farther on was given by somebody else."""
_RENEWED = "run it again: it is made again from the attempts"
_RENEWED_CONFIG = "run it again to renew the file"
_LOST_RUN = "put it back from a copy, or remove the run's directory"

logger = logging.getLogger(__name__)


def is_run(directory: Path) -> bool:
    """Whether a run has begun in this directory."""
    is_noted = any(path.name == RUN and path.is_file() for path in entries_in(directory))
    return is_noted or bool(attempt_files(directory))


def attempt_files(directory: Path) -> list[Path]:
    """Records of a run's attempts, in order, also those missing between the first and the last.

    Attempts are numbered from 1 on: where `0002.json` is there, `0001.json` was. What is numbered
    as if more than `MAX_MISSING` were gone is no record of a run.

    Raises:
        FileUnreadableError: The system does not let their directory be listed.
    """
    names = {path.name for path in entries_in(directory / ATTEMPTS)}
    numbers = {int(name.removesuffix(".json")) for name in names if _ATTEMPT.fullmatch(name)}
    last = 0
    for number in sorted(n for n in numbers if attempt_file(directory, n).name in names):
        if number - last > MAX_MISSING + 1:
            break
        last = number
    return [attempt_file(directory, number) for number in range(1, last + 1)]


def attempt_file(directory: Path, number: int) -> Path:
    """Record of one attempt of a run, the first is 1."""
    return directory / ATTEMPTS / f"{number:04d}.json"


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


def readable_nodes(path: Path) -> list[Any]:
    """Nodes of a damaged record of an attempt that are whole.

    Raises:
        FileUnreadableError: The system does not let it be read.
    """
    try:
        with reading(path):
            record = read_json(path)
    except (ArtifactError, FileNotFoundError):
        return []
    nodes = record.get("nodes") if isinstance(record, dict) else None
    return [node for node in nodes if not _faults(node)] if isinstance(nodes, list) else []


def check_settings(directory: Path) -> None:
    """Whether config.json, where there is one, holds settings.

    Raises:
        ArtifactError: It is torn.
        FileUnreadableError: The system does not let it be read.
    """
    path = directory / CONFIG
    try:
        with reading(path, hint=_RENEWED_CONFIG):
            settings = read_json(path)
    except FileNotFoundError:
        return
    if not isinstance(settings, dict):
        raise ArtifactError(f"{path} holds no settings", hint=_RENEWED_CONFIG)


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
    if not os.path.exists(directory / CONFIG):
        missing = ArtifactError(f"{directory / CONFIG} is missing", hint=_RENEWED_CONFIG)
        found.append((directory / CONFIG, missing))
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
        if faults := _faults(node):
            raise ArtifactError(f"{path} holds a node without valid {', '.join(faults)}", hint=hint)


def _faults(node: Any) -> list[str]:
    """Fields that a node of a record lacks, or has with a value of another type."""
    fields = node if isinstance(node, Mapping) else {}
    return sorted(name for name, kind in NODE_FIELDS.items() if not _is(fields.get(name), kind))


def _is(value: Any, kind: type | tuple[type, ...]) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
