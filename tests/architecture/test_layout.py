"""Sizes, names, and where SQL lives; each test lists every offender."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAX_FILE_LINES = 350
MAX_FUNCTION_LINES = 80
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "manager", "common", "misc"}
QUERY = re.compile(r"\s*(select|with)\b.+\bfrom\s+(?!duckdb_)\w", re.IGNORECASE | re.DOTALL)
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def _texts(*directories: str) -> dict[str, str]:
    """Path from the root → text of every Python file below the directories."""
    return {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for directory in directories
        for path in sorted((ROOT / directory).rglob("*.py"))
    }


SOURCES = _texts("flows", "grpo_core")
TESTS = _texts("tests", "benchmarks", "data")
TREES = {name: ast.parse(text) for name, text in SOURCES.items()}


def test_files_stay_small() -> None:
    lengths = {name: len(text.splitlines()) for name, text in (SOURCES | TESTS).items()}
    assert {name: length for name, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_functions_stay_small() -> None:
    too_long = {
        f"{name}:{node.name}": length
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    }
    assert too_long == {}


def test_modules_are_named_after_what_they_hold() -> None:
    assert [name for name in SOURCES if Path(name).stem in VAGUE_NAMES] == []


def test_sql_lives_in_the_sql_directory() -> None:
    found = {
        f"{name}: {text[:60]}"
        for name, tree in TREES.items()
        for text in _strings(tree)
        if QUERY.match(text)
    }
    assert found == set()


def test_nothing_is_left_to_do() -> None:
    assert [name for name, text in SOURCES.items() if UNFINISHED.search(text)] == []


def test_pages_hold_no_placeholder() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("data/*.md")]
    placeholder = re.compile(r"^(draft|[A-Z]+_[A-Z_]+)$", re.MULTILINE)
    assert [page.name for page in pages if placeholder.search(page.read_text("utf-8"))] == []


def _strings(tree: ast.Module) -> Iterator[str]:
    """String constants of a module that are not docstrings."""
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in docstrings:
            yield node.value


def test_nothing_is_unpickled() -> None:
    loads = re.compile(r"^\s*(import|from) (pickle|shelve|joblib|dill)\b|torch\.load", re.MULTILINE)
    assert [name for name, text in SOURCES.items() if loads.search(text)] == []
    assert [name for name, text in SOURCES.items() if "allow_pickle=True" in text] == []
