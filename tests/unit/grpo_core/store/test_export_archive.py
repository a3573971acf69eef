"""A file that is no export is refused by name and field, whatever is in it."""

import io
import tarfile
from pathlib import Path

import pytest

from grpo_core.errors import ArtifactError
from grpo_core.store import Lake
from grpo_core.store.exchange import import_run


def archive_of(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, data in members.items():
            facts = tarfile.TarInfo(name)
            facts.size = len(data)
            archive.addfile(facts, io.BytesIO(data))
    return path


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"garbage", "is no JSON: Expecting value"),
        (b"\xff", "is no JSON: "),
        (b"[" * 100_000, "is no JSON: "),
        (b"[]", r"is \[\], expected an object"),
        (b"{}", "version: None, expected 1"),
        (b'{"version": {"a": 1}}', "version: {'a': 1}, expected 1"),
        (b'{"version": 1}', "run: None is not a run name"),
        (b'{"version": 1, "run": 7}', "run: 7 is not a run name"),
        (b'{"version": 1, "run": "' + b"/" * 9999 + b'"}', r"run: '/{59}… is not a run name"),
        (b'{"version": 1, "run": "q"}', "files: None, expected an object"),
        (b'{"version": 1, "run": "q", "files": ["a"]}', r"files: \['a'\], expected an object"),
    ],
)
def test_a_damaged_record_is_named_with_its_field(tmp_path: Path, text: bytes, what: str) -> None:
    source = archive_of(tmp_path / "x.tar", {"export.json": text})
    with pytest.raises(ArtifactError, match=rf"x\.tar: export\.json: {what}") as caught:
        import_run(Lake(tmp_path / "lake"), source)
    assert "grpo lake export" in caught.value.hint


@pytest.mark.parametrize(
    "members",
    [
        {"export.json": b'{"version": 1, "run": "q", "files": {}}'},
        {"export.json": b'{"version": 1, "run": "q", "files": {"a": 1}}'},
        {"export.json": b'{"version": 1, "run": "q", "files": {}}', "a": b""},
        {"a": b"", "a/b": b""},
        {"a/b": b"", "a": b""},
    ],
)
def test_an_archive_that_is_no_lake_is_refused(tmp_path: Path, members: dict[str, bytes]) -> None:
    source = archive_of(tmp_path / "x.tar", members)
    with pytest.raises(ArtifactError):
        import_run(Lake(tmp_path / "lake"), source)
