import logging

import numpy as np
import pytest
import torch
from model_zoo import build
from torch import nn

from grpo_core.errors import DataContractError
from grpo_core.models.head import FullLogits, check_head
from grpo_core.models.scoring import collate, completion_logprobs, score

ROWS = [((3, 4, 5), (6, 7)), ((8,), (9, 2, 2, 2)), ((10, 11), ())]


def test_collating_keeps_prompt_and_completion_together_and_masks_by_length():
    batch = collate(ROWS, [1.0, 0.5, 2.0])
    assert batch.input_ids.tolist() == [[3, 4, 5, 6, 7], [8, 9, 2, 2, 2], [10, 11, 0, 0, 0]]
    assert batch.completion_ids.tolist() == [[6, 7, 0, 0], [9, 2, 2, 2], [0, 0, 0, 0]]
    assert batch.completion_mask.sum(1).tolist() == [2, 4, 0]
    assert batch.prompt_lengths.tolist() == [3, 1, 2]
    assert batch.temperatures.tolist() == [1.0, 0.5, 2.0]


def test_an_empty_prompt_predicts_nothing_and_is_refused():
    with pytest.raises(DataContractError, match="row 1: empty prompt"):
        collate([((1,), (2,)), ((), (2,))], [1.0, 1.0])
    with pytest.raises(DataContractError, match="1 rows but 2 temperatures"):
        collate([((1,), (2,))], [1.0, 1.0])


def test_scores_have_one_value_a_token_and_none_for_an_empty_completion():
    got = score(build("llama"), ROWS, [1.0, 0.5, 2.0], rows_per_batch=2)
    assert [values.shape for values in got] == [(2,), (4,), (0,)]
    assert score(build("llama"), [], [], rows_per_batch=2) == []


def test_batches_follow_the_given_order_and_size():
    model, widths = build("llama"), []
    head = check_head(model)
    model.model.register_forward_hook(
        lambda _module, inputs, _output: widths.append(tuple(inputs[0].shape))
    )
    rows = [((3,) * length, (4,)) for length in (5, 9, 2, 3, 7)]
    score(model, rows, [1.0] * 5, rows_per_batch=2, head=head)
    assert widths == [(2, 10), (2, 4), (1, 8)]


def test_the_same_unit_gives_the_same_bits():
    model = build("llama")
    first, again = (score(model, ROWS, [1.0] * 3, rows_per_batch=3) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


def test_masked_positions_hold_zero_and_leak_no_nan():
    model = build("llama")
    found = completion_logprobs(model, collate(ROWS, [1.0] * 3), head=check_head(model))
    outside = ~collate(ROWS, [1.0] * 3).completion_mask
    for values in found:
        assert values.dtype == torch.float32
        assert (values[outside] == 0).all()
    found.logprobs.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


def test_a_batch_of_empty_completions_has_no_tokens():
    model = build("llama")
    rows = [((3, 4), ()), ((5,), ())]
    found = completion_logprobs(model, collate(rows, [1.0, 1.0]), head=check_head(model))
    assert found.logprobs.shape == (2, 0)


def test_padding_does_not_reach_a_row():
    model = build("llama")
    alone = score(model, ROWS[:1], [0.7], rows_per_batch=1)[0]
    beside = score(model, [ROWS[0], ((3,), (4,) * 40)], [0.7, 1.0], rows_per_batch=2)[0]
    np.testing.assert_allclose(alone, beside, atol=2e-6)


def test_scoring_leaves_modes_and_gradients_alone():
    model = build("llama").train()
    score(model, ROWS, [1.0] * 3, rows_per_batch=3)
    assert model.training
    assert all(p.grad is None for p in model.parameters())


def test_the_weight_is_the_live_one():
    """The head is found once; optimiser steps change the weight in place."""
    model = build("llama")
    head = check_head(model)
    with torch.no_grad():
        model.lm_head.weight.mul_(2)
    got = score(model, ROWS, [1.0] * 3, rows_per_batch=3, head=head)
    want = score(model, ROWS, [1.0] * 3, rows_per_batch=3, head=FullLogits())
    for left, right in zip(got, want, strict=True):
        np.testing.assert_allclose(left, right, atol=2e-5)


class OddHead(nn.Linear):
    """A head that squares its input: nothing that scale, bias and soft-cap describe."""

    def forward(self, hidden):
        return super().forward(hidden * hidden)


@pytest.mark.parametrize("kind", ["odd", "unknown soft-cap"])
def test_an_unknown_head_falls_back_with_a_warning_and_stays_right(caplog, kind):
    if kind == "odd":
        model = build("llama", tie_word_embeddings=False)
        odd = OddHead(32, 53, bias=False)
        odd.weight = model.lm_head.weight
        model.lm_head = odd
    else:
        model = build("gemma2")
        cap = model.config.final_logit_softcapping
        model.config.final_logit_softcapping = None
        model.lm_head.register_forward_hook(lambda _m, _i, out: cap * torch.tanh(out / cap))
    with caplog.at_level(logging.WARNING):
        head = check_head(model)
    assert isinstance(head, FullLogits)
    assert "full logits" in caplog.text
    got = score(model, ROWS, [0.7] * 3, rows_per_batch=3)
    with torch.no_grad():
        logits = model(torch.tensor([[3, 4, 5, 6, 7]])).logits[0] / 0.7
    want = torch.log_softmax(logits, -1)[[2, 3], [6, 7]]
    np.testing.assert_allclose(got[0], want, atol=2e-5)


def test_a_soft_cap_far_above_todays_logits_is_seen():
    """Fresh weights give logits near 0, where a cap of 50 changes nothing yet."""
    model = build("gemma2", final_logit_softcapping=None, initializer_range=0.02)
    assert not isinstance(check_head(model), FullLogits)
    model.lm_head.register_forward_hook(lambda _m, _i, out: 50 * torch.tanh(out / 50))
    assert isinstance(check_head(model), FullLogits)


def test_the_check_takes_its_probes_away_again():
    model = build("llama")
    with torch.no_grad():
        before = model(torch.tensor([[3, 4, 5]])).logits
        check_head(model)
        assert torch.equal(model(torch.tensor([[3, 4, 5]])).logits, before)


def test_bfloat16_is_recognised_too():
    assert not isinstance(check_head(build("gemma2").to(torch.bfloat16)), FullLogits)
