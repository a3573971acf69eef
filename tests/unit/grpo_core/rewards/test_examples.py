"""The worked examples of the README and of docs/rewards.md do what they say."""

import ast
import json
import re
from pathlib import Path

import pytest

from grpo_core.config import RunConfig, load_config
from grpo_core.paths import PROJECT_ROOT
from grpo_core.prompts.ingest import active, ingest
from grpo_core.rewards import Label, Verdict, check_gold
from grpo_core.rewards.code.row_tests import read_tests
from grpo_core.rewards.functions.reference import find_function
from grpo_core.rewards.grader import Grader
from grpo_core.rewards.rows import grade_rows, grader_rules, problems_by_id
from grpo_core.rewards.start_check import require_sound
from grpo_core.types import Split

README = (PROJECT_ROOT / "README.md").read_text("utf-8")
SECTION = README[README.index("## Rewards") : README.index("## Query")]
OWN_SPLITS = (
    "prompts.validation_source=data/prompts/validation.jsonl",
    "prompts.test_source=data/prompts/test.jsonl",
    "execution.verifier_workers=1",
)


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.+?)```", SECTION, re.DOTALL)


def _config(tmp_path: Path, number: int) -> RunConfig:
    file = tmp_path / "mine.toml"
    file.write_text(_blocks("toml")[number])
    return load_config("base", config_file=file, overrides=OWN_SPLITS)


def test_the_readme_shows_the_functions_that_are_there() -> None:
    (block,) = _blocks("python")
    shown = [line.removesuffix(" ...") for line in block.splitlines() if line.startswith("def")]
    source = (PROJECT_ROOT / "docs" / "examples" / "rewards.py").read_text("utf-8")
    assert [line for line in source.splitlines() if line in shown] == shown
    names = [node.name for node in ast.parse(block).body if isinstance(node, ast.FunctionDef)]
    per = [find_function(f"docs/examples/rewards.py:{name}").per for name in names]
    assert per == ["sample", "batch"]


def test_the_function_per_batch(tmp_path: Path) -> None:
    config = _config(tmp_path, 0)
    problems = [{"gold": gold} for gold in ("72", "72", "72", "x")]
    with Grader(grader_rules(config)) as grader:
        verdicts = grade_rows(grader, ["so 72", "so 73", "none", "7"], problems)
    assert [v.reward_raw for v in verdicts] == [1.0, 0.5, 0.0, None]
    assert [v.label for v in verdicts[:2]] == [Label.CORRECT, Label.WRONG]


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[dict[str, object], Verdict]]:
    """The rows of the mixture with the verdicts on their golds, each in a box or a block."""
    config = _config(tmp_path_factory.mktemp("mine"), 1)
    rules = grader_rules(config)
    result = ingest(
        config.prompts,
        base_directory=PROJECT_ROOT,
        check_gold=check_gold,
        verifiers=rules.names,
    )
    problems = list(problems_by_id(active(result.table, Split.TRAIN)).values())
    texts = [
        f"```python\n{p['gold']}\n```" if p["verifier"] == "code" else rf"\boxed{{{p['gold']}}}"
        for p in problems
    ]
    with Grader(rules) as grader:
        require_sound(grader, problems)
        return list(zip(problems, grade_rows(grader, texts, problems), strict=True))


def test_the_mixture_is_graded_row_by_row(
    mixture: list[tuple[dict[str, object], Verdict]],
) -> None:
    assert len(mixture) == len(
        (PROJECT_ROOT / "docs" / "examples" / "mixture.jsonl").read_text().splitlines()
    )
    assert {verdict.label for _, verdict in mixture} == {Label.CORRECT}
    by_source = {str(problem["source"]): verdict.share_passed for problem, verdict in mixture}
    assert by_source == {"word problems": None, "programs": 1.0, "boxes": None}


def test_the_row_of_the_readme_is_one_of_a_program() -> None:
    (block,) = _blocks("json")
    row = json.loads(block)
    assert row["verifier"] == "code"
    with Grader() as grader:
        (verdict,) = grader.grade(
            [f"```python\n{row['answer']}\n```"], [{**row, "tests": json.dumps(row["tests"])}]
        )
    assert verdict.label is Label.CORRECT


def test_every_form_of_tests_in_the_docs_can_be_read() -> None:
    page = (PROJECT_ROOT / "docs" / "rewards.md").read_text("utf-8")
    cells = re.findall(r"^\| `([\[{].+?)` \|", page, re.MULTILINE)
    modes = [read_tests(cell).mode for cell in cells]
    assert modes == ["asserts", "asserts", "asserts", "calls", "stdio"]


def test_the_docs_count_the_cases() -> None:
    page = (PROJECT_ROOT / "docs" / "rewards.md").read_text("utf-8")
    card = (PROJECT_ROOT / "data" / "README.md").read_text("utf-8")
    for name in ("cases", "public_cases", "selftest"):
        rows = (PROJECT_ROOT / "data" / "rewards" / f"{name}.jsonl").read_text("utf-8")
        count = len(rows.splitlines())
        assert f"| `{name}.jsonl` | {count} |" in card
        if name != "selftest":
            assert f"`data/rewards/{name}.jsonl` ({count} " in page
