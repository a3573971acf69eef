"""manifest.json of an artefact: what it must hold, and that it is as it was published.

`proof` is the digest of all other fields, so that a change in any of them is found. Manifests of
earlier releases have none: what can be made again out of their other fields is compared.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grpo_core.errors import ArtifactError, ConfigError
from grpo_core.store.canonical import sha256_json, sha256_text
from grpo_core.store.files import read_json, write_json
from grpo_core.store.reading import reading

MANIFEST = "manifest.json"
CONTENT_CHARACTERS = 12
_HINT = "run the stage again: an incomplete artefact is recomputed"
_PROOF = "proof"
_FIELDS: dict[str, type] = {
    "kind": str,
    "stage": str,
    "key": str,
    "content": str,
    "aspects": dict,
    "payload": dict,
    "tables": dict,
    "figures": dict,
    "libraries": dict,
    "files": dict,
}
_TABLE_FIELDS: dict[str, type] = {"rows": int, "files": list, "digest": str}
_FILE_FIELDS: dict[str, type] = {"bytes": int, "sha256": str}


def write_manifest(directory: Path, manifest: Mapping[str, Any]) -> None:
    """Write the manifest of a directory, with its proof."""
    plain = json.loads(json.dumps(manifest, default=str))
    write_json(directory / MANIFEST, {**plain, _PROOF: _proof(plain)})


def read_manifest(directory: Path) -> dict[str, Any]:
    """The manifest of a generation.

    Raises:
        ArtifactError: There is none, or it is damaged; says how.
        FileUnreadableError: The system does not let it be read.
    """
    path = directory / MANIFEST
    try:
        with reading(path, hint=_HINT):
            manifest = read_json(path)
    except FileNotFoundError as error:
        raise ArtifactError(f"{directory} has no {MANIFEST}", hint=_HINT) from error
    problem = _problem(manifest, directory.name)
    if problem:
        raise ArtifactError(f"{path} {problem}", hint=_HINT)
    found: dict[str, Any] = manifest
    return found


def content_digest(kind: str, digests: Mapping[str, str]) -> str:
    """Content of an artefact: its kind, and name → digest of each table and directory."""
    return sha256_json({"kind": kind, "digests": dict(digests)})


def _problem(manifest: Any, name: str) -> str:
    """What is wrong with a manifest; empty when nothing is."""
    if lost := _without(manifest, _FIELDS):
        return f"has no {lost}"
    for what, fields in (("tables", _TABLE_FIELDS), ("files", _FILE_FIELDS)):
        for item, facts in manifest[what].items():
            if lost := _without(facts, fields):
                return f"has no {lost} of {what}: {item}"
    if _PROOF in manifest:
        if manifest[_PROOF] != _proof(manifest):
            return "was changed since it was published"
    elif problem := _problem_of_earlier(manifest):
        return problem
    if manifest["content"][:CONTENT_CHARACTERS] != name:
        return f"is of content {manifest['content'][:CONTENT_CHARACTERS]}, not of {name}"
    listed = {file for table in manifest["tables"].values() for file in table["files"]}
    if unlisted := sorted(listed - manifest["files"].keys()):
        return f"does not list {unlisted[0]} among its files"
    return ""


def _problem_of_earlier(manifest: Mapping[str, Any]) -> str:
    """Whether the digests of a manifest without proof are those of what it holds."""
    try:
        if sha256_json(manifest["payload"]) != manifest["key"]:
            return "has a key that is not the digest of its payload"
    except ConfigError as error:
        return f"has a payload without digest: {error.message}"
    if empty := sorted(name for name, table in manifest["tables"].items() if not table["files"]):
        return f"lists no file of table {empty[0]}"
    places = {file.split("/")[0] for file in manifest["files"] if "/" in file}
    aspects = manifest["aspects"]
    digests = {name: table["digest"] for name, table in manifest["tables"].items()}
    digests |= {name: aspects[name] for name in places - {"tables"} if name in aspects}
    digests = {name: digest for name, digest in digests.items() if digest}
    if content_digest(manifest["kind"], digests) != manifest["content"]:
        return "has a content that is not the digest of its tables and directories"
    return ""


def _without(value: Any, fields: Mapping[str, type]) -> str:
    """The first of the fields that an object has not, or has with another type."""
    if not isinstance(value, dict):
        return "fields"
    wrong = (n for n, kind in fields.items() if not isinstance(value.get(n), kind))
    return next(wrong, "")


def _proof(manifest: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in manifest.items() if name != _PROOF}
    return sha256_text(json.dumps(rest, sort_keys=True))
