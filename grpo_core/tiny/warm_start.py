"""The supervised warm start: a small Llama imitates demonstrations and practises arithmetic."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from grpo_core.tiny.batches import (
    Batch,
    demonstration_batches,
    draw_demonstrations,
    drill_batches,
)
from grpo_core.tiny.demonstrations import Carelessness
from grpo_core.tiny.muon import Muon
from grpo_core.tiny.tokenizer import MAX_TOKENS, build_tokenizer

logger = logging.getLogger(__name__)

_LOG_EVERY_STEPS = 50


@dataclass(frozen=True, slots=True)
class WarmStart:
    """The recipe of the warm start.

    Attributes:
        steps: Optimiser steps.
        batch: Demonstrations in a step.
        drills: Rows of drills in a step that practises instead: every other step of the first half
            and every fourth of the second.
        muon_learning_rate: Peak for the weights of the layers.
        adamw_learning_rate: Peak for the embeddings and norms.
        warmup_steps: Steps in which the rate rises.
        decay_share: Share of the steps, at the end, in which it falls to zero.
        data_seed: Seed of the problem sets whose problems are left out.
    """

    steps: int = 2400
    batch: int = 32
    drills: int = 24
    muon_learning_rate: float = 0.02
    adamw_learning_rate: float = 4e-3
    warmup_steps: int = 50
    decay_share: float = 0.4
    max_grad_norm: float = 1.0
    data_seed: int = 0
    carelessness: Carelessness = field(default_factory=Carelessness)

    def rate(self, step: int) -> float:
        """The share of the peak learning rates at a step, counted from zero."""
        rising = (step + 1) / self.warmup_steps
        falling = (self.steps - step) / (self.decay_share * self.steps)
        return min(1.0, rising, falling)


def build_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> LlamaForCausalLM:
    """The untrained model: 3 layers, width 96, 3 heads of 32, tied embeddings."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=3,
        num_key_value_heads=3,
        head_dim=32,
        max_position_embeddings=MAX_TOKENS,
        tie_word_embeddings=True,
        initializer_range=0.05,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(
        do_sample=True,
        temperature=1.0,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    return model


def train(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, recipe: WarmStart, seed: int
) -> Iterator[float]:
    """Train in place; yields the loss of every step in nats a token."""
    matrices, others = _parameters(model)
    muon = Muon(matrices)
    adamw = torch.optim.AdamW(others, betas=(0.9, 0.98), weight_decay=0.0)
    batches = _batches(tokenizer, recipe, seed)
    model.train()
    for step, (ids, labels) in enumerate(batches):
        # Padding is on the right and carries no label, so the causal mask alone is enough.
        loss = model(input_ids=ids, labels=labels).loss
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.max_grad_norm)
        share = recipe.rate(step)
        adamw.param_groups[0]["lr"] = share * recipe.adamw_learning_rate
        muon.step(share * recipe.muon_learning_rate)
        adamw.step()
        yield loss.item()


def _batches(tokenizer: PreTrainedTokenizerFast, recipe: WarmStart, seed: int) -> Iterator[Batch]:
    """The batch of every step: arithmetic first, then more and more stories."""
    shown = draw_demonstrations(recipe.carelessness, seed, data_seed=recipe.data_seed)
    demonstrations = demonstration_batches(tokenizer, shown, recipe.batch)
    drills = drill_batches(tokenizer, seed, recipe.drills)
    for step in range(recipe.steps):
        period = 2 if 2 * step < recipe.steps else 4
        yield next(drills if step % period == 1 else demonstrations)


def _parameters(
    model: LlamaForCausalLM,
) -> tuple[list[torch.nn.Parameter], list[torch.nn.Parameter]]:
    """The weights of the layers, which Muon trains, and the embeddings and norms."""
    matrices: list[torch.nn.Parameter] = []
    others: list[torch.nn.Parameter] = []
    for name, parameter in model.named_parameters():
        (others if parameter.ndim < 2 or "embed" in name else matrices).append(parameter)
    return matrices, others


def write_model(directory: Path, recipe: WarmStart, seed: int) -> float:
    """Train a model and save it with its tokenizer; the mean loss of the last steps."""
    tokenizer = build_tokenizer()
    model = build_model(tokenizer, seed)
    losses: list[float] = []
    for step, loss in enumerate(train(model, tokenizer, recipe, seed), start=1):
        losses.append(loss)
        if step % _LOG_EVERY_STEPS == 0:
            recent = losses[-_LOG_EVERY_STEPS:]
            logger.info("step %d of %d: loss %.4f", step, recipe.steps, sum(recent) / len(recent))
    model.eval()
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    recent = losses[-_LOG_EVERY_STEPS:]
    return sum(recent) / len(recent)
