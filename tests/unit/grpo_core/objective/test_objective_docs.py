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


def test_the_example_runs_and_gives_what_was_worked_out_by_hand(capsys):
    code = METHODS.split("```python\n")[1].split("```")[0]
    names = {}
    exec(compile(code, "docs/methods.md", "exec"), names)
    # Ratio e^0.1 within the bounds; advantages 1.5, -0.5, -0.5; three live rollouts.
    expected = -(2.718281828459045**0.1) * (1.5 - 0.5 - 0.5) / 3
    assert names["output"].loss.item() == pytest.approx(expected, rel=1e-5)
    assert "0.1111" in capsys.readouterr().out


def test_every_metric_is_explained():
    needs = ("ref_logprobs", "sampling_logprobs", "entropy")
    step = generate_step(0)
    output = policy_loss(step.batch(step.totals, needs=needs), LossConfig())
    names = finalize_metrics(output.metrics, step.totals)
    assert [name for name in names if f"`{name}`" not in METHODS] == []
