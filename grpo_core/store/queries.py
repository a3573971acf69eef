"""The queries of `sql/`: one SELECT a file under a parsed comment header.

```
-- name: truncation_by_phase          the file's stem
-- kind: report                       staging | run | mart | report | audit | regrade, its directory
-- grain: one row per run and phase
-- depends_on: run_rollouts, run_nodes
-- severity: block                    audits: block | warn
-- deep: true                         audits that read token lists
-- params:                            reports and audits, used as $run
--     run: varchar = null; only this run, null for every run
-- why: what goes wrong when it is ignored
-- columns:
--     run: run name
```
"""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_core.errors import DataContractError

SQL_DIRECTORY = Path(__file__).resolve().parents[2] / "sql"
DIRECTORIES = {
    "staging": "staging",
    "run": "runs",
    "mart": "marts",
    "report": "reports",
    "audit": "audits",
    "regrade": "regrade",
}
VIEW_KINDS = ("staging", "run", "mart")
SEVERITIES = ("block", "warn")
ENTRY_INDENT = 5
"""Spaces between `--` and an entry of a list; deeper lines continue the entry above."""
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Parameter:
    """One `$name` of a report or audit.

    Args:
        name: Name without the dollar sign.
        type: DuckDB type.
        default: Value when the caller gives none.
        is_required: Whether the caller must give it.
        meaning: What it does.
    """

    name: str
    type: str
    default: Any
    is_required: bool
    meaning: str


@dataclass(frozen=True, slots=True)
class Query:
    """One file of `sql/`.

    Args:
        name: Name of the view, report or audit.
        kind: `staging`, `run`, `mart`, `report`, `audit` or `regrade`.
        grain: What one row is.
        depends_on: Views and base relations it reads.
        params: Parameters of reports and audits.
        severity: `block` or `warn` for audits, empty for the rest.
        is_deep: Whether it reads token lists.
        why: What it is for.
        columns: Column → meaning.
        sql: The SELECT, without its header.
    """

    name: str
    kind: str
    grain: str
    depends_on: tuple[str, ...]
    params: tuple[Parameter, ...]
    severity: str
    is_deep: bool
    why: str
    columns: dict[str, str]
    sql: str

    def bind(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the value of every parameter, defaults filled in.

        Raises:
            DataContractError: When a parameter is unknown or a required one is missing.
        """
        names = [parameter.name for parameter in self.params]
        unknown = sorted(set(values) - set(names))
        if unknown:
            raise DataContractError(
                f"{self.kind} {self.name} has no parameter {', '.join(unknown)}",
                hint=f"it takes {', '.join(names) or 'none'}",
            )
        missing = [p.name for p in self.params if p.is_required and p.name not in values]
        if missing:
            raise DataContractError(
                f"{self.kind} {self.name} needs {', '.join(missing)}",
                hint="; ".join(f"{p.name}: {p.meaning}" for p in self.params),
            )
        return {p.name: values.get(p.name, p.default) for p in self.params}


def read_queries(directory: Path = SQL_DIRECTORY) -> dict[str, Query]:
    """Read every query below `directory`, by name.

    Raises:
        DataContractError: When the directory is missing or a header is wrong.
    """
    if not directory.is_dir():
        raise DataContractError(
            f"the SQL directory {directory} does not exist",
            hint="run from a checkout of the project: its queries live in sql/",
        )
    queries: dict[str, Query] = {}
    for kind, folder in DIRECTORIES.items():
        for path in sorted((directory / folder).glob("*.sql")):
            query = parse_query(path.read_text(encoding="utf-8"), path)
            if query.kind != kind or query.name in queries:
                raise DataContractError(f"{path}: kind {query.kind} or name is not unique here")
            queries[query.name] = query
    return queries


def parse_query(text: str, path: Path) -> Query:
    """Parse one file: header lines first, the SELECT below them.

    Raises:
        DataContractError: When a key is missing, unknown or has a wrong value.
    """
    lines = text.splitlines()
    length = next((i for i, line in enumerate(lines) if not line.startswith("--")), len(lines))
    header = _parse_header(lines[:length], path)
    sql = "\n".join(lines[length:]).strip()
    query = Query(
        name=header.get("name", ""),
        kind=header.get("kind", ""),
        grain=header.get("grain", ""),
        depends_on=tuple(n.strip() for n in header.get("depends_on", "").split(",") if n.strip()),
        params=tuple(
            _parse_parameter(name, rest, path)
            for name, rest in _parse_entries(header.get("params", ""))
        ),
        severity=header.get("severity", ""),
        is_deep=header.get("deep", "false") == "true",
        why=header.get("why", ""),
        columns=dict(_parse_entries(header.get("columns", ""))),
        sql=sql,
    )
    _check(query, path)
    return query


def order_views(queries: Mapping[str, Query]) -> list[Query]:
    """Return the views so that each follows what it depends on.

    Raises:
        DataContractError: When views depend on each other in a circle.
    """
    views = {name: query for name, query in queries.items() if query.kind in VIEW_KINDS}
    ordered: dict[str, Query] = {}

    def visit(name: str, trail: tuple[str, ...]) -> None:
        if name in trail:
            raise DataContractError(f"views depend on each other: {' -> '.join((*trail, name))}")
        if name in ordered or name not in views:
            return
        for parent in views[name].depends_on:
            visit(parent, (*trail, name))
        ordered[name] = views[name]

    for name in views:
        visit(name, ())
    return list(ordered.values())


def closure(names: Iterable[str], queries: Mapping[str, Query]) -> set[str]:
    """Return `names` and everything they depend on, directly or through views."""
    reached: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in reached:
            reached.add(name)
            pending.extend(queries[name].depends_on if name in queries else ())
    return reached


def _parse_header(lines: list[str], path: Path) -> dict[str, str]:
    """Join each `key: value` with the deeper-indented lines below it."""
    header: dict[str, str] = {}
    key = ""
    for line in lines:
        body = line[2:]
        indent = len(body) - len(body.lstrip())
        if indent >= ENTRY_INDENT and key:
            glue = " " if indent > ENTRY_INDENT else "\n"
            header[key] = f"{header[key]}{glue}{body.strip()}".strip()
            continue
        key, separator, value = body.strip().partition(":")
        if not separator or key in header or key not in _KEYS:
            raise DataContractError(f"{path}: cannot read the header line {line!r}")
        header[key] = value.strip()
    return {k: v if k in ("params", "columns") else " ".join(v.split()) for k, v in header.items()}


_KEYS = (
    "name",
    "kind",
    "severity",
    "deep",
    "grain",
    "depends_on",
    "params",
    "why",
    "columns",
)


def _parse_entries(block: str) -> list[tuple[str, str]]:
    """Split lines of `name: text`."""
    pairs = [line.partition(":") for line in block.splitlines() if line and line != "none"]
    return [(name.strip(), text.strip()) for name, _, text in pairs]


def _parse_parameter(name: str, text: str, path: Path) -> Parameter:
    """Parse `type = default; meaning`; without a default the parameter is required."""
    declaration, _, meaning = text.partition(";")
    kind, separator, literal = declaration.partition("=")
    default = _parse_literal(literal.strip(), path) if separator else _NOTHING
    return Parameter(
        name=name,
        type=kind.strip(),
        default=None if default is _NOTHING else default,
        is_required=default is _NOTHING,
        meaning=meaning.strip(),
    )


def _parse_literal(text: str, path: Path) -> Any:
    """A SQL literal as a Python value: null, true, false, a number or a quoted string."""
    words = {"null": None, "true": True, "false": False}
    if text in words:
        return words[text]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError) as error:
        raise DataContractError(f"{path}: {text!r} is not a literal") from error


def _check(query: Query, path: Path) -> None:
    """Refuse headers that the warehouse could not use."""
    problems = {
        f"name must be {path.stem}": query.name != path.stem,
        f"kind must be one of {', '.join(DIRECTORIES)}": query.kind not in DIRECTORIES,
        "grain is missing": not query.grain,
        "the SELECT is missing": not query.sql,
        "views take no params": query.kind in VIEW_KINDS and bool(query.params),
        "audits need severity block or warn and a why": query.kind == "audit"
        and (query.severity not in SEVERITIES or not query.why),
    }
    found = [problem for problem, is_wrong in problems.items() if is_wrong]
    if found:
        raise DataContractError(f"{path}: {'; '.join(found)}")
