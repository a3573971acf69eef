"""The flow's face to Prefect; what it does is tested end to end."""

import logging
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.context import FlowRunContext
from prefect.utilities.names import generate_slug
from prefect.utilities.schema_tools.validation import ValidationError, validate

from flows.deployments import make_deployments
from flows.logs import calm_expected_errors
from flows.pipeline import _is_scheduled, flow_run_title, grpo, run_title
from grpo_core.config import preset_names
from grpo_core.errors import StageInputError
from grpo_core.types import StageName

SCHEMA = grpo.parameters.model_dump()


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"preset": "tiny", "run": "demo-1", "stages": ["train"], "force": ["train"]},
        {"overrides": ["train.group_size=16", "prompt.system=", "seed=3"]},
        {"overrides": ["train.phases.0.max_steps=4"], "config_file": "/x/y.toml"},
    ],
)
def test_good_parameters_pass(parameters: dict[str, Any]) -> None:
    validate(parameters, SCHEMA, raise_on_error=True)


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"preset": "tinny"}, "preset"),
        ({"run": "a/b"}, "run"),
        ({"run": "x" * 65}, "run"),
        ({"stages": []}, "stages"),
        ({"stages": ["ingest", "ingest"]}, "stages"),
        ({"stages": ["reflogp"]}, r"stages\[0\]"),
        ({"overrides": ["train.group_size"]}, r"overrides\[0\]"),
        ({"overrides": ["seed=1", "optimizer.lr=1"]}, r"overrides\[1\]"),
        ({"force": "train"}, "force"),
    ],
)
def test_bad_parameters_are_refused_by_name(parameters: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError, match=f"for field '{field}'"):
        validate(parameters, SCHEMA, raise_on_error=True)


def test_the_form_explains_every_parameter() -> None:
    for name, field in SCHEMA["properties"].items():
        assert field.get("description"), name
    assert SCHEMA["properties"]["preset"]["enum"] == preset_names()


def test_one_deployment_for_all_and_one_a_stage() -> None:
    deployments = {deployment.name: deployment for deployment in make_deployments()}
    assert set(deployments) == {"full", *(stage.value for stage in StageName)}
    assert deployments["full"].parameters["stages"] == [stage.value for stage in StageName]
    for stage in StageName:
        assert deployments[stage.value].parameters == {"stages": [stage.value]}
        assert deployments[stage.value].description
    assert {d.entrypoint for d in deployments.values()} == {"flows.pipeline.grpo"}


def test_the_work_pool_file_has_the_same_deployments() -> None:
    import yaml

    path = Path(__file__).resolve().parents[2] / "prefect.yaml"
    listed = yaml.safe_load(path.read_text(encoding="utf-8"))["deployments"]
    served = {d.name: d.parameters for d in make_deployments()}
    assert {item["name"]: item["parameters"] for item in listed} == served


@pytest.mark.parametrize(
    ("name", "parameters", "title"),
    [
        pytest.param(generate_slug(2), {"run": "demo"}, "demo full", id="made by Prefect now"),
        ("fluffy-otter", {}, "tiny full"),
        ("fluffy-otter", {"run": "demo", "stages": ["train"]}, "demo train"),
        ("fluffy-otter", {"stages": ["train", "evaluate"]}, "tiny train+evaluate"),
        ("epsilon5-morgulduin-reach", {"run": "demo"}, "demo full"),
        ("exp 7", {"run": "demo"}, "exp 7"),
        ("first-try", {"run": "demo"}, "first-try"),
    ],
)
def test_runs_have_readable_names(
    monkeypatch: pytest.MonkeyPatch, name: str, parameters: dict[str, Any], title: str
) -> None:
    class FakeRuntime:
        def __init__(self) -> None:
            self.name, self.parameters = name, parameters

    monkeypatch.setattr("flows.pipeline.flow_run", FakeRuntime())
    assert flow_run_title() == title
    assert run_title("demo", tuple(StageName)) == "demo full"


@pytest.mark.parametrize(
    ("key", "is_scheduled"),
    [
        (None, False),
        ("5e8f1f6e-3f0c-4f55-8f3e-0b1f9e6d5a52", False),
        ("scheduled 5e8f1f6e-3f0c-4f55-8f3e-0b1f9e6d5a52 2026-01-01 03:00:00+00:00", True),
    ],
)
def test_a_copy_of_a_scheduled_run_is_no_scheduled_one(
    monkeypatch: pytest.MonkeyPatch, key: str | None, is_scheduled: bool
) -> None:
    made = FlowRun(flow_id=uuid4(), tags=["auto-scheduled"], idempotency_key=key)
    context = FlowRunContext.model_construct(flow_run=made)
    monkeypatch.setattr(FlowRunContext, "get", lambda: context)
    assert _is_scheduled() is is_scheduled


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (StageInputError("no bands", hint="run prefilter"), "no bands\nhint: run prefilter"),
        (None, "Engine execution exited"),
    ],
)
def test_expected_errors_are_logged_without_a_traceback(error: Exception | None, text: str) -> None:
    assert _filtered(error).getMessage() == text
    assert _filtered(error).exc_info is None


def test_a_bug_keeps_its_traceback() -> None:
    record = _filtered(ZeroDivisionError("bug"))
    assert record.getMessage() == "Engine execution exited"
    assert record.exc_info is not None


def _filtered(error: Exception | None) -> logging.LogRecord:
    calm_expected_errors()
    logger = logging.getLogger("prefect.flow_runs")
    info = (type(error), error, None) if error else (None, None, None)
    message = "Engine execution exited"
    record = logger.makeRecord(logger.name, logging.ERROR, __file__, 1, message, (), info)
    assert logger.filter(record)
    return record
