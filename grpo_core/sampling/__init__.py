"""Samplers: one protocol; `hf` shares the trainer's module and needs nothing else."""

from grpo_core.sampling.hf import HfSampler
from grpo_core.sampling.protocol import Sampler

__all__ = ["HfSampler", "Sampler"]
