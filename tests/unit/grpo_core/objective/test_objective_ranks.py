"""Two gloo processes against one: the same weights after steps of plain gradient descent."""

import pytest
import torch
import torch.distributed as dist
from torch import multiprocessing

from grpo_core.objective import (
    KlConfig,
    LossBatch,
    LossConfig,
    finalize_metrics,
    merge_metrics,
    policy_loss,
    step_totals,
)
from grpo_core.objective.generated import generate_step
from grpo_core.objective.logprobs import token_logprobs
from grpo_core.objective.metrics import reduce_metrics
from grpo_core.objective.presets import PRESETS, resolve_loss

RANKS, STEPS, WIDTH, VOCABULARY = 2, 3, 6, 11
LOSSES = {
    **{name: LossConfig(method=name) for name in PRESETS},
    "gspo by prompt": LossConfig(method="gspo", aggregation="prompt_mean"),
}


def summed(tensor):
    dist.all_reduce(tensor)
    return tensor


def highest(tensor):
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return tensor


def same(tensor):
    return tensor


def train(name, rows, reduce_sum, reduce_max):
    """Returns head weights and metrics after a few steps on this rank's rows."""
    config = resolve_loss(LOSSES[name], longest_completion_tokens=9)
    kl = KlConfig(place="loss", beta=0.1)
    draw = torch.Generator().manual_seed(7)
    hidden = torch.randn((16, 9, WIDTH), generator=draw)
    ids = torch.randint(0, VOCABULARY, (16, 9), generator=draw)
    weight = torch.randn((VOCABULARY, WIDTH), generator=draw).requires_grad_()
    old = token_logprobs(hidden, weight.detach(), ids).logprobs
    step = generate_step(4)
    totals = step_totals(
        step.mask[rows],
        group_index=step.group_index[rows],
        num_groups=4,
        reduce_sum=reduce_sum if reduce_sum is not same else None,
    )
    metrics = {}
    for _ in range(STEPS):
        parts = []
        for part in torch.split(rows, 3):
            current = token_logprobs(hidden[part], weight, ids[part], temperature=0.9)
            batch = LossBatch(
                current.logprobs,
                old[part],
                step.advantages[part],
                step.mask[part],
                totals,
                ref_logprobs=old[part] - 0.1,
                entropy=current.policy_entropy_nats,
                group_index=step.group_index[part],
            )
            output = policy_loss(batch, config, kl=kl)
            output.loss.backward()
            parts.append(output.metrics)
        with torch.no_grad():
            weight -= 0.1 * reduce_sum(weight.grad)
            weight.grad = None
        merged = reduce_metrics(merge_metrics(parts), reduce_sum=reduce_sum, reduce_max=reduce_max)
        metrics = finalize_metrics(merged, totals)
    return weight.detach(), metrics


def run_rank(rank, store, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    # Uneven shares, groups cut across ranks.
    rows = (
        torch.tensor([0, 2, 5, 6, 7, 11, 12])
        if rank
        else torch.tensor([1, 3, 4, 8, 9, 10, 13, 14, 15])
    )
    trained = {name: train(name, rows, summed, highest) for name in LOSSES}
    if rank == 0:
        torch.save(trained, results)
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_ranks_train_the_same_weights_as_one(tmp_path):
    torch.set_num_threads(1)
    results = tmp_path / "weights.pt"
    multiprocessing.spawn(run_rank, args=(str(tmp_path / "store"), str(results)), nprocs=RANKS)
    trained = torch.load(results, weights_only=True)
    for loss in LOSSES:
        weight, metrics = train(loss, torch.arange(16), same, same)
        both, both_metrics = trained[loss]
        torch.testing.assert_close(both, weight, rtol=1e-5, atol=1e-6)
        for name, value in metrics.items():
            assert abs(both_metrics[name] - value) <= 1e-5 * max(1.0, abs(value)), (loss, name)
