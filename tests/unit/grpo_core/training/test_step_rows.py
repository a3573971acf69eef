"""What the trainer stores of its steps: nulls where nothing was computed, and the running mean."""

import pytest
from one_batch import train_one_batch

from grpo_core.store.schemas import STEPS

FOUR_UPDATES = ("train.updates_per_rollout=4", "train.epochs_per_rollout=1")
OF_THE_UPDATE = {
    field.name for field in STEPS.schema if field.nullable and not field.name.startswith("ref_")
} - {"validation_pass_at_1"}


def test_a_step_without_live_tokens_stores_nulls_instead_of_zeros() -> None:
    # Three of the four groups carry signal, so one of four steps has nothing to learn from.
    outcome = train_one_batch(*FOUR_UPDATES)
    (empty,) = (row for row in outcome.steps if row["num_live_tokens"] == 0)
    taken = [row for row in outcome.steps if row["num_live_tokens"]]
    assert [event["step"] for event in outcome.events if event["kind"] == "empty_step"] == [
        empty["step"]
    ]
    assert {"loss", "grad_norm", "ess", "policy_entropy_nats"} < OF_THE_UPDATE
    assert {empty[name] for name in (*OF_THE_UPDATE, "ref_kl_k1", "ref_kl_k3")} == {None}
    assert empty["effective_token_fraction"] == 0
    assert len(taken) == 3
    assert all(row[name] is not None for row in taken for name in OF_THE_UPDATE)


def test_the_trainer_keeps_the_running_mean_of_the_objective() -> None:
    settings = ("advantage.ema_weight=0.5", "advantage.ema_decay=0.75", "advantage.std=none")
    outcome = train_one_batch(*settings, "filter.zero_variance=false")
    rewards = [row["reward"] for row in outcome.rollouts if row["reward"] is not None]
    after = 0.75 * 0.8 + 0.25 * sum(rewards) / len(rewards)
    assert outcome.state.ema_rewards == {"data": pytest.approx(after, rel=1e-14)}
    flat = [row["advantage"] for row in outcome.rollouts if row["prompt_id"] == "prompt-3"]
    assert flat == pytest.approx([0.1] * 4, abs=1e-12)
