"""Caches of other releases: told apart from damage, shown, removed only when no run needs them."""

from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_run import node
from typer.testing import CliRunner

from flows.cli import app
from grpo_core.planning.versions import KIND_VERSIONS
from grpo_core.store import Fingerprint, Lake, RefRow
from grpo_core.store.artifacts import Artifact, Draft
from grpo_core.store.exchange import export_run
from grpo_core.store.files import read_json, write_json
from grpo_core.store.foreign_caches import find_foreign_caches
from grpo_core.store.maintenance import compact, find_garbage, remove_garbage, verify
from grpo_core.store.ref_rows import CACHE_VERSION, cache_version_of, rests_on_cache
from grpo_core.store.schemas import REF_RECEIPTS
from grpo_core.types import Kind

KEY = "a" * 64
ROW = RefRow((1,), (2, 3), 1.0)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def fingerprint(version: int = 1) -> Fingerprint:
    return Fingerprint("w", "t", "float32", "sdpa", version=version)


def make_cache(lake: Lake, version: int = 1) -> Path:
    """As version 1 wrote it: parts named by hex digits, no fingerprint in their footers."""
    print_1 = fingerprint(version)
    directory = lake.root / "ref_logprobs" / print_1.digest
    directory.mkdir(parents=True)
    write_json(directory / "fingerprint.json", asdict(print_1))
    table = pa.table({"row_key": [ROW.key], "logprobs": [[-0.5, -1.0]]})
    pq.write_table(table, directory / "part-0123456789abcdef.parquet")
    (directory / "part-0123456789abcdef.index.npy").write_bytes(b"another form")
    return directory


def publish_receipt(lake: Lake, version: int) -> Artifact:
    """A receipt of one row, made by version `version` of stage ref-logp and used by run `r`."""
    row = {
        "row_key": ROW.key,
        "prompt_id": "p",
        "sample_index": 0,
        "fingerprint": fingerprint(version).digest,
        "num_completion_tokens": 2,
        "ref_logprob_sum": -1.5,
    }
    payload = {
        "kind": "ref_logp",
        "version": version,
        "fields": {"model.dtype": "float32", "model.attention": "sdpa"},
        "inputs": {"reference": "w", "tokenizer": "t"},
    }
    receipts = pa.Table.from_pylist([row], schema=REF_RECEIPTS.schema)
    draft = Draft("ref_logp", "ref-logp", KEY, payload, tables={"ref_receipts": receipts})
    artifact = lake.store.publish(draft)
    write_json(lake.root / "runs/r/config.json", {})
    write_json(lake.root / "runs/r/run.json", {"attempt": 1, "nodes": {"ref_logp": node(artifact)}})
    return artifact


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_every_cache_version_says_which_kinds_rest_on_it() -> None:
    assert [kind for kind in Kind if rests_on_cache(kind)] == [Kind.REF_LOGP, Kind.TRAIN]
    for kind in (Kind.REF_LOGP, Kind.TRAIN):
        now = {"kind": kind.value, "version": KIND_VERSIONS[kind]}
        assert cache_version_of(now) == CACHE_VERSION
        assert cache_version_of({**now, "version": 1}) == 1


def test_a_cache_of_another_version_is_left_alone(lake: Lake, tmp_path: Path) -> None:
    directory = make_cache(lake)
    before = files_of(directory)
    publish_receipt(lake, 1)
    assert compact(lake) == []
    assert export_run(lake, "r", tmp_path / "r.tar").num_cache_rows == 0
    remove_garbage(lake, find_garbage(lake, with_foreign=True))
    assert files_of(directory) == before
    assert lake.catalog().ref_parts == ()


@pytest.mark.parametrize("is_there", [True, False])
def test_verify_tells_an_older_cache_version_from_damage(lake: Lake, is_there: bool) -> None:
    if is_there:
        make_cache(lake)
    publish_receipt(lake, 1)
    found = verify(lake)
    assert found.damaged == []
    (line,) = found.older
    assert "run 'r'" in line
    assert f"ref_logprobs/{fingerprint().digest}, cache version 1" in line
    done = CliRunner().invoke(app, ["lake", "verify", "--lake", str(lake.root)])
    assert done.exit_code == 0
    assert line in done.output


@pytest.mark.parametrize("version", [1, CACHE_VERSION])
def test_the_catalog_says_which_artefacts_rest_on_an_older_cache(lake: Lake, version: int) -> None:
    publish_receipt(lake, version)
    (entry,) = lake.catalog().entries
    assert entry.ref_fingerprint == fingerprint(version).digest
    assert entry.has_older_cache == (version < CACHE_VERSION)


def test_rows_of_this_version_that_are_gone_are_missing(lake: Lake) -> None:
    publish_receipt(lake, CACHE_VERSION)
    found = verify(lake)
    assert found.older == []
    assert "1 of the 1 reference rows" in found.damaged[0].reason


def test_a_foreign_cache_goes_only_when_asked_and_used_by_no_run(lake: Lake) -> None:
    directory = make_cache(lake)
    artifact = publish_receipt(lake, 1)
    (cache,) = find_foreign_caches(lake)
    assert cache.kept_for == "run r"
    assert cache.reference.startswith("version 1, float32, sdpa, weights w")
    assert cache.num_bytes == sum(len(data) for data in files_of(directory).values())
    assert find_garbage(lake, with_foreign=True) == []
    (lake.root / "runs/r/run.json").unlink()
    garbage = [lake.root / item.path for item in find_garbage(lake)]
    assert garbage == [artifact.path]
    with_foreign = find_garbage(lake, with_foreign=True)
    assert [lake.root / item.path for item in with_foreign] == [artifact.path, directory]
    remove_garbage(lake, with_foreign)
    assert not directory.exists()


@pytest.mark.parametrize("doubt", ["newer", "renamed", "training", "damaged"])
def test_a_foreign_cache_in_doubt_stays(lake: Lake, doubt: str) -> None:
    directory = make_cache(lake, CACHE_VERSION + 1 if doubt == "newer" else 1)
    if doubt == "renamed":
        path = directory / "fingerprint.json"
        write_json(path, read_json(path) | {"weights": "x"})
    elif doubt == "training":
        (lake.root / "partial/train/key").mkdir(parents=True)
    elif doubt == "damaged":
        publish_receipt(lake, 1).files("ref_receipts")[0].write_bytes(b"torn")
    assert find_foreign_caches(lake)[0].kept_for
    remove_garbage(lake, find_garbage(lake, with_foreign=True))
    assert directory.is_dir()


def test_gc_shows_foreign_caches_and_removes_none_unasked(lake: Lake) -> None:
    directory = make_cache(lake)

    def gc(*words: str) -> str:
        return CliRunner().invoke(app, ["lake", "gc", "--lake", str(lake.root), *words]).output

    for words in ((), ("--remove",), ("--foreign",)):
        told = gc(*words)
        assert f"ref_logprobs/{directory.name}" in told
        assert "used by no run" in told
        assert directory.is_dir()
    assert "1 items" in gc("--foreign", "--remove")
    assert not directory.exists()
