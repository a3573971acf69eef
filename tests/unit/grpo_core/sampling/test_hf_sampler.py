import numpy as np
import pytest
import torch
from contract import (
    CONTEXT,
    EOS,
    SamplerContract,
    assert_rows_match,
    prompt,
    raise_logit,
    random_policy,
    request,
)

from grpo_core.errors import SamplerError
from grpo_core.models.scoring import score
from grpo_core.sampling.hf import HfSampler


def make_sampler(model, *, eos_token_ids=EOS, context=CONTEXT, batch_rows=64, pad=0, stop=None):
    return HfSampler(
        model,
        eos_token_ids=eos_token_ids,
        pad_token_id=pad,
        context_tokens=context,
        batch_rows=batch_rows,
        stop=stop,
    )


class TestHfSampler(SamplerContract):
    def make(self, model, *, eos_token_ids=EOS, context=CONTEXT):
        return make_sampler(model, eos_token_ids=eos_token_ids, context=context)


class TestHfSamplerEager(SamplerContract):
    """Eager attention adds its mask instead of selecting by it."""

    def make(self, model, *, eos_token_ids=EOS, context=CONTEXT):
        model.set_attn_implementation("eager")
        return make_sampler(model, eos_token_ids=eos_token_ids, context=context)


@pytest.fixture(scope="module")
def ending_policy():
    """Rows end all over the place, so that the batch is compacted again and again."""
    model = random_policy(seed=8)
    raise_logit(model, 2, by=4.0)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("same_length", [True, False])
def test_a_compacted_batch_gives_the_rows_that_single_rows_give(ending_policy, same_length):
    lengths = [9] * 6 if same_length else [3, 9, 4, 20, 1, 13]
    asked = [
        request(length, seeds=range(100 * i, 100 * i + 8), budget=60)
        for i, length in enumerate(lengths)
    ]
    together = make_sampler(ending_policy, batch_rows=64).sample(asked)
    alone = make_sampler(ending_policy, batch_rows=1).sample(asked)
    assert len({len(row.token_ids) for rows in together for row in rows}) > 10
    for rows, single in zip(together, alone, strict=True):
        assert_rows_match(rows, single)


@pytest.mark.parametrize("batch_rows", [1, 3, 5, 1000])
def test_how_requests_are_cut_into_batches_changes_no_row(ending_policy, batch_rows):
    asked = [request(4, seeds=range(7)), request(12, seeds=range(7, 9)), request(4, seeds=(50,))]
    want = make_sampler(ending_policy, batch_rows=64).sample(asked)
    got = make_sampler(ending_policy, batch_rows=batch_rows).sample(asked)
    for rows, expected in zip(got, want, strict=True):
        assert_rows_match(rows, expected)


def test_repeated_calls_are_bit_identical(ending_policy):
    asked = [request(length, seeds=range(6)) for length in (4, 9)]
    sampler = make_sampler(ending_policy)
    assert sampler.sample(asked) == sampler.sample(asked)


def test_a_pad_id_that_is_an_eos_id_does_no_harm(ending_policy):
    asked = [request(length, seeds=range(6)) for length in (4, 9)]
    padded_by_eos = make_sampler(ending_policy, pad=2).sample(asked)
    for rows, expected in zip(
        padded_by_eos, make_sampler(ending_policy).sample(asked), strict=True
    ):
        assert_rows_match(rows, expected)


def test_the_module_is_left_as_it_was():
    model = random_policy()
    model.train()
    model.model.layers[0].eval()
    make_sampler(model).sample([request(5)])
    assert model.training
    assert not model.model.layers[0].training
    loss = model(torch.tensor([prompt(8)])).logits.sum()
    loss.backward()
    assert all(p.grad is not None for p in model.parameters())


def test_rotary_tables_that_grow_while_sampling_stay_usable_for_training():
    """Dynamic RoPE rebuilds its buffers in the forward pass of the sampler."""
    rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}
    model = random_policy(rope_parameters=rope, max_position_embeddings=16)
    make_sampler(model).sample([request(6, budget=40)])
    model.train()(torch.tensor([prompt(40)])).logits.sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_sync_consumes_nothing_because_the_module_is_shared():
    weights = iter([("a", torch.zeros(1))])
    make_sampler(random_policy()).sync(weights)
    assert len(list(weights)) == 1


def test_bfloat16_logprobs_are_close_to_the_trainers():
    model = random_policy().to(torch.bfloat16)
    asked = request(9, seeds=range(8), temperature=0.7)
    (rows,) = make_sampler(model).sample([asked])
    pairs = [(asked.prompt_token_ids, row.token_ids) for row in rows]
    want = score(model, pairs, [0.7] * len(rows), rows_per_batch=8)
    gaps = [np.abs(np.array(r.sampling_logprobs) - w) for r, w in zip(rows, want, strict=True)]
    assert np.concatenate(gaps).mean() < 0.05


def test_no_rows_in_a_batch_is_refused():
    with pytest.raises(SamplerError, match="batch_rows is 0"):
        make_sampler(random_policy(), batch_rows=0)
