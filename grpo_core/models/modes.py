"""Switching a module between training and inference."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def inference(model: nn.Module) -> Iterator[None]:
    """Eval mode without gradient; each submodule's own mode comes back afterwards.

    `no_grad` instead of `inference_mode`: the module is the trainer's, and what it caches in a
    forward pass (rotary tables that grow with the length) must stay usable under autograd.
    """
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module in training:
            module.training = True
