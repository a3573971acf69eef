"""Which directory is a lake, and which directories in it are generations, by what they are called.

Projects have `artifacts/` and `runs/` of their own: such a name alone says nothing.
"""

import re
from pathlib import Path

from grpo_core.store.manifests import CONTENT_CHARACTERS
from grpo_core.store.reading import entries_in
from grpo_core.store.run_records import attempt_files

TREES = (
    *("artifacts", "partial", "ref_logprobs", "runs", "locks"),
    *(".staging", ".trash", ".digests"),
)
"""Directories of a lake's root."""
DATABASE, LOCK = "lake.duckdb", "lake.lock"
_KEY = re.compile(r"[0-9a-f]{64}")
_CONTENT = re.compile(rf"[0-9a-f]{{{CONTENT_CHARACTERS}}}")
_DIGESTS = re.compile(r"[0-9a-f]{24}\.json")
_OF_THE_VOLUME = "lost+found"


def is_key(path: Path) -> bool:
    """Whether a directory is called as that of a key."""
    return _KEY.fullmatch(path.name) is not None


def is_generation(path: Path) -> bool:
    """Whether a directory is called as that of a generation: `<key>/<content12>`."""
    return is_key(path.parent) and _CONTENT.fullmatch(path.name) is not None


def is_lake(root: Path) -> bool:
    """Whether a directory holds what only lakes do, or nothing yet.

    Hidden names, what a fresh volume brings, empty directories of a lake and the digests that
    `grpo plan` notes count as nothing.

    Raises:
        FileUnreadableError: The system does not let it be listed.
    """
    names = entries_in(root)
    return root.is_dir() and (all(map(_is_nothing, names)) or _has_mark(root))


def _is_nothing(path: Path) -> bool:
    if path.name in TREES:
        noted = path.name == ".digests"  # a plan notes the digests of weights, the first of all
        return path.is_dir() and all(
            noted and _DIGESTS.fullmatch(entry.name) for entry in entries_in(path)
        )
    return path.name.startswith(".") or path.name == _OF_THE_VOLUME


def _has_mark(root: Path) -> bool:
    """Whether there is one of the things that no other program makes.

    The files of lakes that commands wrote to come first; lakes that were copied in part and those
    of earlier releases are known by a key, a reference cache or the record of an attempt.
    """
    return (
        (root / DATABASE).is_file()
        or (root / "locks" / LOCK).is_file()
        or bool(entries_in(root / "ref_logprobs"))
        or any(
            is_key(key)
            for tree in ("artifacts", "partial")
            for stage in entries_in(root / tree)
            for key in entries_in(stage)
        )
        or any(attempt_files(run) for run in entries_in(root / "runs"))
    )
