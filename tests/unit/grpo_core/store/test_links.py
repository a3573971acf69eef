"""Symbolic links out of the lake: nothing behind one is read, written or removed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from audited_lake import KEY, make_audited_lake, publish

from grpo_core.errors import ArtifactError
from grpo_core.store import Lake
from grpo_core.store.exchange import export_run
from grpo_core.store.maintenance import find_garbage, no_run_active, remove_garbage, verify


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return make_audited_lake(tmp_path / "lake")


def move_out(path: Path, outside: Path) -> Path:
    """Put a directory out of the lake, with a stranger's files in it, and a link in its place."""
    path.rename(outside)
    path.symlink_to(outside)
    for name in ("precious/file.txt", "part-precious/file.txt", ".precious.txt.0123abcd"):
        (outside / name).parent.mkdir(exist_ok=True)
        (outside / name).write_text("precious")
    return outside


def all_files(root: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(root.rglob("*")):
        if path.is_file():
            yield str(path), path.read_bytes()


TREES = (
    *("artifacts", "artifacts/audit", "runs", "runs/r"),
    *("ref_logprobs", "ref_logprobs/*", ".trash", ".staging"),
)


@pytest.mark.parametrize("place", TREES)
def test_gc_refuses_a_lake_with_a_linked_tree_and_verify_names_it(
    lake: Lake, tmp_path: Path, place: str
) -> None:
    for name in (".trash", ".staging"):
        (lake.root / name / "left").mkdir(parents=True, exist_ok=True)
    link = min(lake.root.glob(place))
    outside = move_out(link, tmp_path / "outside")
    before = list(all_files(outside))
    with pytest.raises(ArtifactError) as refused, no_run_active(lake):
        remove_garbage(lake, find_garbage(lake))
    assert f"{link} is a symbolic link" in refused.value.message
    assert list(all_files(outside)) == before
    told = [entry.reason for entry in verify(lake).damaged]
    assert any(f"{link} is a symbolic link" in reason for reason in told), told


@pytest.mark.parametrize("place", [f"artifacts/audit/{KEY}", "artifacts/audit/*/*"])
def test_gc_removes_nothing_behind_a_linked_artefact(
    lake: Lake, tmp_path: Path, place: str
) -> None:
    outside = move_out(min(lake.root.glob(place)), tmp_path / "outside")
    before = list(all_files(outside))
    with no_run_active(lake):
        remove_garbage(lake, find_garbage(lake))
    assert list(all_files(outside)) == before
    assert any("is a symbolic link" in entry.reason for entry in verify(lake).damaged) or not any(
        path.is_symlink() for path in lake.generations()
    )


def test_garbage_that_lies_behind_a_link_by_now_is_refused(lake: Lake, tmp_path: Path) -> None:
    garbage = find_garbage(lake)
    outside = move_out(lake.root / "artifacts/audit", tmp_path / "outside")
    before = list(all_files(outside))
    with pytest.raises(ArtifactError, match="audit is a symbolic link"):
        remove_garbage(lake, garbage)
    assert list(all_files(outside)) == before


def test_a_linked_run_is_refused_by_name_and_its_artefacts_stay(lake: Lake, tmp_path: Path) -> None:
    move_out(lake.root / "runs/r", tmp_path / "outside")
    for act in (
        lambda: lake.run_directory("r"),
        lambda: lake.catalog("r"),
        lambda: find_garbage(lake),
        lambda: export_run(lake, "r", tmp_path / "r.tar"),
    ):
        with pytest.raises(ArtifactError, match="runs/r is a symbolic link"):
            act()
    assert lake.run_names() == []
    assert len(list(lake.generations())) == 2


def test_a_linked_key_is_made_again_inside_and_left_alone_outside(
    lake: Lake, tmp_path: Path
) -> None:
    outside = move_out(lake.root / f"artifacts/audit/{KEY}", tmp_path / "outside")
    before = list(all_files(outside))
    assert lake.catalog().entries == ()
    with pytest.raises(ArtifactError, match="symbolic link"):
        lake.store.current("audit", KEY)
    artifact = publish(lake, 2)
    assert not artifact.path.parent.is_symlink()
    current = lake.store.current("audit", KEY)
    assert current is not None
    assert current.content == artifact.content
    assert list(all_files(outside)) == before


@pytest.mark.parametrize("place", ["artifacts", "artifacts/audit", "runs", "ref_logprobs/*"])
def test_nothing_is_written_to_a_lake_with_a_linked_tree(
    lake: Lake, tmp_path: Path, place: str
) -> None:
    link = min(lake.root.glob(place))
    move_out(link, tmp_path / "outside")
    with pytest.raises(ArtifactError, match="is a symbolic link"), lake.in_use("a run"):
        pass
    assert lake.ref_caches() == [] or place != "ref_logprobs/*"


def test_the_root_of_a_lake_may_be_a_link(lake: Lake, tmp_path: Path) -> None:
    lake.root.rename(tmp_path / "elsewhere")
    lake.root.symlink_to(tmp_path / "elsewhere")
    assert verify(lake).damaged == []
    with no_run_active(lake):
        remove_garbage(lake, find_garbage(lake))
    current = lake.store.current("audit", KEY)
    assert current is not None
    assert current.table("audit_results").column("num_rows").to_pylist() == [2]
    assert len(list(lake.generations())) == 1


@pytest.mark.parametrize("place", ["artifacts", "artifacts/audit", "runs", "ref_logprobs"])
def test_queries_refuse_a_lake_with_a_linked_tree_and_verify_advises_to_put_it_back(
    lake: Lake, tmp_path: Path, place: str
) -> None:
    (lake.root / place).rename(tmp_path / "outside")
    (lake.root / place).symlink_to(tmp_path / "outside")
    with pytest.raises(ArtifactError, match=f"{place} is a symbolic link") as refused:
        lake.catalog()
    assert "put the directory itself there" in refused.value.hint
    entry = min(verify(lake).damaged, key=lambda entry: entry.path != place)
    assert entry.hint == refused.value.hint
    assert not [e for e in verify(lake).damaged if place in ("artifacts", "artifacts/audit")][1:]
