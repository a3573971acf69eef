"""Directories that may not be listed are no empty ones: nothing is garbage because of them."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from audited_lake import KEY, fill_cache, publish, use

from grpo_core.errors import FileUnreadableError
from grpo_core.store import Lake
from grpo_core.store.maintenance import find_garbage, verify

Scan = Callable[..., Any]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Run `r` used two generations in two attempts; a cache, and training in progress."""
    lake = Lake(tmp_path / "lake")
    for rows in (1, 2):
        use(lake, "r", publish(lake, rows))
    fill_cache(lake)
    (lake.root / "partial/train" / KEY).mkdir(parents=True)
    return lake


def forbid_listing(directory: Path, patch: pytest.MonkeyPatch) -> None:
    """Listing fails as for somebody else's directory of mode 0700; these tests may run as root."""
    scan: Scan = os.scandir

    def refuse(path: Any = ".") -> Any:
        if os.fspath(path) == os.fspath(directory):
            raise PermissionError(13, "Permission denied", os.fspath(directory))
        return scan(path)

    patch.setattr(os, "scandir", refuse)


@pytest.mark.parametrize(
    "place",
    ["runs", "runs/r", "runs/r/attempts", "partial/train", "ref_logprobs", "ref_logprobs/*"],
)
def test_gc_finds_nothing_while_a_directory_may_not_be_listed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    assert find_garbage(lake) == []
    (directory,) = lake.root.glob(place)
    forbid_listing(directory, monkeypatch)
    with pytest.raises(FileUnreadableError, match=f"{directory} cannot be read now"):
        find_garbage(lake)


@pytest.mark.parametrize("place", ["artifacts", f"artifacts/audit/{KEY}", "runs"])
def test_a_directory_that_may_not_be_listed_is_not_verified_as_whole(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    forbid_listing(lake.root / place, monkeypatch)
    for act in (verify, Lake.catalog):
        with pytest.raises(FileUnreadableError, match="cannot be read now"):
            act(lake)


def test_work_in_progress_that_may_not_be_listed_is_not_begun_anew(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    partial = lake.partial("train", KEY)
    forbid_listing(partial.directory, monkeypatch)
    with pytest.raises(FileUnreadableError, match=KEY):
        partial.directories("state")
