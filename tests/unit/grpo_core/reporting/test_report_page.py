"""The report needs nothing but itself, escapes what models wrote, and says what lacks."""

import copy
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from lake_fixture import LakeFixture, make_lake

from grpo_core.errors import DataContractError
from grpo_core.reporting.report import render_report, write_report
from grpo_core.store.queries import read_queries
from grpo_core.store.results import AuditResult
from grpo_core.store.warehouse import Warehouse

VOID = {"meta", "br"}
HOSTILE = '<script>alert("x")</script><img src=x onerror=y> & \u202e'


class _Balance(HTMLParser):
    """Collects tags and refuses unbalanced ones."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parse(text: str) -> _Balance:
    parser = _Balance()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> LakeFixture:
    fixture = make_lake()
    fixture.write(tmp_path_factory.mktemp("lake"))
    return fixture


@pytest.fixture(scope="module")
def page(lake: LakeFixture, tmp_path_factory: pytest.TempPathFactory) -> str:
    catalog = lake.write(tmp_path_factory.mktemp("again"), like=lake)
    with Warehouse(catalog) as warehouse:
        return render_report(warehouse, "tiny", config={"train": {"group_size": 4}})


def test_page_is_self_contained(page: str) -> None:
    parser = parse(page)
    assert not parser.tags & {"script", "link", "img", "iframe", "object", "embed"}
    assert not {name for name, _ in parser.attributes if name.startswith("on") or name == "src"}
    assert {v[0] for name, v in parser.attributes if name == "href" and v} == {"#"}
    assert not re.search(r"https?://|@import|url\(", page)


def test_page_has_every_section_and_plot(page: str) -> None:
    anchors = set(re.findall(r'<section id="(\w+)"', page))
    links = set(re.findall(r'href="#(\w+)"', page))
    assert anchors == links
    assert anchors >= {"pass", "training", "bands", "lengths", "costs", "audits", "examples"}
    titles = re.findall(r'role="img" aria-label="([^"]+)"', page)
    assert len(titles) >= 12
    assert page.count("<figcaption>") == len(titles)
    assert "group_size" in page


def test_page_shows_intervals_gain_and_audits(page: str) -> None:
    assert re.search(r"\d\.\d{3} \[\d\.\d{3}, \d\.\d{3}\]", page)
    audits = [query for query in read_queries().values() if query.kind == "audit"]
    assert f"{sum(not audit.is_deep for audit in audits)} passed" in page


def test_texts_of_models_and_data_are_escaped(lake: LakeFixture, tmp_path: Path) -> None:
    hostile = copy.deepcopy(lake)
    for row in hostile.rows("samples", "samples"):
        row["text"] = HOSTILE
    for row in hostile.rows("prompts", "prompts"):
        row["text"] = HOSTILE + str(row["row_number"])
        row["gold"] = HOSTILE
    for row in hostile.all_rows("events"):
        row["reason"] = HOSTILE
    for row in hostile.all_rows("rollouts"):
        row["drop_reason"] = row["drop_reason"] and HOSTILE
    for row in hostile.all_rows("verdicts"):
        row["extracted"] = HOSTILE
    finding = AuditResult("assert_x", "block", 1, HOSTILE, ({"text": HOSTILE},), HOSTILE)
    with Warehouse(hostile.write(tmp_path, like=lake)) as warehouse:
        text = render_report(warehouse, "tiny", config={"a": HOSTILE}, audits=[finding])
    assert not parse(text).tags & {"script", "img"}
    assert "&lt;script&gt;" in text


def test_report_of_a_run_that_has_only_begun(lake: LakeFixture, tmp_path: Path) -> None:
    begun = LakeFixture(nodes={"prompts": copy.deepcopy(lake.nodes["prompts"])})
    with Warehouse(begun.write(tmp_path)) as warehouse:
        text = render_report(warehouse, "tiny")
    parse(text)
    assert "No checkpoint has been evaluated yet." in text
    assert "No training step yet." in text


def test_one_problem_proves_nothing(tmp_path: Path) -> None:
    single = make_lake(num_train=8, num_test=1, batches_per_phase=1)
    with Warehouse(single.write(tmp_path)) as warehouse:
        assert "not distinguishable from 0" in render_report(warehouse, "tiny", audits=[])


def test_nan_in_a_curve_is_a_gap_and_a_word(lake: LakeFixture, tmp_path: Path) -> None:
    broken = copy.deepcopy(lake)
    broken.rows("train/1", "steps")[1]["grad_norm"] = float("nan")
    with Warehouse(broken.write(tmp_path, like=lake)) as warehouse:
        text = render_report(warehouse, "tiny", audits=[])
    assert "NaN" in text
    assert not re.search(r' (?:[xyd]|cx|cy|y1|y2)="[^"]*nan', text)


def test_write_report_replaces_the_file(lake: LakeFixture, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old", encoding="utf-8")
    with Warehouse(lake.write(tmp_path / "lake", like=lake)) as warehouse:
        write_report(warehouse, "tiny", path, audits=[])
        with pytest.raises(DataContractError, match="no run is named 'nope'"):
            write_report(warehouse, "nope", path)
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert {item.name for item in tmp_path.iterdir()} <= {"report.html", "lake"}
