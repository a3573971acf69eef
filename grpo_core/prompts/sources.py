"""Which files a configured source means, in which format, and which split their rows belong to.

A source is a file (JSON lines or Parquet) or a directory: a dataset or a dict of datasets written
by `datasets.save_to_disk`, or Parquet files as a dataset repository holds them.
"""

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from grpo_core.config.data import PromptsConfig
from grpo_core.errors import DataContractError
from grpo_core.types import Split

_JSONL_SUFFIXES = (".jsonl", ".ndjson", ".json")
_PARQUET_SUFFIXES = (".parquet", ".pq")
_SUPPORTED = (
    "JSON lines (.jsonl), Parquet (.parquet), a directory saved by datasets.save_to_disk, "
    "or a directory of Parquet files"
)
_SPLIT_WORDS = {
    Split.TRAIN: ("train", "training"),
    Split.VALIDATION: ("validation", "valid", "val", "dev"),
    Split.TEST: ("test", "testing", "eval", "evaluation"),
}
_FIELDS = {
    Split.TRAIN: "source",
    Split.VALIDATION: "validation_source",
    Split.TEST: "test_source",
}


class Format(StrEnum):
    """How the files of a source are read."""

    JSONL = "jsonl"
    PARQUET = "parquet"
    ARROW = "arrow"


@dataclass(frozen=True, slots=True)
class Member:
    """The files of one source that hold one split, read in order as one numbered list of rows.

    Args:
        label: Value of the `source` column, free of paths: the config field, with the split's name
            when the source holds several (`source/test`).
        split: Split of its rows, unless rows are split off it by hash.
        format: How to read `files`.
        files: Data files, in reading order.
        metadata: Further files that decide what is read; they belong to the digest only.
    """

    label: str
    split: Split
    format: Format
    files: tuple[Path, ...]
    metadata: tuple[Path, ...] = ()


def resolve_members(config: PromptsConfig, base_directory: Path) -> list[Member]:
    """Return the members that ingest reads: test, validation, train.

    `source` gives the train split, and validation and test too when it holds such splits and no
    file of their own is configured.

    Raises:
        DataContractError: A source does not exist, has an unknown format or lacks its split.
    """
    members = []
    own = _find_members(config.source, Split.TRAIN, base_directory)
    for split in (Split.TEST, Split.VALIDATION):
        configured = getattr(config, _FIELDS[split])
        if configured:
            members.append(_pick(configured, split, base_directory))
        elif split in own:
            members.append(own[split])
    members.append(_pick(config.source, Split.TRAIN, base_directory))
    return members


def source_paths(config: PromptsConfig, base_directory: Path) -> dict[str, list[Path]]:
    """Return, by split, the sorted files whose content and names the digest must cover.

    Names below a directory count too, its folders included: they say which split a row belongs to
    and in which order files are read. Splits made by hash have no entry. Lists directories and
    reads metadata of at most a few kilobytes; no data file is opened.

    Raises:
        DataContractError: As `resolve_members`.
    """
    members = sorted(resolve_members(config, base_directory), key=lambda member: member.split)
    return {member.split.value: sorted({*member.files, *member.metadata}) for member in members}


def _pick(configured: str, split: Split, base_directory: Path) -> Member:
    """The member of `configured` that serves as `split`: its only one, or the one of that name."""
    found = _find_members(configured, split, base_directory)
    if split in found:
        return found[split]
    if len(found) == 1:
        (member,) = found.values()
        return Member(_FIELDS[split], split, member.format, member.files, member.metadata)
    raise DataContractError(
        f"prompts.{_FIELDS[split]} = {configured!r}: expected a split named {split.value!r}, "
        f"got {sorted(name.value for name in found)}",
        f"point prompts.{_FIELDS[split]} at the directory of one split",
    )


def _find_members(configured: str, role: Split, base_directory: Path) -> dict[Split, Member]:
    field = _FIELDS[role]
    path = base_directory / configured
    if not configured or not path.exists():
        raise DataContractError(
            f"prompts.{field} = {configured!r}: expected an existing file or directory, "
            f"got nothing at {path}",
            f"relative paths start at {base_directory}; supported: {_SUPPORTED}",
        )
    if path.is_dir():
        return _find_directory_members(path, role)
    return {role: Member(field, role, _file_format(path, field), (path,))}


def _file_format(path: Path, field: str) -> Format:
    suffix = path.suffix.lower()
    if suffix in _PARQUET_SUFFIXES:
        return Format.PARQUET
    if suffix in _JSONL_SUFFIXES:
        return Format.JSONL
    raise DataContractError(
        f"prompts.{field}: unknown format of {path}: expected {_SUPPORTED}, got {path.suffix!r}",
        "rename the file when its content is JSON lines, or convert it",
    )


def _find_directory_members(path: Path, role: Split) -> dict[Split, Member]:
    field = _FIELDS[role]
    if (path / "state.json").exists():
        return {role: _saved_dataset(path, field, role)}
    if (path / "dataset_dict.json").exists():
        return _saved_dataset_dict(path, field)
    files = _visible_files(path, _PARQUET_SUFFIXES)
    if not files:
        raise DataContractError(
            f"prompts.{field}: directory {path} holds no dataset: expected {_SUPPORTED}, "
            f"got {sorted(item.name for item in path.iterdir())[:10]}",
            "point it at the folder with state.json, dataset_dict.json or *.parquet",
        )
    return _parquet_members(path, files, field, role)


def _saved_dataset(path: Path, label: str, split: Split) -> Member:
    """A dataset written by `datasets.save_to_disk`: state.json lists its Arrow files in order."""
    state_path = path / "state.json"
    state = _read_metadata(state_path)
    names = [str(item["filename"]) for item in state.get("_data_files") or []]
    if not names or state.get("_indices_data_files"):
        raise DataContractError(
            f"{state_path}: expected a list of Arrow files without an index mapping, "
            f"got files {names}, indices {state.get('_indices_data_files')}",
            "save it again with a present version of datasets (flatten_indices first)",
        )
    files = tuple(path / name for name in names)
    for file in files:
        if not file.is_file():
            raise DataContractError(f"{state_path} names {file.name}, which does not exist")
    extra = tuple(item for item in (state_path, path / "dataset_info.json") if item.exists())
    return Member(label, split, Format.ARROW, files, extra)


def _saved_dataset_dict(path: Path, field: str) -> dict[Split, Member]:
    listing = path / "dataset_dict.json"
    members: dict[Split, Member] = {}
    for name in _read_metadata(listing).get("splits", []):
        split = _split_named(str(name))
        if split is None or not (path / name).is_dir():
            continue
        member = _saved_dataset(path / name, f"{field}/{split.value}", split)
        extra = (listing, *member.metadata)
        members[split] = Member(member.label, split, member.format, member.files, extra)
    if not members:
        raise DataContractError(
            f"{listing}: expected a split named train, validation or test, "
            f"got {_read_metadata(listing).get('splits')}",
            f"point prompts.{field} at the directory of one split",
        )
    return members


def _parquet_members(path: Path, files: list[Path], field: str, role: Split) -> dict[Split, Member]:
    by_split: dict[Split | None, list[Path]] = {}
    folders: set[Path] = set()
    for file in files:
        relative = file.relative_to(path)
        by_split.setdefault(_split_of_file(relative), []).append(file)
        folders.update(p for p in relative.parents if p.name and _split_named(p.name) is None)
    named = {split for split in by_split if split is not None}
    leaves = {f for f in folders if not any(f in other.parents for other in folders)}
    if len(leaves) > 1 or (named and None in by_split):
        raise DataContractError(
            f"prompts.{field}: {path} holds several data sets: expected the Parquet files of one, "
            f"got {sorted(str(f) for f in leaves) or sorted(f.name for f in files)[:10]}",
            f"point prompts.{field} at one of these",
        )
    if not named:
        return {role: Member(field, role, Format.PARQUET, tuple(files))}
    return {
        split: Member(f"{field}/{split.value}", split, Format.PARQUET, tuple(by_split[split]))
        for split in named
    }


def _split_of_file(relative: Path) -> Split | None:
    """The split that a file's own name, else one of its folders, begins with."""
    for name in (relative.stem, *(parent.name for parent in relative.parents)):
        split = _split_named(re.split(r"[-_.]", name)[0])
        if split is not None:
            return split
    return None


def _split_named(name: str) -> Split | None:
    return next((split for split, words in _SPLIT_WORDS.items() if name.lower() in words), None)


def _visible_files(path: Path, suffixes: tuple[str, ...]) -> list[Path]:
    return sorted(
        file
        for file in path.rglob("*")
        if file.suffix.lower() in suffixes
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
    )


def _read_metadata(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise DataContractError(f"{path}: expected JSON, got {error}") from error
    if not isinstance(content, dict):
        raise DataContractError(f"{path}: expected a JSON object, got {type(content).__name__}")
    return content
