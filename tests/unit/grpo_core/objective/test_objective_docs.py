"""docs/methods.md names every option and every metric of the objective."""

from pathlib import Path

import pytest

from grpo_core.objective import LossConfig, finalize_metrics, policy_loss
from grpo_core.objective.config import AdvantageConfig, KlBudgetConfig, KlConfig, MaskConfig
from grpo_core.objective.generated import generate_step
from grpo_core.objective.presets import PRESETS

METHODS = (Path(__file__).parents[4] / "docs" / "methods.md").read_text()


@pytest.mark.parametrize(
    "section", [AdvantageConfig, LossConfig, MaskConfig, KlConfig, KlBudgetConfig]
)
def test_every_option_is_explained(section):
    words = METHODS.replace("`budget.nats`", "`budget` `nats`")
    missing = [name for name in section.model_fields if f"`{name}" not in words]
    missing = [name for name in missing if f".{name}`" not in words]
    assert missing == []


@pytest.mark.parametrize("method", PRESETS)
def test_every_method_has_its_source(method):
    paper = PRESETS[method].source.split("arXiv ")[1][:10]
    line = next(row for row in METHODS.splitlines() if row.startswith(f"| `{method}`"))
    assert paper in line or line.split("|")[2].startswith(" the same")


def test_every_metric_is_explained():
    needs = ("ref_logprobs", "sampling_logprobs", "entropy")
    step = generate_step(0)
    output = policy_loss(step.batch(step.totals, needs=needs), LossConfig())
    names = finalize_metrics(output.metrics, step.totals)
    assert [name for name in names if f"`{name}`" not in METHODS] == []
