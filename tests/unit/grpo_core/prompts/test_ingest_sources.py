"""Sources that are no JSONL: Parquet, saved datasets, directories of a hub."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ingesting import GIVEN, reasons, row, run

from grpo_core.config.data import PromptsConfig
from grpo_core.errors import DataContractError
from grpo_core.prompts.ingest import active, source_paths
from grpo_core.types import Split


def test_parquet_with_undecodable_text(directory):
    questions = pa.array([b"good", b"b\xff", None]).cast(pa.string(), safe=False)
    answers = pa.array(["#### 1"] * 3).dictionary_encode()
    table = pa.table({"question": questions, "answer": answers, "unused": [1, 2, 3]})
    pq.write_table(table, directory / "train.parquet")
    result = run(directory, source="train.parquet")
    assert reasons(result)[2] == (
        "undecodable: field 'question': byte 2 is not UTF-8 (invalid start byte)"
    )
    assert reasons(result)[3] == "missing_problem: field 'question' is null"
    assert result.summary.kept["train"] == 1


def save_dataset(path: Path, rows: list[dict[str, object]], parts: int = 1) -> None:
    path.mkdir(parents=True)
    names = []
    for part in range(parts):
        name = f"data-{part:05d}-of-{parts:05d}.arrow"
        table = pa.Table.from_pylist(rows[part::parts])
        with pa.ipc.new_stream(path / name, table.schema) as writer:
            writer.write_table(table)
        names.append({"filename": name})
    (path / "state.json").write_text(json.dumps({"_data_files": names, "_split": "train"}))
    (path / "dataset_info.json").write_text("{}")


def test_saved_dataset(directory):
    save_dataset(directory / "saved", [row(f"s{i}", i) for i in range(5)], parts=2)
    result = run(directory, source="saved")
    assert [r["text"] for r in active(result.table, Split.TRAIN).to_pylist()] == [
        f"s{i}" for i in (0, 2, 4, 1, 3)
    ]
    paths = source_paths(PromptsConfig(source="saved", **GIVEN), directory)
    assert [path.name for path in paths["train"]] == [
        "data-00000-of-00002.arrow",
        "data-00001-of-00002.arrow",
        "dataset_info.json",
        "state.json",
    ]
    assert list(paths) == ["test", "train", "validation"]


def test_saved_dataset_dict_brings_its_splits(directory):
    for name, count in (("train", 4), ("test", 2), ("extra", 1)):
        save_dataset(directory / "dict" / name, [row(f"{name} {i}", i) for i in range(count)])
    listing = {"splits": ["train", "test", "extra"]}
    (directory / "dict" / "dataset_dict.json").write_text(json.dumps(listing))
    result = run(directory, source="dict", test_source="")
    assert result.summary.kept == {"train": 4, "validation": 1, "test": 2}
    assert "test: rows of prompts.source/test" in result.summary.split_method
    only_test = run(directory, test_source="dict")
    assert only_test.summary.kept["test"] == 2


def test_hub_directory_of_parquet(directory):
    for name in ("train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001"):
        path = directory / "hub" / "main" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist([row(name, 1)]), path)
    result = run(directory, source="hub", test_source="")
    assert result.summary.kept == {"train": 2, "validation": 1, "test": 1}
    other = directory / "hub" / "socratic" / "train-00000-of-00001.parquet"
    other.parent.mkdir()
    pq.write_table(pa.Table.from_pylist([row("other", 1)]), other)
    with pytest.raises(DataContractError, match=r"got \['main', 'socratic'\]"):
        run(directory, source="hub")


def test_directory_without_a_dataset(directory):
    (directory / "empty").mkdir()
    with pytest.raises(DataContractError, match="holds no dataset"):
        run(directory, source="empty")
