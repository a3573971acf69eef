"""Headers of SQL files: what is read, and what is refused."""

from pathlib import Path

import pytest

from grpo_core.errors import DataContractError
from grpo_core.store.queries import Query, closure, order_views, parse_query, read_queries

HEADER = """\
-- name: assert_x
-- kind: audit
-- severity: warn
-- deep: true
-- grain: one row
-- depends_on: rollouts,
--     steps
-- params:
--     limit: double = 0.5; the largest
--         allowed share
--     label: varchar = 'a b'; a text
--     name: varchar; required
--     flag: boolean = false; a switch
--     none: bigint = null; nothing
-- why: it goes
--     wrong
-- columns:
--     a: first
--     b: second; with more
select 1 as a
"""


def parse(text: str) -> Query:
    return parse_query(text, Path("sql/audits/assert_x.sql"))


def test_header_is_read() -> None:
    query = parse(HEADER)
    assert (query.name, query.kind, query.severity, query.is_deep) == (
        "assert_x",
        "audit",
        "warn",
        True,
    )
    assert query.depends_on == ("rollouts", "steps")
    assert query.why == "it goes wrong"
    assert query.columns == {"a": "first", "b": "second; with more"}
    assert query.sql == "select 1 as a"
    assert [p.default for p in query.params] == [0.5, "a b", None, False, None]
    assert [p.is_required for p in query.params] == [False, False, True, False, False]
    assert query.params[0].meaning == "the largest allowed share"


def test_parameters_are_bound() -> None:
    query = parse(HEADER)
    assert query.bind({"name": "x", "limit": 1.0})["limit"] == 1.0
    with pytest.raises(DataContractError, match="needs name"):
        query.bind({})
    with pytest.raises(DataContractError, match="no parameter nmae"):
        query.bind({"nmae": "x"})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name: assert_x", "name: assert_y", "name must be assert_x"),
        ("kind: audit", "kind: thing", "kind must be one of"),
        ("severity: warn", "severity: fatal", "severity block or warn"),
        ("-- why: it goes\n--     wrong\n", "", "and a why"),
        ("grain: one row", "grain:", "grain is missing"),
        ("select 1 as a\n", "", "SELECT is missing"),
        ("-- deep: true", "-- depth: true", "cannot read the header line"),
        ("-- deep: true", "-- kind: audit", "cannot read the header line"),
        ("= 0.5;", "= half;", "not a literal"),
    ],
)
def test_wrong_headers_are_refused(old: str, new: str, message: str) -> None:
    assert old in HEADER
    with pytest.raises(DataContractError, match=message):
        parse(HEADER.replace(old, new))


def test_views_take_no_parameters() -> None:
    text = HEADER.replace("kind: audit", "kind: mart")
    with pytest.raises(DataContractError, match="views take no params"):
        parse(text)


def view(name: str, *depends_on: str) -> Query:
    return Query(name, "mart", "one row", depends_on, (), "", False, "", {}, "select 1")


def test_views_follow_what_they_depend_on() -> None:
    queries = {q.name: q for q in (view("c", "b", "base"), view("a"), view("b", "a"))}
    assert [query.name for query in order_views(queries)] == ["a", "b", "c"]
    assert closure(["c"], queries) == {"a", "b", "c", "base"}


def test_circles_are_refused() -> None:
    queries = {q.name: q for q in (view("a", "b"), view("b", "c"), view("c", "a"))}
    with pytest.raises(DataContractError, match="a -> b -> c -> a"):
        order_views(queries)


def test_shipped_queries_are_read_and_missing_directories_named(tmp_path: Path) -> None:
    assert {query.kind for query in read_queries().values()} == {
        "staging",
        "run",
        "mart",
        "report",
        "audit",
        "regrade",
    }
    with pytest.raises(DataContractError, match="does not exist"):
        read_queries(tmp_path / "nowhere")


def test_kind_must_be_that_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "marts").mkdir()
    (tmp_path / "marts" / "assert_x.sql").write_text(HEADER, encoding="utf-8")
    with pytest.raises(DataContractError, match="kind audit"):
        read_queries(tmp_path)
