"""Hashes the code behind each kind of artefact; run as a script it records them."""

import ast
import hashlib
import json
import re
from functools import cache
from pathlib import Path

from grpo_core.planning.versions import KIND_VERSIONS
from grpo_core.stages.executor import _MAKERS

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).with_suffix(".json")
# What moves, finds or shows artefacts cannot change what is in them.
_APART = (
    "grpo_core.config",
    "grpo_core.errors",
    "grpo_core.paths",
    "grpo_core.planning",
    "grpo_core.reporting",
    "grpo_core.stages.context",
    "grpo_core.store",
)
_COUNTED = (
    "grpo_core.store.schemas",
    "grpo_core.store.side_tables",
    "grpo_core.store.table_spec",
    "grpo_core.store.columns",
    "grpo_core.store.ref_rows",
)


def current_sources() -> dict[str, dict[str, object]]:
    """Kind → its version and the hash of its code."""
    return {
        kind.value: {
            "version": KIND_VERSIONS[kind],
            "sha256": _hash(_closure(maker.split(":")[0])),
        }
        for kind, maker in _MAKERS.items()
    }


def _hash(modules: set[str]) -> str:
    hasher = hashlib.sha256()
    for module in sorted(modules):
        hasher.update(module.encode() + _fingerprint(module))
    return hasher.hexdigest()


@cache
def _fingerprint(module: str) -> bytes:
    """The module's syntax tree without docstrings and positions."""
    tree = ast.parse(_path(module).read_text())
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [item for item in body if not _is_text(item)]
    return hashlib.sha256(repr(_plain(tree)).encode()).digest()


def _plain(node: object) -> object:
    """The tree without its empty fields, of which each release of Python has others."""
    if isinstance(node, ast.AST):
        fields = {name: _plain(value) for name, value in ast.iter_fields(node)}
        kept = [(name, value) for name, value in fields.items() if value not in (None, [])]
        return (type(node).__name__, kept)
    return [_plain(item) for item in node] if isinstance(node, list) else node


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _closure(module: str) -> set[str]:
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in seen or not _counts(name):
            continue
        seen.add(name)
        waiting += _imports(name)
    return seen


def _counts(module: str) -> bool:
    if module.startswith(_COUNTED):
        return True
    return module.startswith("grpo_core") and not module.startswith(_APART)


@cache
def _imports(module: str) -> tuple[str, ...]:
    found: list[str] = []
    for node in ast.walk(ast.parse(_path(module).read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [f"{node.module}.{alias.name}" for alias in node.names] + [node.module]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found += re.findall(r"^(grpo_core[\w.]*):\w+$", node.value)
    return tuple(name for name in found if name.startswith("grpo_core") and _exists(name))


def _exists(module: str) -> bool:
    base = ROOT / module.replace(".", "/")
    return base.with_suffix(".py").is_file() or (base / "__init__.py").is_file()


def _path(module: str) -> Path:
    base = ROOT / module.replace(".", "/")
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


if __name__ == "__main__":
    RECORD.write_text(json.dumps(current_sources(), indent=1) + "\n")
