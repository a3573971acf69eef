"""What the UI is given: result tables as rows, alerts and completions as events."""

from pathlib import Path
from typing import Any

import pytest

from flows import alerts
from flows.result_tables import (
    audit_rows,
    band_rows,
    pass_rows,
    report_text,
    tables_after,
    waste_rows,
)
from flows.sentences import sentence
from grpo_core.errors import AuditFailedError, ConfigError, NonFiniteError, StalledError
from grpo_core.reporting.pass_lines import PassLine
from grpo_core.reporting.summary import BandLine, RunSummary, StageLine, WasteLine
from grpo_core.store.results import AuditResult
from grpo_core.types import StageName

PASS = PassLine(1, "phase 1", 4, 8, 0, 0.51234, 0.4, 0.6, 0.1, 0.05, 0.15)


def _summary(**parts: Any) -> RunSummary:
    empty: dict[str, Any] = {"stages": (), "bands": (), "pass_at_k": (), "waste": ()}
    return RunSummary(run="demo", report=None, **(empty | parts))


def test_bands_have_a_row_a_measurement_and_a_column_a_band() -> None:
    lines = [BandLine(0, "hard", 3, 0.1), BandLine(1, "hard", 1, 0.1), BandLine(1, "easy", 2, 0.8)]
    rows = band_rows(lines)
    assert [row["measured"] for row in rows] == ["prefilter", "after phase 1"]
    assert [(row["hard"], row["easy"], row["solved"]) for row in rows] == [(3, 0, 0), (1, 2, 0)]


def test_pass_at_k_carries_interval_and_paired_gain() -> None:
    (row,) = pass_rows([PASS])
    assert row["pass@k"] == 0.5123
    assert row["interval"] == "0.400 to 0.600"
    assert row["gain over base"] == "+0.100 (+0.050 to +0.150)"


def test_each_stage_brings_its_own_tables_up_to_date() -> None:
    band, waste = BandLine(0, "hard", 3, 0.1), WasteLine(1, "none", 8, 100, 1.0)
    summary = _summary(bands=(band,), waste=(waste,), pass_at_k=(PASS,))
    assert set(tables_after(StageName.PREFILTER, summary)) == {"bands"}
    assert set(tables_after(StageName.TRAIN, summary)) == {"bands", "waste"}
    assert set(tables_after(StageName.EVALUATE, summary)) == {"pass-at-k"}
    assert tables_after(StageName.EVALUATE, _summary()) == {}


def test_waste_reads_as_on_the_console() -> None:
    lines = [WasteLine(1, "none", 8, 100, 0.8), WasteLine(1, "zero_variance", 2, 25, 0.2)]
    first, second = waste_rows(lines)
    assert first == {"phase": 1, "rollouts": "carry loss", "number": 8, "tokens": 100, "share": 0.8}
    assert second["rollouts"] == "zero_variance"


def test_audits_that_found_rows_come_first() -> None:
    results = [AuditResult(name, "warn", n, "", (), "") for name, n in (("quiet", 0), ("loud", 7))]
    assert [row["audit"] for row in audit_rows(results)] == ["loud", "quiet"]


def test_the_report_artefact_names_file_and_states(tmp_path: Path) -> None:
    stages = (StageLine("ingest", "prompts", "Reused", 0.0, 0),)
    text = report_text(_summary(stages=stages), tmp_path / "report.html")
    assert f"[{tmp_path}/report.html](file://{tmp_path}/report.html)" in text
    assert "| ingest | Reused | 0.0 | 0 |" in text


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, Any]]:
    events: list[tuple[str, str, Any]] = []

    def emit(event: str, resource: dict[str, str], payload: Any = None) -> None:
        events.append((event, resource["prefect.resource.id"], payload))

    monkeypatch.setattr(alerts, "emit_event", emit)
    return events


def test_an_alert_becomes_an_event_and_a_sentence(emitted: list[tuple[str, str, Any]]) -> None:
    event = {"event": "alert", "label": "train/2", "kind": "entropy", "step": 7}
    event |= {"value": 0.01234, "threshold": 0.02, "left_out": 0}
    alerts.emit_alert("demo", event)
    assert emitted[0][:2] == ("grpo.alert.entropy", "grpo.run.demo")
    assert emitted[0][2]["step"] == 7
    assert sentence(event) == "train/2: ALERT at step 7: entropy 0.01234, bound 0.02"


def test_only_errors_that_somebody_should_look_at_are_alerts(
    emitted: list[tuple[str, str, Any]],
) -> None:
    for error in (NonFiniteError("nan"), AuditFailedError("rows"), StalledError("hangs")):
        alerts.emit_fatal("demo", error)
    alerts.emit_fatal("demo", ConfigError("typo"))
    names = [event.removeprefix("grpo.alert.") for event, _, _ in emitted]
    assert names == ["non-finite", "audit-failed", "stalled"]
