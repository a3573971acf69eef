"""Where a reward function stands, what it takes and the digest of its code; nothing is run.

The source is read, never imported: `grpo plan` and the check of a configuration must not run code.
"""

import ast
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final, Literal

from grpo_core.errors import ConfigError
from grpo_core.paths import PROJECT_ROOT, resolve_path
from grpo_core.store.canonical import sha256_json

Per = Literal["sample", "batch"]
_PARAMETERS: Final[dict[Per, tuple[str, str]]] = {
    "sample": ("completion", "problem"),
    "batch": ("completions", "problems"),
}
_HINT: Final = (
    "write `module:function` or `path/to/file.py:function` with a function like "
    "`def reward(completion, problem)` or, for whole batches, `def reward(completions, problems)`"
)
_OWN_PACKAGES: Final = ("grpo_core", "flows")


@dataclass(frozen=True, slots=True)
class FunctionRef:
    """A reward function that exists.

    Args:
        text: As it was configured.
        path: Its source file.
        root: Directory that its imports are looked up in.
        module: Name it is imported by; empty when it is loaded from `path`.
        name: Name of the function.
        per: Whether it is called per sample or per batch.
    """

    text: str
    path: Path
    root: Path
    module: str
    name: str
    per: Per

    def settings(self) -> dict[str, str]:
        """What a worker needs to import it, as plain JSON."""
        place = {"root": str(self.root), "module": self.module, "file": str(self.path)}
        return {**place, "name": self.name}


def find_function(text: str) -> FunctionRef:
    """Find a function by `module:function` or `file.py:function` without importing it.

    Raises:
        ConfigError: Not of that form, no such file, module or function, or other parameters.
    """
    target, _, name = text.rpartition(":")
    if not target or not name.isidentifier():
        raise ConfigError(f"reward function {text!r}: expected a path, a colon and a name", _HINT)
    if target.endswith(".py") or "/" in target:
        path = resolve_path(target)
        root, module = path.parent, ""
    else:
        path, root = _find_module(target, text)
        module = target
    if not path.is_file():
        raise ConfigError(
            f"reward function {text!r}: {path} does not exist",
            f"relative paths start at {PROJECT_ROOT}",
        )
    return FunctionRef(text, path, root, module, name, _called_per(path, name, text))


def _find_module(module: str, text: str) -> tuple[Path, Path]:
    """The source file of a module and the directory that holds its top-level name."""
    top, *rest = module.split(".")
    if top in sys.stdlib_module_names:
        raise ConfigError(
            f"reward function {text!r}: {top} belongs to Python's standard library", _HINT
        )
    spec = PathFinder.find_spec(top, [str(PROJECT_ROOT), *sys.path]) or importlib.util.find_spec(
        top
    )
    if spec is None:
        raise ConfigError(
            f"reward function {text!r}: there is no module {top!r}",
            f"it is looked for in {PROJECT_ROOT} and in the environment; or name the file: "
            f"path/to/{top}.py:function",
        )
    if spec.submodule_search_locations:
        package = Path(next(iter(spec.submodule_search_locations)))
        return _module_file(package.joinpath(*rest)), package.parent
    path = Path(spec.origin or "")
    return path, path.parent


def _module_file(base: Path) -> Path:
    inside = base / "__init__.py"
    return inside if inside.is_file() else base.with_name(f"{base.name}.py")


def _called_per(path: Path, name: str, text: str) -> Per:
    functions = {
        node.name: node
        for node in _parse(path).body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    node = functions.get(name)
    if not isinstance(node, ast.FunctionDef):
        found = f"`async def {name}`" if node else f"functions {', '.join(functions) or 'none'}"
        raise ConfigError(f"reward function {text!r}: expected `def {name}`, got {found}", _HINT)
    given = node.args
    names = [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    optional = len(given.defaults) + sum(value is not None for value in given.kw_defaults)
    for per, wanted in _PARAMETERS.items():
        if set(wanted) <= set(names) and not given.posonlyargs and len(names) - optional <= 2:
            return per
    raise ConfigError(
        f"reward function {text!r}: expected parameters (completion, problem) or "
        f"(completions, problems), got ({', '.join(names)})",
        _HINT,
    )


def _parse(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise ConfigError(f"reward function: {path} is not Python: {error}") from error


def function_digest(function: FunctionRef, digest_file: Callable[[Path], str]) -> str:
    """Digest of a function's code: its file and the user's files that it imports, 64 hex digits.

    Files of installed packages, of this project and of Python do not count: their versions stand in
    manifests. What the code reads at run time (weights, a server) does not count either.

    Args:
        function: The function.
        digest_file: Path → digest of a file.
    """
    files: dict[str, str] = {}
    waiting = [function.path]
    while waiting:
        path = waiting.pop()
        label = str(path.relative_to(function.root))
        if label not in files:
            files[label] = digest_file(path)
            waiting += _own_imports(path, function.root)
    return sha256_json({"files": files, "name": function.name})


def _own_imports(path: Path, root: Path) -> Iterator[Path]:
    for node in ast.walk(_parse(path)):
        for base in _imported_bases(node, path, root):
            for candidate in (base.with_name(f"{base.name}.py"), base / "__init__.py"):
                if candidate.is_file() and _is_own(candidate, path, root):
                    yield candidate


def _imported_bases(node: ast.AST, path: Path, root: Path) -> Iterator[Path]:
    """Paths, without suffix, that the modules of an import statement would have."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield from _with_parents(root, alias.name)
    elif isinstance(node, ast.ImportFrom):
        start = path.parents[node.level - 1] if node.level else root
        yield from _with_parents(start, node.module or "")
        inside = start.joinpath(*(node.module or "").split("."))
        yield from (inside / alias.name for alias in node.names)


def _with_parents(start: Path, module: str) -> Iterator[Path]:
    parts = [part for part in module.split(".") if part]
    for depth in range(1, len(parts) + 1):
        yield start.joinpath(*parts[:depth])


def _is_own(candidate: Path, path: Path, root: Path) -> bool:
    """Whether a file is the user's: below the root, and of the same package when installed."""
    top = candidate.relative_to(root).parts[0].removesuffix(".py")
    if root == PROJECT_ROOT and top in _OWN_PACKAGES:
        return False
    is_installed = re.search(r"(site|dist)-packages", str(root)) is not None
    return not is_installed or top == path.relative_to(root).parts[0].removesuffix(".py")
