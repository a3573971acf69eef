"""Grading a file: whole or not at all, and errors that name the place."""

import json
from pathlib import Path

import pytest

from grpo_core.errors import DataContractError
from grpo_core.rewards import Label
from grpo_core.rewards.grading_io import grade_file

GOOD = [
    {"id": "a", "completion": "#### 7", "gold": "7"},
    {"id": 2, "completion": "The answer is (C).", "gold": "C", "answer_type": "choice"},
    {"id": "c", "completion": r"\boxed{\sin(2x)}", "gold": r"2\sin x\cos x", "extra": 1},
    {"id": "d", "completion": "", "gold": "7", "answer_type": None},
]


def _write(path: Path, rows: list[object]) -> Path:
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows) + "\n")
    return path


def test_rows_come_out_in_order(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    counts = grade_file(_write(tmp_path / "in.jsonl", GOOD), out)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["id"] for row in rows] == ["a", 2, "c", "d"]
    assert [row["label"] for row in rows] == ["correct", "correct", "correct", "unparseable"]
    assert rows[0] == {
        "id": "a",
        "label": "correct",
        "reward_raw": 1.0,
        "extracted": "7",
        "reason": rows[0]["reason"],
    }
    assert counts == {Label.CORRECT: 3, Label.UNPARSEABLE: 1}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("{not json", ["line 2", "JSON"]),
        ("[1]", ["line 2", "a JSON object", "list"]),
        ({"id": "x", "gold": "7"}, ["line 2", "'completion'", "a string", "nothing"]),
        ({"id": "x", "completion": "7", "gold": 7}, ["line 2", "'gold'", "a string", "int '7'"]),
        ({"completion": "7", "gold": "7"}, ["line 2", "'id'", "nothing"]),
        ({"id": [1], "completion": "7", "gold": "7"}, ["line 2", "'id'", "list"]),
        (
            {"id": "x", "completion": "7", "gold": "7", "verifier": "judge"},
            ["line 2", "'verifier'", "math, code", "'judge'"],
        ),
        (
            {"id": "x", "completion": "7", "gold": "7", "answer_type": "nmber"},
            ["line 2", "'answer_type'", "number", "'nmber'"],
        ),
    ],
)
def test_a_bad_row_is_named_and_nothing_is_written(
    tmp_path: Path, row: object, words: list[str]
) -> None:
    source, out = _write(tmp_path / "in.jsonl", [GOOD[0], row, GOOD[1]]), tmp_path / "out.jsonl"
    out.write_text("earlier result\n")
    with pytest.raises(DataContractError) as caught:
        grade_file(source, out)
    for word in [str(source), "hint", *words]:
        assert word in str(caught.value)
    assert out.read_text() == "earlier result\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]


def test_bytes_that_are_no_utf8_are_named(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_bytes(b'{"id": "\xff"}\n')
    with pytest.raises(DataContractError, match="line 1"):
        grade_file(source, tmp_path / "out.jsonl")


def test_missing_files_and_directories(tmp_path: Path) -> None:
    with pytest.raises(DataContractError, match="cannot be opened"):
        grade_file(tmp_path / "none.jsonl", tmp_path / "out.jsonl")
    with pytest.raises(DataContractError, match="directory"):
        grade_file(_write(tmp_path / "in.jsonl", GOOD), tmp_path / "no" / "out.jsonl")


def test_an_empty_file_gives_an_empty_file(tmp_path: Path) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("")
    assert not grade_file(source, out)
    assert out.read_text() == ""
