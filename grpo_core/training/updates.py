"""Optimiser steps on one rollout batch.

The loss is normalised over the whole step, so micro-batches add up to the same gradient however the
step is split.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from grpo_core.config import RunConfig
from grpo_core.errors import NonFiniteError
from grpo_core.models.head import Head
from grpo_core.models.scoring import collate, completion_logprobs
from grpo_core.objective.batch import LossBatch, StepTotals, step_totals
from grpo_core.objective.losses import policy_loss
from grpo_core.objective.metrics import Metrics, finalize_metrics, merge_metrics
from grpo_core.objective.presets import ResolvedLoss
from grpo_core.training.masters import master_weights, optimized, publish_after_steps
from grpo_core.training.tensors import TrainRow, kl_weights, pad, row_masks

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """One optimiser step.

    Args:
        metrics: Finished metrics of the objective.
        grad_norm: Global norm before clipping; None when no step was taken.
        learning_rate: Used in the step.
        is_empty: No live token, so no step was taken.
    """

    metrics: dict[str, float]
    grad_norm: float | None
    learning_rate: float
    is_empty: bool


@dataclass
class Updater:
    """Takes optimiser steps on one policy.

    Args:
        model: The policy; updated in place.
        optimizer: AdamW over its parameters, or over their fp32 masters; see `masters`.
        config: The resolved configuration.
        loss: The resolved loss.
        head: How the model's logits are made.
        device: Where the model lies.

    `micro_batch_rows` starts at the configured size and is halved when memory does not suffice.
    """

    model: Any
    optimizer: torch.optim.Optimizer
    config: RunConfig
    loss: ResolvedLoss
    head: Head
    device: torch.device

    def __post_init__(self) -> None:
        self.micro_batch_rows = self.config.execution.micro_batch_rows

    def step(
        self,
        rows: Sequence[TrainRow],
        *,
        step: int,
        beta: float,
        sampled_rollouts: int,
        generated_tokens: int,
    ) -> UpdateResult:
        """One optimiser step on a mini-batch of whole groups.

        Args:
            rows: Live rows of the mini-batch.
            step: Number of the step in the run, from 1.
            beta: KL coefficient.
            sampled_rollouts: Rollouts of the mini-batch, dropped ones included.
            generated_tokens: Their tokens.

        Raises:
            NonFiniteError: The loss or the gradient is NaN or infinite; nothing was changed.
        """
        learning_rate = scheduled_learning_rate(self.config, step)
        masks = row_masks(rows, self.config).completion_mask if rows else torch.zeros(0, 0).bool()
        totals = step_totals(
            masks,
            group_index=torch.tensor([row.group for row in rows], dtype=torch.int64),
            generated_tokens=generated_tokens,
            sampled_rollouts=sampled_rollouts,
        )
        if totals.live_tokens == 0:
            return UpdateResult({}, None, learning_rate, is_empty=True)
        parts = self._accumulate(rows, totals, beta)
        metrics = finalize_metrics(merge_metrics(parts), totals)
        grad_norm = self._clip_gradient(step, metrics["loss"])
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.step()
        return UpdateResult(metrics, grad_norm, learning_rate, is_empty=False)

    def _accumulate(
        self, rows: Sequence[TrainRow], totals: StepTotals, beta: float
    ) -> list[Metrics]:
        """Gradient of the whole step; out of memory starts it again in halved micro-batches.

        The loss is normalised over the step, so the split moves only rounding.
        """
        while True:
            size = self.micro_batch_rows
            self.drop_gradients()
            try:
                return [
                    self._backward(rows[start : start + size], totals, beta)
                    for start in range(0, len(rows), size)
                ]
            except torch.OutOfMemoryError as error:
                if size == 1:
                    raise
                logger.warning("out of memory with micro-batches of %d rows: %s", size, error)
            # Outside of the handler, whose traceback keeps the failed pass's tensors alive.
            self.micro_batch_rows = max(1, min(size, len(rows)) // 2)
            torch.cuda.empty_cache()

    def _backward(self, rows: Sequence[TrainRow], totals: StepTotals, beta: float) -> Metrics:
        batch = self._loss_batch(rows, totals)
        output = policy_loss(batch, self.loss, kl=self.config.kl, beta=beta)
        output.loss.backward()  # type: ignore[no-untyped-call]
        return output.metrics

    def _loss_batch(self, rows: Sequence[TrainRow], totals: StepTotals) -> LossBatch:
        masks = row_masks(rows, self.config)
        tokens = collate(
            [(row.prompt_token_ids, row.completion_token_ids) for row in rows],
            [row.temperature for row in rows],
            self.device,
        )
        scored = completion_logprobs(
            self.model,
            tokens,
            head=self.head,
            chunk_tokens=self.config.execution.logits_chunk_tokens,
        )
        weights = kl_weights(rows, masks, self.config)
        refs = [row.ref_logprobs for row in rows if row.ref_logprobs is not None]
        return LossBatch(
            logprobs=scored.logprobs,
            old_logprobs=self._padded([row.old_logprobs for row in rows]),
            advantages=torch.tensor([row.advantage for row in rows], device=self.device),
            completion_mask=masks.completion_mask.to(self.device),
            totals=totals,
            ref_logprobs=self._padded(refs) if len(refs) == len(rows) else None,
            sampling_logprobs=self._padded([row.sampling_logprobs for row in rows]),
            entropy=scored.policy_entropy_nats,
            sampling_entropy=scored.sampling_entropy_nats,
            group_index=torch.tensor([row.group for row in rows], device=self.device),
            kl_token_weights=None if weights is None else weights.to(self.device),
        )

    def _padded(self, rows: Sequence[Any]) -> torch.Tensor:
        return pad(rows, torch.float32).to(self.device)

    def _clip_gradient(self, step: int, loss: float) -> float:
        norm = float(
            torch.nn.utils.clip_grad_norm_(
                optimized(self.optimizer), self.config.train.max_grad_norm
            )
        )
        if not (torch.isfinite(torch.tensor([norm, loss])).all()):
            self.drop_gradients()
            raise NonFiniteError(
                f"step {step}: loss {loss}, gradient norm {norm}; expected finite numbers",
                hint="the last checkpoint is kept; lower train.learning_rate, or look at the "
                'step\'s rollouts: grpo sql "select * from live_rollouts"',
            )
        return norm

    def drop_gradients(self) -> None:
        """Also those that a failed backward pass left with a parameter that has a master."""
        self.optimizer.zero_grad(set_to_none=True)
        self.model.zero_grad(set_to_none=True)


def scheduled_learning_rate(config: RunConfig, step: int) -> float:
    """Learning rate of a step (from 1): linear warm-up once per run, then constant."""
    warmup = config.train.warmup_steps
    share = min(1.0, step / warmup) if warmup else 1.0
    return config.train.learning_rate * share


def make_optimizer(model: Any, config: RunConfig) -> torch.optim.AdamW:
    """AdamW over the trainable weights in fp32, with the run's betas and weight decay."""
    train = config.train
    optimizer = torch.optim.AdamW(
        master_weights(model),
        lr=train.learning_rate,
        betas=(train.adam_beta1, train.adam_beta2),
        weight_decay=train.weight_decay,
        foreach=False,  # torch's choice on GPUs would hold 4 more bytes a parameter in each step
    )
    publish_after_steps(optimizer, model)
    return optimizer
