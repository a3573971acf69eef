"""What an imported run may bring: records of known names, and no code unless it is asked for.

Later commands read the records: `grpo regrade` calls the reward functions that the configuration
names and runs the programs of rows that the verifier `code` grades, `grpo lake restore` loads the
model; none of them asks again.
"""

import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.parquet as pq

from grpo_core.errors import ArtifactError, FileUnreadableError
from grpo_core.rewards.verifier_names import CODE, MATH
from grpo_core.store.files import read_json
from grpo_core.store.manifests import CONTENT_CHARACTERS
from grpo_core.store.reading import reading
from grpo_core.store.run_records import (
    CONFIG,
    MAX_MISSING,
    RUN,
    attempt_files,
    check_run,
    check_settings,
    read_attempt,
)

T = TypeVar("T")
_RECORDS = (RUN, CONFIG, "progress.jsonl", "logs/*.log")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def record_files(directory: Path) -> list[Path]:
    """The records of a run, sorted; whatever else lies in its directory is none.

    Raises:
        FileUnreadableError: The system does not let the directory of attempts be listed.
    """
    found = [path for pattern in _RECORDS for path in directory.glob(pattern)]
    return sorted(
        path
        for path in [*found, *attempt_files(directory)]
        if path.is_file() and not path.is_symlink() and not path.parent.is_symlink()
    )


def drop_strangers(directory: Path) -> list[str]:
    """Remove what is no record of a run; returns the names, from the directory."""
    known = set(record_files(directory))
    strangers = [path for path in directory.rglob("*") if path.is_file() and path not in known]
    for path in strangers:
        path.unlink()
    for path in sorted(directory.iterdir()):
        if path.is_dir() and path.name not in ("attempts", "logs"):
            shutil.rmtree(path)
    return sorted(path.relative_to(directory).as_posix() for path in strangers)


def code_in(scratch: Path, run: str) -> list[str]:
    """What of an unpacked archive is code, or lets later commands run some.

    Raises:
        ArtifactError: The stored configuration is torn.
    """
    found = [
        path.relative_to(scratch).as_posix() for path in sorted(scratch.glob("artifacts/**/*.py"))
    ]
    for path in sorted(scratch.glob("artifacts/*/*/*/tables/prompts/*.parquet")):
        if _names_programs(path):
            found.append(f"{path.relative_to(scratch).as_posix()} (rows of verifier {CODE})")
    config = scratch / "runs" / run / CONFIG
    if config.is_file():
        with reading(config, hint="export the run again"):
            found += _settings_that_run_code(read_json(config))
    return found


def _names_programs(path: Path) -> bool:
    """Whether rows of a table of prompts are graded by running the program of a completion."""
    with reading(path), pq.ParquetFile(path) as file:
        column = file.read(["verifier"])
    return CODE in column.to_pydict().get("verifier", ())


def _settings_that_run_code(config: Any) -> Iterator[str]:
    """By the stored values as they are, whatever another release makes of them."""
    model, reward = _section(config, "model"), _section(config, "reward")
    if model.get("trust_remote_code", False) is not False:
        yield f"model.trust_remote_code = {model['trust_remote_code']}"
    if (function := reward.get("function", MATH)) != MATH:
        yield f"reward.function = {function}"
    if verifiers := reward.get("verifiers"):
        yield f"reward.verifiers = {verifiers}"
    if opinions := [o for o in _section(reward, "calls").get("second_opinions", ()) if o != MATH]:
        yield f"reward.calls.second_opinions = {opinions}"


def _section(config: Any, name: str) -> dict[str, Any]:
    section = config.get(name, {}) if isinstance(config, dict) else {}
    return section if isinstance(section, dict) else {}


def check_records(directory: Path, generations: Collection[tuple[str, str, str]]) -> None:
    """Refuse records that the lake could not read, or that name what did not come with them.

    Args:
        directory: Of the run, in the unpacked archive.
        generations: (stage, key, name) of what came.

    Raises:
        ArtifactError: A record is none, torn or missing, an artefact that the run uses is missing,
            or an attempt names a place that no artefact can have.
    """
    _of_archive(check_settings, directory, directory)
    paths = _of_archive(attempt_files, directory, directory)
    run = _of_archive(check_run, directory, directory)
    if not 0 <= run["attempt"] <= len(paths) + MAX_MISSING:
        raise _refusal(f"{_name(directory / RUN, directory)} names an attempt that did not come")
    _check_places(directory / RUN, directory, run["nodes"].values(), generations)
    for path in paths:
        attempt = _of_archive(read_attempt, path, directory)
        if attempt["attempt"] != int(path.stem):
            raise _refusal(f"{_name(path, directory)} says that it is {attempt['attempt']}")
        _check_places(path, directory, attempt["nodes"], None)


def _check_places(
    path: Path,
    directory: Path,
    nodes: Iterable[Mapping[str, Any]],
    generations: Collection[tuple[str, str, str]] | None,
) -> None:
    """Refuse nodes whose place is none, or is not among the generations where they are given."""
    for node in nodes:
        parts = node["stage"], node["key"], node["content"]
        place = (*parts[:2], parts[2][:CONTENT_CHARACTERS])
        is_named = all(_NAME.fullmatch(part) for part in parts)
        if not is_named or (generations is not None and place not in generations):
            named = f"{_name(path, directory)} names {'/'.join(place)}"
            raise _refusal(f"{named}, which is not in the archive")


def _of_archive(read: Callable[[Path], T], path: Path, directory: Path) -> T:
    """What a reader of records says of an unpacked one; its errors name it as the archive does."""
    try:
        return read(path)
    except (ArtifactError, FileUnreadableError) as error:
        scratch = f"{directory.parents[1]}/"
        raise _refusal(f"no record of a run: {error.message.replace(scratch, '')}") from error


def _name(path: Path, directory: Path) -> str:
    return path.relative_to(directory.parents[1]).as_posix()


def _refusal(message: str) -> ArtifactError:
    return ArtifactError(message, hint="make the archive with grpo lake export")
