"""Rows of a source: kept, quarantined, split."""

import json

import pytest
from ingesting import GIVEN, accept, reasons, row, run, write_lines

from grpo_core.config.data import PromptsConfig
from grpo_core.errors import ConfigError, DataContractError
from grpo_core.prompts.ingest import active, draw_limit, ingest
from grpo_core.store.schemas import PROMPTS
from grpo_core.types import Split


def test_table_keeps_the_schema_and_sort(directory):
    result = run(directory)
    assert result.table.schema.equals(PROMPTS.schema)
    assert result.table.column("source").to_pylist() == sorted(
        ["source"] * 4 + ["validation_source", "test_source"]
    )
    first = active(result.table, Split.TRAIN).to_pylist()[0]
    assert (first["text"], first["gold"], first["solution"]) == ("train 0", "0", "because")
    assert result.summary.kept == {"train": 4, "validation": 1, "test": 1}


def test_every_defect_is_quarantined_with_its_row(directory):
    write_lines(
        directory / "train.jsonl",
        [
            row("good", "1,200"),
            b'{"question": "caf\xe9", "answer": "#### 1"}',
            b'{"question": "half a row',
            [1, 2],
            {"answer": "#### 1"},
            {"question": None, "answer": "#### 1"},
            {"question": "no answer"},
            row(7, 1),
            {"question": "q9", "answer": 7},
            row("  \n", 1),
            row("q11", " "),
            {"question": "q12", "answer": "no marker"},
            row("q13", "abc"),
            row("x" * 60, 1),
            row("lone \ud800 surrogate", 1),
            b"1" * 5000,
        ],
    )
    got = reasons(run(directory, max_characters=50))
    expected = {
        2: "undecodable: byte 18 is not UTF-8",
        3: "broken_json: Unterminated string starting at at character 14",
        4: "not_object: expected an object, got list",
        5: "missing_problem: field 'question' is absent",
        6: "missing_problem: field 'question' is null",
        7: "missing_gold: field 'answer' is absent",
        8: "wrong_type: field 'question': expected text, got int",
        9: "wrong_type: field 'answer': expected text, got int",
        10: "empty_problem",
        11: "empty_gold",
        12: "missing_marker: field 'answer' holds no '####'",
        13: "refused_gold: not a number: abc",
        14: "over_long: field 'question' has 60 characters, the limit is 50",
        15: "undecodable: field 'question': lone surrogate",
        16: "broken_json: Exceeds the limit",
    }
    assert got.pop(1) is None
    assert got.keys() == expected.keys()
    for number, reason in expected.items():
        assert got[number].startswith(reason), got[number]


def test_summary_adds_up(directory):
    write_lines(
        directory / "train.jsonl", [row("a", 1), row(" a ", 1), row("b", 1), {"question": "c"}, [0]]
    )
    summary = run(directory).summary
    assert summary.rows == 7
    assert summary.duplicates == 1
    assert summary.quarantined == {"missing_gold": 1, "not_object": 1}
    assert sum(summary.kept.values()) + 1 + 2 == summary.rows


def test_lines_split_on_newline_only(directory):
    text = "one\u2028two\u0085three"
    line = json.dumps(row(text, 1), ensure_ascii=False).encode()
    write_lines(directory / "train.jsonl", [line, b"  ", row("next", 2)])
    rows = active(run(directory).table, Split.TRAIN).to_pylist()
    assert [(r["row_number"], r["text"]) for r in rows] == [(1, text), (3, "next")]


def test_an_array_in_the_first_row_is_one_bad_row(directory):
    write_lines(directory / "train.jsonl", [[1, 2], row("good", 1)])
    result = run(directory)
    assert reasons(result) == {1: "not_object: expected an object, got list", 2: None}


def test_byte_order_mark_and_carriage_returns(directory):
    lines = [b"\xef\xbb\xbf" + json.dumps(row("a", 1)).encode() + b"\r", row("b", 1)]
    write_lines(directory / "train.jsonl", lines)
    assert run(directory).summary.kept["train"] == 2


def test_gold_follows_the_last_marker(directory):
    write_lines(
        directory / "train.jsonl", [{"question": "q", "answer": "step #### 3\nso\n####  1,000 \n"}]
    )
    kept = active(run(directory).table, Split.TRAIN).to_pylist()[0]
    assert (kept["gold"], kept["solution"]) == ("1,000", "step #### 3\nso")


def test_without_marker_numbers_are_golds(directory):
    for name in ("train", "validation", "test"):
        write_lines(
            directory / f"{name}.jsonl", [{"q": name, "a": 12}, {"q": "b" + name, "a": True}]
        )
    result = run(directory, problem_field="q", answer_field="a", answer_marker="")
    assert active(result.table, Split.TRAIN).to_pylist()[0]["gold"] == "12"
    assert result.summary.quarantined == {"wrong_type": 3}


def test_contradictory_golds_are_all_quarantined(directory):
    write_lines(
        directory / "train.jsonl",
        [row("same", 1), row("same ", 2), row("other", "1,000"), row("other", "1000")],
    )
    result = run(directory)
    assert result.summary.quarantined == {"contradictory_gold": 2}
    assert "1 in row 1 of source; 2 in row 2" in reasons(result)[1]
    assert result.summary.duplicates == 1


def test_held_out_problems_leave_train(directory):
    write_lines(directory / "train.jsonl", [row("test", 1), row("mine", 1), row("validation ", 1)])
    write_lines(directory / "validation.jsonl", [row("validation", 1), row(" test", 1)])
    result = run(directory)
    held = [r for r in result.table.to_pylist() if r["duplicate_of"]]
    assert [(r["source"], r["row_number"]) for r in held] == [
        ("source", 1),
        ("source", 3),
        ("validation_source", 2),
    ]
    assert held[0]["duplicate_of"] == held[0]["prompt_id"]
    assert "row 1 of test_source, split test" in held[0]["quarantine_reason"]
    assert result.summary.kept == {"train": 1, "validation": 1, "test": 1}
    ids = [set(active(result.table, s).column("prompt_id").to_pylist()) for s in Split]
    assert sum(map(len, ids)) == len(set.union(*ids))


def test_hash_split_is_by_problem_and_stable(directory):
    rows = [row(f"problem {i}", i) for i in range(400)]
    shares = {"validation_source": "", "test_source": "", "validation_fraction": 0.2}
    write_lines(directory / "train.jsonl", rows[::-1])
    reversed_order = run(directory, **shares, test_fraction=0.1)
    write_lines(directory / "train.jsonl", [*rows, row("problem 3 ", 3)])
    result = run(directory, **shares, test_fraction=0.1)
    more_test = run(directory, **shares, test_fraction=0.3)

    def split_of(made) -> dict[str, str]:
        kept = made.table.to_pylist()
        return {r["text"].strip(): r["split"] for r in kept if not r["duplicate_of"]}

    assert split_of(result) == split_of(reversed_order)
    validation = {text for text, split in split_of(result).items() if split == "validation"}
    moved = {text for text, split in split_of(more_test).items() if split == "validation"}
    assert validation == moved
    assert 50 < len(validation) < 110
    assert "validation: 20.0% of prompts.source by hash" in result.summary.split_method


def test_draw_limit_is_a_prefix(directory):
    write_lines(directory / "train.jsonl", [row(f"p{i}", i) for i in range(30)])
    table = active(run(directory).table, Split.TRAIN)
    ten, twenty = draw_limit(table, 10), draw_limit(table, 20)
    assert ten.column("prompt_id").to_pylist() == twenty.column("prompt_id").to_pylist()[:10]
    assert draw_limit(table, 0).num_rows == 30


@pytest.mark.parametrize(
    ("name", "content", "fields", "message"),
    [
        ("train.jsonl", b"", {}, "got 0 from 0 rows"),
        ("train.jsonl", b"[{}]\n", {}, "a JSON array"),
        ("train.jsonl", b"PAR1", {}, "a Parquet file"),
        ("train.csv", b"a,b", {"source": "train.csv"}, "unknown format"),
        ("train.parquet", b"no", {"source": "train.parquet"}, "readable parquet"),
        ("x", b"", {"source": "absent.jsonl"}, "got nothing at"),
        ("x", b"", {"problem_field": "prompt"}, "got \\['answer', 'question'\\]"),
        (
            "train.jsonl",
            b'{"question": "a", "answer": "b"}\n',
            {},
            'from 1 rows, 1 of them in quarantine(.|\\n)*answer_marker=""',
        ),
    ],
)
def test_broken_sources_are_refused(directory, name, content, fields, message):
    if name != "x":
        (directory / name).write_bytes(content)
    with pytest.raises(DataContractError, match=message):
        run(directory, **fields)


def test_fractions_must_leave_train(directory):
    with pytest.raises(ConfigError, match="sum below 1"):
        run(
            directory,
            validation_source="",
            test_source="",
            validation_fraction=0.5,
            test_fraction=0.5,
        )


MIXTURE = {
    "mixture": {
        "verifier_field": "verifier",
        "tests_field": "tests",
        "source_field": "from",
    }
}
TESTS = ["assert add(1, 2) == 3"]


def test_rows_name_their_verifier_tests_and_source(directory):
    write_lines(
        directory / "train.jsonl",
        [
            row("sum", 3) | {"verifier": None, "from": "school"},
            {"question": "code", "answer": "def add(a, b):", "verifier": "code", "tests": TESTS},
            {"question": "code 2", "verifier": "code", "tests": json.dumps(TESTS)},
            row("judged", "good prose") | {"verifier": "judge", "from": "essays"},
            {"question": "free", "answer": None, "verifier": "judge"},
            row("who", 3) | {"verifier": "nobody"},
            {"question": "untested", "answer": "x = 1", "verifier": "code"},
            {"question": "no gold", "answer": None},
            row("text", "good prose"),
        ],
    )
    config = PromptsConfig(source="train.jsonl", **GIVEN, **MIXTURE)
    result = ingest(
        config,
        base_directory=directory,
        check_gold=accept,
        verifiers=("math", "code", "judge"),
    )
    rows = [r for r in result.table.to_pylist() if r["source"] == "source"]
    assert [r["verifier"] for r in rows[:5]] == [None, "code", "code", "judge", "judge"]
    assert [r["gold"] for r in rows[:5]] == ["3", "def add(a, b):", None, "good prose", None]
    assert [r["data_source"] for r in rows[:4]] == ["school", None, None, "essays"]
    assert json.loads(rows[1]["tests"]) == json.loads(rows[2]["tests"]) == TESTS
    found = [(r["quarantine_reason"] or "").split(":")[0] for r in rows]
    assert found == [""] * 5 + ["unknown_verifier", "refused_tests", "missing_gold", "refused_gold"]


def test_the_default_verifier_says_what_a_gold_is(directory):
    write_lines(directory / "train.jsonl", [row("sum", "prose"), row("other", 3)])
    config = PromptsConfig(source="train.jsonl", **GIVEN)
    own = ingest(config, base_directory=directory, check_gold=accept, default_verifier="function")
    assert own.summary.kept["train"] == 2
    assert run(directory).summary.kept["train"] == 1
