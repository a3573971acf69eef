"""Damaged and missing records of attempts, made again from what they and run.json still say.

A damaged record keeps the nodes that are whole in it. A node is in its attempt before it is in
run.json, so a node of run.json that no attempt holds is of a damaged or missing one. What else
that attempt used (an older generation that a later attempt replaced) nobody knows any more: it is
garbage then, unless another attempt or run uses it.
"""

from pathlib import Path
from typing import Any

from grpo_core.errors import ArtifactError
from grpo_core.store.files import link_or_copy, write_json
from grpo_core.store.run_records import (
    attempt_file,
    attempt_files,
    check_run,
    read_attempt,
    readable_nodes,
)

DAMAGED = ".damaged"
"""Ending of the name that a damaged record is kept under."""


def mend_attempts(directory: Path) -> list[str]:
    """Make damaged and missing records of a run's attempts again; the caller holds the run's lock.

    Killed at any point it can be called again: the damaged file keeps its place until the new one
    is complete.

    Args:
        directory: The run's.

    Returns:
        A line on each record that was made again.

    Raises:
        ArtifactError: Run.json is damaged too.
        FileUnreadableError: The system does not let a record be read.
    """
    torn = torn_attempts(directory)
    if not torn:
        return []
    pins = _nodes(directory, torn[-1])
    whole = (path for path in _attempts(directory) if path not in torn)
    kept = {path: readable_nodes(path) for path in torn}
    known = [node for path in whole for node in read_attempt(path)["nodes"]]
    known += [node for nodes in kept.values() for node in nodes]
    kept[torn[-1]] += [node for node in pins if node not in known]
    return [_mend(path, nodes) for path, nodes in kept.items()]


def torn_attempts(directory: Path) -> list[Path]:
    """Records of a run's attempts that are damaged or missing, in order.

    Raises:
        FileUnreadableError: The system does not let one be read.
    """
    torn = []
    for path in _attempts(directory):
        try:
            read_attempt(path)
        except ArtifactError:
            torn.append(path)
    return torn


def _attempts(directory: Path) -> list[Path]:
    """Records of all attempts, also of those after the last file that run.json tells of."""
    paths = attempt_files(directory)
    try:
        last = int(check_run(directory)["attempt"])
    except ArtifactError:  # then the files alone tell
        last = 0
    return paths + [attempt_file(directory, number) for number in range(len(paths) + 1, last + 1)]


def _nodes(directory: Path, attempt: Path) -> list[Any]:
    """What run.json says that the run uses."""
    try:
        return list(check_run(directory)["nodes"].values())
    except ArtifactError as error:
        raise ArtifactError(
            f"{attempt} and run.json of the same run are both damaged: {error.message}",
            hint="put one of them back from a copy; without one remove the run's directory and run "
            "it again before grpo lake gc --remove: what is complete is found by its key",
        ) from error


def _mend(path: Path, nodes: list[Any]) -> str:
    is_there = path.is_file()
    was = "damaged" if is_there else "missing"
    copy = path.with_name(path.name + DAMAGED)
    if is_there:
        copy.unlink(missing_ok=True)
        link_or_copy(str(path), str(copy))
    write_json(
        path,
        {
            "attempt": int(path.stem),
            "started_at": None,
            "finished_at": None,
            "state": "Crashed",
            "error": f"the record of this attempt was {was} and made again from run.json",
            "request": {"stages": [], "force": [], "fork": None, "flow_run": "", "pid": None},
            "nodes": nodes,
        },
    )
    return (
        f"{path} was {was} and is made again from run.json with {len(nodes)} artefacts; "
        "what else that attempt used is not known any more"
        + (f" ({copy.name} keeps the damaged file)" if is_there else "")
    )
