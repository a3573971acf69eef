"""A run moves between lakes with all it needs, checked on arrival, whole or not at all."""

import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grpo_core.audits import audit_run
from grpo_core.errors import ArtifactError, ConfigError
from grpo_core.stages.restore import restore_rows
from grpo_core.store.exchange import export_run, import_run
from grpo_core.store.lake import Lake
from grpo_core.store.maintenance import verify
from grpo_core.store.ref_usage import open_cache

pytestmark = pytest.mark.slow

Results = dict[str, Any]
Run = Callable[..., Results]


@pytest.fixture(scope="module")
def archive(finished: tuple[Path, Results], tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("archive") / "mini.tar"
    done = export_run(Lake(finished[0]), "mini", target)
    assert done.num_artifacts == len(finished[1])
    assert done.num_cache_rows > 0
    return target


def test_an_imported_run_is_reused_whole_and_passes_its_audits(
    archive: Path, tmp_path: Path, run_mini: Run
) -> None:
    lake = Lake(tmp_path / "lake")
    import_run(lake, archive)
    assert verify(lake).damaged == []
    audits = audit_run(lake.catalog("mini"), "mini", {"kl_enabled": True}, deep=True)
    assert [audit.name for audit in audits if audit.is_blocking] == []
    again = run_mini(lake.root)
    assert {node.state for node in again.values()} == {"Reused"}


def test_imported_twice_under_another_name_nothing_is_stored_twice(
    archive: Path, tmp_path: Path
) -> None:
    lake = Lake(tmp_path / "lake")
    import_run(lake, archive)
    with pytest.raises(ConfigError, match="--as NAME"):
        import_run(lake, archive)
    again = import_run(lake, archive, name="copy")
    assert (again.num_artifacts, again.num_cache_rows) == (0, 0)
    assert lake.run_names() == ["copy", "mini"]


@pytest.mark.parametrize("damage", ["truncate", "flip", "extra"])
def test_a_damaged_archive_leaves_the_lake_as_it_was(
    archive: Path, tmp_path: Path, damage: str
) -> None:
    data = bytearray(archive.read_bytes())
    broken = tmp_path / "broken.tar"
    if damage == "truncate":
        broken.write_bytes(data[: len(data) // 2])
    elif damage == "flip":
        data[len(data) // 2] ^= 1
        broken.write_bytes(data)
    else:
        broken.write_bytes(data)
        (tmp_path / "extra").write_text("x")
        with tarfile.open(broken, "a") as tar:
            tar.add(tmp_path / "extra", "runs/other/extra")
    lake = Lake(tmp_path / "lake")
    with pytest.raises(ArtifactError, match=r"broken\.tar"):
        import_run(lake, broken)
    assert lake.run_names() == []
    assert list(lake.generations()) == []
    assert list((lake.root / ".staging").iterdir()) == []


def test_a_damaged_run_is_not_exported(lake_copy: Path, tmp_path: Path) -> None:
    next(lake_copy.glob("artifacts/prefilter/*/*/tables/verdicts/*.parquet")).unlink()
    with pytest.raises(ArtifactError, match="verdicts"):
        export_run(Lake(lake_copy), "mini", tmp_path / "mini.tar")
    assert not (tmp_path / "mini.tar").exists()


def test_a_receipt_whose_rows_are_gone_is_scored_again_and_nothing_else(
    lake_copy: Path, run_mini: Run
) -> None:
    lake = Lake(lake_copy)
    (cache,) = lake.ref_caches()
    shutil.rmtree(cache)
    lost = [entry.stage for entry in verify(lake).damaged]
    assert {"ref-logp", "train"} == set(lost)
    again = run_mini(lake_copy)
    assert [node.label for node in again.values() if node.state != "Reused"] == ["ref_logp"]
    assert {entry.stage for entry in verify(lake).damaged} == {"train"}


def test_rows_of_trained_rollouts_are_restored(lake_copy: Path, tmp_path: Path) -> None:
    lake = Lake(lake_copy)
    (cache,) = lake.ref_caches()
    rows = open_cache(cache).num_rows
    shutil.rmtree(cache)
    assert restore_rows(lake, "mini") == rows
    assert verify(lake).damaged == []
    assert restore_rows(lake, "mini") == 0
    audits = audit_run(lake.catalog("mini"), "mini", {"kl_enabled": True}, deep=True)
    assert [audit.name for audit in audits if audit.is_blocking] == []
    assert export_run(lake, "mini", tmp_path / "mini.tar").num_cache_rows == rows
