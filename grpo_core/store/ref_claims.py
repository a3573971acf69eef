"""`fingerprint.json` of a cache directory: made once, proved by the directory's name."""

import logging
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from grpo_core.errors import ArtifactError, CacheStaleError, ConfigError
from grpo_core.store.files import read_json, write_json
from grpo_core.store.locks import hold
from grpo_core.store.reading import reading
from grpo_core.store.ref_rows import CACHE_VERSION, Fingerprint

logger = logging.getLogger(__name__)

FINGERPRINT = "fingerprint.json"
_WRITTEN_AGAIN = (
    "remove that file: a stage or grpo lake restore of a run of this reference writes it again, "
    "and the rows stay"
)


def claim(directory: Path, fingerprint: Fingerprint) -> None:
    """Write `fingerprint.json` where it is missing or torn, and compare it.

    Raises:
        CacheStaleError: It names another reference.
        FileUnreadableError: The system does not let it be read.
    """
    path, expected = directory / FINGERPRINT, asdict(fingerprint)
    if not _is_claimed(path, expected):
        with hold(directory / ".lock", "making of a reference cache"):
            if not _is_claimed(path, expected):
                if path.exists():
                    logger.warning("%s was torn and is written again", path)
                write_json(path, expected)
    _check(path, expected)


def read_fingerprint(directory: Path) -> Fingerprint | None:
    """Fingerprint of a cache directory; None when it is one of another release.

    Another release may name, sort and stamp its parts in another way, so nothing that is read there
    proves damage. Only a file that states another version is of another release.

    Raises:
        ArtifactError: `fingerprint.json` is damaged or missing.
        FileUnreadableError: The system does not let it be read.
    """
    path = directory / FINGERPRINT
    try:
        with reading(path, hint=_WRITTEN_AGAIN):
            values = read_json(path)
    except FileNotFoundError as error:
        raise ArtifactError(f"{path} is missing", hint=_WRITTEN_AGAIN) from error
    version = values.get("version") if isinstance(values, dict) else None
    if isinstance(version, int) and version != CACHE_VERSION:
        return None
    try:
        fingerprint = Fingerprint(**values)
        is_own = fingerprint.digest == directory.name
    except (TypeError, ConfigError):
        is_own = False
    if not is_own:
        raise ArtifactError(f"{path} does not give the directory its name", hint=_WRITTEN_AGAIN)
    return fingerprint


def _is_claimed(path: Path, expected: Mapping[str, object]) -> bool:
    """Whether `fingerprint.json` is there and holds the fields of a fingerprint, whatever they say.

    Raises:
        FileUnreadableError: The system does not let it be read.
    """
    try:
        with reading(path):
            got = read_json(path)
    except (ArtifactError, FileNotFoundError):
        return False
    return isinstance(got, dict) and got.keys() == expected.keys()


def _check(path: Path, expected: Mapping[str, object]) -> None:
    """Compare a claimed `fingerprint.json` with a fingerprint.

    Raises:
        CacheStaleError: They differ.
        FileUnreadableError: The system does not let it be read.
    """
    with reading(path, hint=_WRITTEN_AGAIN):
        got = read_json(path)
    if got != expected:
        changed = sorted(name for name in expected if got.get(name) != expected[name])
        raise CacheStaleError(
            f"{path} says that another reference made the cache: {', '.join(changed)} differ from "
            "what the directory is named by",
            hint=_WRITTEN_AGAIN,
        )
