"""`grpo verify-loss` runs the user's own loss and fails when it is not what it claims."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from flows.cli import app
from grpo_core.objective import losses, masks


def verify(*words: str) -> Result:
    return CliRunner().invoke(app, ["verify-loss", *words], catch_exceptions=False)


def test_a_sound_loss_passes_and_shows_errors_weights_and_findings() -> None:
    done = verify("--set", "loss.method=grpo")
    assert done.exit_code == 0
    for text in ("sequence_mean", "two ranks", "weight of a token", "k3 as a loss", "agrees with"):
        assert text in done.output


def test_the_users_own_file_decides(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('[loss]\nmethod = "cispo"\nratio_cap = 0.2\n', encoding="utf-8")
    record = json.loads(verify("--config", str(file), "--format", "json").output)
    assert record["passed"] is True
    assert record["max_loss_error"] < 1e-5
    assert record["max_gradient_error"] < 1e-5
    assert record["options"]["loss.ratio_cap"] == 0.2
    assert "cispo_cap_below_one" in [finding["code"] for finding in record["findings"]]
    assert {case["arrangement"] for case in record["cases"]} >= {"whole step", "two ranks"}


def test_the_configured_masks_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ("--set", 'mask.template_spans=["The answer is"]')
    done = verify(*settings)
    assert done.exit_code == 0
    assert "mask.template_spans" in done.output
    assert "; 0 differ from their definition" in done.output
    right = masks.template_span_mask
    monkeypatch.setattr(masks, "template_span_mask", lambda *args: ~right(*args))
    wrong = verify(*settings, "--format", "json")
    assert wrong.exit_code == 1
    assert json.loads(wrong.output)["masks"]["wrong"] > 0


def test_a_broken_loss_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    right = losses.surrogate_loss
    monkeypatch.setattr(losses, "surrogate_loss", lambda *args: -right(*args))
    done = verify()
    assert done.exit_code == 1
    assert "DISAGREES" in done.output


def test_a_loss_that_is_no_number_fails_and_is_null_in_json(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = losses.surrogate_loss
    monkeypatch.setattr(losses, "surrogate_loss", lambda *args: right(*args) * float("nan"))
    done = verify("--format", "json")
    assert done.exit_code == 1
    record = json.loads(done.output, parse_constant=pytest.fail)
    assert record["passed"] is False
    assert record["max_gradient_error"] is None
