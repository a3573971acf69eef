"""The objective: pure tensors in, tensors out; no I/O.

Names are loaded when first used, so that the configuration stays free of torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grpo_core.objective.advantages import group_advantages
    from grpo_core.objective.batch import LossBatch, LossOutput, StepTotals, step_totals
    from grpo_core.objective.config import AdvantageConfig, KlConfig, LossConfig, MaskConfig
    from grpo_core.objective.kl import kl_estimate
    from grpo_core.objective.logprobs import selective_logprobs
    from grpo_core.objective.losses import policy_loss
    from grpo_core.objective.metrics import finalize_metrics, merge_metrics
    from grpo_core.objective.presets import resolve_loss
    from grpo_core.objective.verify import verify_loss

__all__ = [
    "AdvantageConfig",
    "KlConfig",
    "LossBatch",
    "LossConfig",
    "LossOutput",
    "MaskConfig",
    "StepTotals",
    "finalize_metrics",
    "group_advantages",
    "kl_estimate",
    "merge_metrics",
    "policy_loss",
    "resolve_loss",
    "selective_logprobs",
    "step_totals",
    "verify_loss",
]

_HOMES = {
    "AdvantageConfig": "config",
    "KlConfig": "config",
    "LossBatch": "batch",
    "LossConfig": "config",
    "LossOutput": "batch",
    "MaskConfig": "config",
    "StepTotals": "batch",
    "finalize_metrics": "metrics",
    "group_advantages": "advantages",
    "kl_estimate": "kl",
    "merge_metrics": "metrics",
    "policy_loss": "losses",
    "resolve_loss": "presets",
    "selective_logprobs": "logprobs",
    "step_totals": "batch",
    "verify_loss": "verify",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
