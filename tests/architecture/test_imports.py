"""Who may import whom, and what a quick command must not load."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "transformers", "vllm")


def _modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def _module_level_imports(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from _imports(node)


def _loaded(code: str, names: tuple[str, ...]) -> set[str]:
    """Which of `names` are loaded after `code` ran in a fresh interpreter."""
    script = f"{code}\nimport sys\nprint('loaded:', *[n for n in {names!r} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split()[1:])


def test_core_never_imports_prefect_or_flows() -> None:
    offenders = {
        path.relative_to(ROOT)
        for path in _modules("grpo_core")
        for name in _imports(ast.parse(path.read_text(encoding="utf-8")))
        if name.split(".")[0] in {"prefect", "flows"}
    }
    assert offenders == set()


def test_flows_load_no_model_library_at_module_level() -> None:
    offenders = {
        path.relative_to(ROOT)
        for path in _modules("flows")
        for name in _module_level_imports(ast.parse(path.read_text(encoding="utf-8")))
        if name.split(".")[0] in HEAVY
    }
    assert offenders == set()


def test_the_command_starts_without_anything_heavy() -> None:
    loaded = _loaded("import flows.cli", ("prefect", "duckdb", "polars", "pyarrow", *HEAVY))
    assert loaded == set()


def test_the_flow_starts_without_model_libraries() -> None:
    assert _loaded("import flows.pipeline", HEAVY) == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan"],
        ["plan", "evaluate", "--set", "train.group_size=4"],
        ["sql", "--list"],
        ["sql", "select count(*) as n from prompts"],
        ["audit"],
    ],
    ids=" ".join,
)
def test_quick_commands_load_neither_torch_nor_prefect(
    arguments: list[str], tmp_path: Path
) -> None:
    lake = (
        ["--set", f"execution.lake={tmp_path}"]
        if arguments[0] == "plan"
        else ["--lake", str(tmp_path)]
    )
    code = (
        "from typer.testing import CliRunner\n"
        "from flows.cli import app\n"
        f"result = CliRunner().invoke(app, {arguments + lake!r}, catch_exceptions=False)\n"
        "assert result.exit_code == 0, result.output\n"
    )
    assert _loaded(code, ("prefect", *HEAVY)) == set()
