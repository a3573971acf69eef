"""The language-model head: is it the plain product that chunked log-probs assume?

Shapes: H hidden size, V vocabulary.
"""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from grpo_core.models.modes import inference
from grpo_core.objective.logprobs import HeadSpec

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

_LOG = logging.getLogger(__name__)

_PROBE_SCALES = (1.0, 30.0)
"""Probes at the size of normalised hidden states and far beyond, where a soft-cap must show."""
_TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}
_HALF_TOLERANCE = 3e-2
"""Allowed difference relative to the largest logit; the model's own product is in its dtype."""


@dataclass(frozen=True, slots=True)
class LanguageHead:
    """Backbone and head of a model whose logits `HeadSpec` describes.

    Args:
        backbone: Maps token ids [N, S] to normalised hidden states [N, S, H].
        projection: The output embedding; weight [V, H], maybe a bias.
        scale: Factor on the product.
        softcap: Soft-cap of the logits, None when off.
    """

    backbone: nn.Module
    projection: nn.Module
    scale: float = 1.0
    softcap: float | None = None

    @property
    def weight(self) -> Tensor:
        """[V, H], the live parameter."""
        weight: Tensor = self.projection.weight  # type: ignore[assignment]
        return weight

    @property
    def spec(self) -> HeadSpec:
        """What the head does besides the product, with the live bias."""
        bias: Any = getattr(self.projection, "bias", None)
        return HeadSpec(scale=self.scale, softcap=self.softcap, bias=bias)


@dataclass(frozen=True, slots=True)
class FullLogits:
    """A head that `HeadSpec` does not describe: log-probs come from the model's own logits."""


Head = LanguageHead | FullLogits


def check_head(model: "PreTrainedModel") -> Head:
    """Return how log-probs of this model are computed, proven against its own logits.

    The backbone's output is replaced by probes, and the logits that the model makes of them are
    compared with what the chunked path would compute. When they differ the head does something
    else: then log-probs take the full logits, which needs more memory but is right, and a warning
    says so.
    """
    head = _describe(model)
    if head is not None and all(_matches(model, head, scale) for scale in _PROBE_SCALES):
        return head
    _LOG.warning(
        "%s: the head is not scale x hidden @ weight^T + bias with an optional soft-cap; "
        "log-probs are computed from full logits (more memory, same values)",
        type(model).__name__,
    )
    return FullLogits()


def _describe(model: "PreTrainedModel") -> LanguageHead | None:
    """What the config says about the head, not yet proven."""
    backbone, projection = model.get_decoder(), model.get_output_embeddings()
    if backbone is None or backbone is model or not isinstance(projection, nn.Linear):
        return None
    config = model.config.get_text_config(decoder=True)
    return LanguageHead(backbone, projection, _scale(config), _softcap(config))


def _scale(config: "PretrainedConfig") -> float:
    """Cohere multiplies by `logit_scale`, Granite divides by `logits_scaling`."""
    scale = getattr(config, "logit_scale", None)
    divisor = getattr(config, "logits_scaling", None)
    return float(scale if scale is not None else 1.0) / float(divisor or 1.0)


def _softcap(config: "PretrainedConfig") -> float | None:
    value = getattr(config, "final_logit_softcapping", None)
    return None if value is None else float(value)


def _matches(model: "PreTrainedModel", head: LanguageHead, scale: float) -> bool:
    """Does the model turn a probe into the logits that `head` describes?"""
    weight = head.weight
    generator = torch.Generator().manual_seed(0)
    probe = torch.randn(2, 3, weight.shape[1], generator=generator) * scale
    probe = probe.to(device=weight.device, dtype=weight.dtype)

    def replace_hidden(_module: nn.Module, _inputs: Any, output: Any) -> Any:
        if hasattr(output, "last_hidden_state"):
            output.last_hidden_state = probe
        return output

    hook = head.backbone.register_forward_hook(replace_hidden)
    try:
        with inference(model):
            ids = torch.zeros(2, 3, dtype=torch.long, device=weight.device)
            got = model(ids, use_cache=False).logits.float()
            want = logits_of(probe, head)
    finally:
        hook.remove()
    tolerance = _TOLERANCE.get(weight.dtype, _HALF_TOLERANCE)
    return got.shape == want.shape and bool(
        (got - want).abs().max() <= tolerance * want.abs().max().clamp(min=1.0)
    )


def logits_of(hidden: Tensor, head: LanguageHead) -> Tensor:
    """The logits [..., V] fp32 that `head` describes, from hidden states [..., H]."""
    spec = head.spec
    logits = hidden.float() @ head.weight.float().T * spec.scale
    if spec.bias is not None:
        logits = logits + spec.bias.float()
    return logits if spec.softcap is None else spec.softcap * torch.tanh(logits / spec.softcap)
