"""What an imported run may bring: records of known names, and no code unless it is asked for.

Later commands read the records: `grpo regrade` calls the reward functions that the configuration
names and runs the programs of rows that the verifier `code` grades, `grpo lake restore` loads the
model; none of them asks again.
"""

import re
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from grpo_core.errors import ArtifactError
from grpo_core.rewards.verifier_names import CODE, MATH
from grpo_core.store.files import read_json
from grpo_core.store.manifests import CONTENT_CHARACTERS
from grpo_core.store.reading import reading
from grpo_core.store.run_records import CONFIG, check_settings

_RECORDS = ("run.json", CONFIG, "progress.jsonl", "attempts/*.json", "logs/*.log")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def record_files(directory: Path) -> list[Path]:
    """The records of a run, sorted; whatever else lies in its directory is none."""
    return sorted(
        path
        for pattern in _RECORDS
        for path in directory.glob(pattern)
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
    """Refuse records that name what did not come with them.

    Args:
        directory: Of the run, in the unpacked archive.
        generations: (stage, key, name) of what came.

    Raises:
        ArtifactError: A record is none or torn, an artefact that the run uses is missing, or an
            attempt names a place that no artefact can have.
    """
    check_settings(directory)
    for path in [directory / "run.json", *sorted(directory.glob("attempts/*.json"))]:
        is_pinned = path.name == "run.json"
        try:
            nodes = read_json(path)["nodes"]
            places = [
                (node["stage"], node["key"], node["content"])
                for node in (nodes.values() if is_pinned else nodes)
            ]
            is_named = all(_NAME.fullmatch(part) for place in places for part in place)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ArtifactError(f"{path.name} is missing or no record of a run: {error}") from error
        for stage, key, content in places:
            name = content[:CONTENT_CHARACTERS]
            if not is_named or (is_pinned and (stage, key, name) not in generations):
                raise ArtifactError(
                    f"{path.name} names {stage}/{key}/{name}, which is not in the archive",
                    hint="make the archive with grpo lake export",
                )
