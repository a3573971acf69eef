"""fp32 master weights of a policy whose own weights are coarser (Micikevicius et al. 2018).

A bf16 weight has 8 significant bits, so an update below 1/512 of it is rounded away, and at the
learning rates of post-training nearly all are. The optimiser therefore moves an fp32 copy, and the
policy gets its rounding. Weights that are fp32 already are their own masters.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch.nn import Parameter


def master_weights(model: Any) -> list[Parameter]:
    """The fp32 weights that an optimiser of `model` moves, one for each trainable parameter.

    A gradient of a coarser parameter is added to its master's, in fp32, as soon as a backward pass
    has made it, and freed.
    """
    return [_master(p) for p in model.parameters() if p.requires_grad]


def publish_after_steps(optimizer: torch.optim.Optimizer, model: Any) -> None:
    """Let the policy take over its masters' rounding after each step of `optimizer`."""
    coarse = [(p, m) for p, m in _pairs(optimizer, model) if p is not m]

    @torch.no_grad()
    def publish(*_: Any) -> None:
        for parameter, master in coarse:
            parameter.copy_(master)

    if coarse:
        optimizer.register_step_post_hook(publish)


def has_master(optimizer: torch.optim.Optimizer, model: Any) -> list[bool]:
    """For each of the optimiser's parameters, whether it is a master beside the policy's own."""
    return [parameter is not master for parameter, master in _pairs(optimizer, model)]


def optimized(optimizer: torch.optim.Optimizer) -> list[Parameter]:
    """What the optimiser moves, in its order."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _pairs(optimizer: torch.optim.Optimizer, model: Any) -> Iterable[tuple[Parameter, Parameter]]:
    trainable = [p for p in model.parameters() if p.requires_grad]
    return zip(trainable, optimized(optimizer), strict=True)


def _master(parameter: Parameter) -> Parameter:
    if parameter.dtype == torch.float32:
        return parameter
    master = Parameter(parameter.detach().float())

    def hand_over(made: torch.Tensor) -> None:
        if made.grad is None:
            return
        if master.grad is None:
            master.grad = made.grad.float()
        else:
            master.grad.add_(made.grad)
        made.grad = None

    parameter.register_post_accumulate_grad_hook(hand_over)  # type: ignore[no-untyped-call]
    return master
