import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from flows.cli import app, main
from grpo_core.errors import ArtifactError, ConfigError, DataContractError


def _grpo(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


@pytest.fixture
def lake(tmp_path: Path) -> str:
    (tmp_path / "lake").mkdir()
    return str(tmp_path / "lake")


def test_plan_of_an_empty_lake(lake: str) -> None:
    done = _grpo("plan", "--set", f"execution.lake={lake}")
    assert done.exit_code == 0
    rows = [line.split() for line in done.output.splitlines()]
    assert ["ingest", "prompts", "MISS"] in [row[:3] for row in rows]
    assert any(row[:3] == ["prefilter", "samples", "PENDING"] for row in rows)


def test_plan_of_one_stage_shows_only_that(lake: str) -> None:
    done = _grpo("plan", "variants", "--set", f"execution.lake={lake}")
    assert "variants" in done.output
    assert "eval_samples" not in done.output


def test_plan_says_which_field_keys_what() -> None:
    lines = {line.split()[0]: line for line in _grpo("plan", "--why-fields").output.splitlines()}
    assert lines["bands.hard_max"].split()[1:] == ["bands"]
    assert lines["execution.threads"].split()[1:] == ["execution"]
    assert lines["model.path"].split()[1:] == ["by", "digest"]


def test_sql_in_every_format(lake: str, tmp_path: Path) -> None:
    query = "select 1 as one, 'x' as letter"
    assert _grpo("sql", query, "--lake", lake, "--format", "csv").output == "one,letter\n1,x\n"
    assert json.loads(_grpo("sql", query, "--lake", lake, "--format", "json").output) == [
        {"one": 1, "letter": "x"}
    ]
    target = tmp_path / "rows.parquet"
    _grpo("sql", query, "--lake", lake, "--format", "parquet", "--output", str(target))
    assert pq.read_table(target).to_pylist() == [{"one": 1, "letter": "x"}]
    assert "letter" in _grpo("sql", query, "--lake", lake).output


def test_sql_of_a_stage_or_phase_that_is_not_there_says_what_is(
    lake: str,
) -> None:
    for option in (["--stage", "train"], ["--phase", "1"]):
        with pytest.raises(DataContractError, match="nothing here has"):
            _grpo("sql", "select count(*) from run_rollouts", "--lake", lake, *option)


def test_sql_lists_and_describes_what_there_is(lake: str) -> None:
    listing = _grpo("sql", "--list", "--lake", lake).output
    for name in ("prompts", "pass_at_k", "pass_rates_by_band"):
        assert name in listing
    assert "estimate" in _grpo("sql", "--list", "pass_at_k", "--lake", lake).output


def test_a_report_of_an_empty_lake_has_no_rows(lake: str) -> None:
    done = _grpo("sql", "--report", "phases", "--lake", lake, "--format", "json")
    assert json.loads(done.output) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sql", "selec 1"], "syntax error"),
        (["sql", "select * from nowhere"], "nowhere"),
        (["sql", "drop table prompts"], "read-only"),
        (["sql", "--report", "nothing"], "there is no report"),
    ],
)
def test_a_bad_query_is_the_databases_message(lake: str, words: list[str], message: str) -> None:
    with pytest.raises(DataContractError, match=message):
        _grpo(*words, "--lake", lake)


@pytest.mark.parametrize("words", [["sql"], ["sql", "select 1", "--list", "--report", "phases"]])
def test_a_question_is_one_question(lake: str, words: list[str]) -> None:
    assert _grpo(*words, "--lake", lake).exit_code == 2


def test_a_run_that_does_not_exist_is_named(lake: str) -> None:
    for words in (["audit"], ["report"]):
        with pytest.raises((ConfigError, DataContractError), match="no run called 'x'"):
            _grpo(*words, "--run", "x", "--lake", lake)


def test_audit_without_runs_passes(lake: str) -> None:
    assert _grpo("audit", "--lake", lake).exit_code == 0


def test_grade_keeps_order_and_ids(tmp_path: Path) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    rows = [
        {"id": 7, "completion": "2 + 2 = 4\n#### 4", "gold": "4"},
        {"id": "b", "completion": "#### 5", "gold": "4"},
        {"id": None, "completion": "no idea", "gold": "4"},
    ]
    source.write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")
    assert _grpo("grade", str(source), str(target)).exit_code == 0
    graded = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
    assert [row["id"] for row in graded] == [7, "b", None]
    assert [row["label"] for row in graded] == ["correct", "wrong", "unparseable"]
    assert [row["reward_raw"] for row in graded] == [1.0, 0.0, 0.0]
    assert set(graded[0]) == {"id", "label", "reward_raw", "extracted", "reason"}


def test_grade_names_the_row_that_can_not_be_graded(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"id": 1, "completion": "4", "gold": "4"}\n[]\n', encoding="utf-8")
    with pytest.raises(DataContractError, match="line 2"):
        _grpo("grade", str(source), str(tmp_path / "out.jsonl"))


def test_grade_takes_a_function_and_unit_tests(tmp_path: Path) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    add = "```python\ndef add(a, b):\n    return a + b\n```"
    tests = ["assert add(1, 2) == 3", "assert add(1, 1) == 3"]
    rows = [
        {"id": 1, "completion": "about 41", "gold": "42"},
        {"id": 2, "completion": add, "verifier": "code", "tests": tests},
    ]
    source.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    function = "docs/examples/rewards.py:closeness"
    assert _grpo("grade", str(source), str(target), "--function", function).exit_code == 0
    graded = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
    assert [row["reward_raw"] for row in graded] == [0.5, 0.0]
    assert graded[1]["share_passed"] == 0.5


def test_selftest_fails_a_reward_that_can_be_fooled() -> None:
    assert _grpo("grade", "--selftest", "math").exit_code == 0
    done = _grpo("grade", "--selftest", "docs/examples/rewards.py:closeness")
    assert done.exit_code == 1
    assert "shotgun boxes" in done.output


def test_a_full_disk_is_an_error_of_two_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("flows.cli.app", fail)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    told = capsys.readouterr().err
    assert "the disk is full" in told
    assert "grpo lake gc" in told


def test_refresh_writes_the_database_for_other_clients(lake: str) -> None:
    assert _grpo("lake", "refresh", "--lake", lake).exit_code == 0
    assert (Path(lake) / "lake.duckdb").is_file()


def test_lake_commands_on_an_empty_lake(lake: str, tmp_path: Path) -> None:
    done = _grpo("lake", "verify", "--lake", lake)
    assert "0 artefacts and 0 parts of reference caches, 0 damaged" in done.output
    assert "0 items" in _grpo("lake", "gc", "--lake", lake).output
    assert _grpo("lake", "compact", "--lake", lake).exit_code == 0
    with pytest.raises(ConfigError, match="there is no run called 'nobody'"):
        _grpo("lake", "export", str(tmp_path / "x.tar"), "--run", "nobody", "--lake", lake)
    (tmp_path / "x.tar").write_bytes(b"no archive")
    with pytest.raises(ArtifactError, match=r"x\.tar cannot be read as an export"):
        _grpo("lake", "import", str(tmp_path / "x.tar"), "--lake", lake)
