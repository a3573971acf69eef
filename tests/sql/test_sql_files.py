"""Every file of sql/ is one SELECT that says truly what it reads, takes and returns."""

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from lake_fixture import LakeFixture, make_lake

from grpo_core.store.catalog import Catalog
from grpo_core.store.queries import Query, read_queries
from grpo_core.store.relations import CATALOG_TABLES, REGRADED_TABLES, base_files
from grpo_core.store.schemas import TABLES
from grpo_core.store.warehouse import Warehouse

EMPTY = Catalog((), (), (), {})
QUERIES = read_queries()
BASES = {*CATALOG_TABLES, *REGRADED_TABLES, *base_files(EMPTY)}
REPORTS = [name for name, query in QUERIES.items() if query.kind == "report"]
PROVENANCE = ["artifact_key", "artifact_content", "is_current"]


@pytest.fixture(params=QUERIES)
def query(request: pytest.FixtureRequest) -> Query:
    return QUERIES[request.param]


def test_file_is_one_select_with_the_declared_parameters(query: Query) -> None:
    (statement,) = duckdb.extract_statements(query.sql)
    assert statement.type == duckdb.StatementType.SELECT
    assert statement.named_parameters == {parameter.name for parameter in query.params}


def test_depends_on_names_what_is_read(query: Query) -> None:
    words = set(re.findall(r"\b(?:from|join)\s+(\w+)", query.sql))
    known = BASES | set(QUERIES)
    own = set(re.findall(r"^(\w+) as \(", query.sql, re.MULTILINE))
    assert set(query.depends_on) == (words & known) - own


@pytest.fixture(scope="module")
def empty() -> Iterator[Warehouse]:
    with Warehouse(EMPTY) as warehouse:
        yield warehouse


def test_header_names_the_columns(query: Query, empty: Warehouse) -> None:
    if query.kind in ("report", "regrade"):
        values = {p.name: "x" for p in query.params if p.is_required}
        columns = list(empty._run_named(query.kind, query.name, values).columns)
    elif query.kind == "audit":
        bound = {p.name: p.default for p in query.params}
        columns = list(empty._execute(query.sql, query.depends_on, bound).columns)
    else:
        columns = list(empty.query(f"select * from {query.name}").columns)
    assert len(set(columns)) == len(columns)
    documented = list(query.columns)
    if documented and documented[-1] == "…":
        documented = [*documented[:-1], *columns[len(documented) - 1 :]]
    assert columns == documented


@pytest.mark.parametrize("table", TABLES)
def test_staging_view_has_every_column_of_its_table(table: str) -> None:
    assert list(QUERIES[table].columns) == [*TABLES[table].schema.names, *PROVENANCE]


@pytest.mark.parametrize("table", ["rollouts", "steps", "events"])
def test_live_view_has_every_column_of_its_table(table: str) -> None:
    assert list(QUERIES[f"live_{table}"].columns) == [*TABLES[table].schema.names, "unit_file"]


@pytest.mark.parametrize("name", REPORTS)
def test_report_states_its_order(name: str) -> None:
    assert re.search(r"^order by", QUERIES[name].sql, re.MULTILINE)


@pytest.mark.parametrize("name", [n for n, q in QUERIES.items() if q.kind == "audit"])
def test_audit_states_its_order(name: str) -> None:
    assert re.search(r"^order by", QUERIES[name].sql, re.MULTILINE)


def test_divisions_have_a_guarded_or_counted_denominator() -> None:
    """`x / 0` is infinite in DuckDB 2 and null in 1: a denominator is guarded."""
    allowed = r"nullif|greatest|sqrt|count\(|10|sum\(count|i::double|n\b"
    for name, query in QUERIES.items():
        for divisor in re.findall(r"[\w)] ?/ (\S+)|^\s*/ (\S+)", query.sql, re.MULTILINE):
            assert re.match(allowed, "".join(divisor)), f"{name}: / {''.join(divisor)}"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> tuple[LakeFixture, Catalog]:
    fixture = make_lake()
    return fixture, fixture.write(tmp_path_factory.mktemp("lake"))


@pytest.mark.parametrize("name", REPORTS)
def test_report_has_rows_for_a_run_and_none_for_another(
    name: str, lake: tuple[LakeFixture, Catalog]
) -> None:
    fixture, catalog = lake
    values = {"prompt_id": fixture.rows("samples", "samples")[0]["prompt_id"]}
    own = {p.name: values[p.name] for p in QUERIES[name].params if p.is_required}
    with Warehouse(catalog) as warehouse:
        assert warehouse.run_report(name, own).dicts()
        assert warehouse.run_report(name, own | {"run": "tiny"}).dicts()
        assert warehouse.run_report(name, own | {"run": "other"}).dicts() == []


@pytest.mark.parametrize("view", [n for n, q in QUERIES.items() if q.kind == "mart"])
def test_figures_never_read_token_lists(view: str, lake: tuple[LakeFixture, Catalog]) -> None:
    with Warehouse(lake[1]) as warehouse:
        warehouse.query(f"select count(*) from {view}").dicts()
        numbers = [
            name
            for name, kind in warehouse._column_types()[view].items()
            if kind not in ("VARCHAR", "VARCHAR[]")
        ]
        plan = warehouse._connection.execute(
            f"explain select {', '.join(numbers)} from {view}"
        ).fetchall()[0][1]
    assert "token_ids" not in plan
    assert "logprobs" not in plan


def test_sql_readme_names_every_kind() -> None:
    text = (Path(__file__).parents[2] / "sql" / "README.md").read_text(encoding="utf-8")
    for folder in ("staging", "runs", "marts", "reports", "audits", "regrade"):
        assert f"{folder}/" in text


def test_metrics_page_explains_every_column_of_steps() -> None:
    text = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    assert explained == set(TABLES["steps"].schema.names)


@pytest.mark.parametrize("page", ["docs/metrics.md", "sql/README.md"])
def test_queries_in_pages_run(page: str, lake: tuple[LakeFixture, Catalog]) -> None:
    text = (Path(__file__).parents[2] / page).read_text(encoding="utf-8")
    blocks = [b for b in re.findall(r"```sql\n(.+?)```", text, re.DOTALL) if b[:2] != "--"]
    queries = [query for block in blocks for query in block.split(";") if query.strip()]
    assert queries
    with Warehouse(lake[1]) as warehouse:
        for query in queries:
            assert warehouse.query(query).dicts()
