"""Sampler, scorer and plain logits agree for every kind of model that people bring."""

import numpy as np
import pytest
import torch
from model_zoo import ARCHITECTURES, build
from transformers import BloomConfig

from grpo_core.models.head import FullLogits, LanguageHead, check_head
from grpo_core.models.load import UNLIMITED_TOKENS, context_tokens
from grpo_core.models.scoring import collate, completion_logprobs, score
from grpo_core.sampling.hf import HfSampler
from grpo_core.types import SamplingRequest


def ids(length, seed):
    return tuple(np.random.default_rng(seed).integers(3, 53, length).tolist())


ROWS = [(ids(5, 0), ids(9, 1)), (ids(12, 2), ids(3, 3)), (ids(1, 4), ids(20, 5))]
TEMPERATURES = [1.0, 0.7, 1.6]


def plain_logprobs(model, row, temperature):
    """One row alone, fp64 log-softmax of the model's own logits."""
    prompt, completion = row
    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *completion]])).logits[0].double() / temperature
    at = torch.arange(len(completion)) + len(prompt) - 1
    return torch.log_softmax(logits[at], -1)[range(len(completion)), completion].numpy()


@pytest.fixture(scope="module", params=ARCHITECTURES)
def model(request):
    return build(request.param)


def test_the_head_is_recognised_and_proven(model):
    head = check_head(model)
    assert isinstance(head, LanguageHead)
    config = model.config.get_text_config()
    assert head.softcap == getattr(config, "final_logit_softcapping", None)
    assert head.scale == {"cohere": 0.25, "granite": 0.25}.get(config.model_type, 1.0)


def test_scores_are_the_plain_logprobs(model):
    for head in (check_head(model), FullLogits()):
        got = score(model, ROWS, TEMPERATURES, rows_per_batch=3, head=head)
        for row, temperature, logprobs in zip(ROWS, TEMPERATURES, got, strict=True):
            assert logprobs.dtype == np.float32
            want = plain_logprobs(model, row, temperature)
            np.testing.assert_allclose(logprobs, want, atol=5e-5)


def test_gradients_and_entropies_equal_those_of_full_logits(model):
    results = []
    for head in (check_head(model), FullLogits()):
        model.zero_grad()
        found = completion_logprobs(model, collate(ROWS, TEMPERATURES), head=head, chunk_tokens=4)
        (found.logprobs * torch.linspace(0.5, 2, found.logprobs.shape[1])).sum().backward()
        gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
        results.append((found, gradients))
    (left, left_gradients), (right, right_gradients) = results
    for a, b in zip(left, right, strict=True):
        torch.testing.assert_close(a, b, atol=5e-5, rtol=1e-5)
    assert left_gradients.keys() == right_gradients.keys()
    largest = max(float(gradient.abs().max()) for gradient in right_gradients.values())
    for name, gradient in right_gradients.items():
        torch.testing.assert_close(left_gradients[name], gradient, atol=1e-5 * largest, rtol=1e-4)


@pytest.mark.parametrize("lengths", [(40, 3, 11), (9, 9, 9)])
def test_sampled_rows_score_what_the_sampler_said(model, lengths):
    limit = min(context_tokens(model.config), 64)
    sampler = HfSampler(
        model, eos_token_ids=frozenset({2}), pad_token_id=0, context_tokens=limit, batch_rows=64
    )
    requests = [
        SamplingRequest(ids(length, n), tuple(range(6)), temperature, min(limit - length, 50))
        for n, (length, temperature) in enumerate(zip(lengths, (1.0, 0.7, 1.5), strict=True))
    ]
    sampled = sampler.sample(requests)
    rows = [
        (r.prompt_token_ids, c.token_ids)
        for r, cs in zip(requests, sampled, strict=True)
        for c in cs
    ]
    temperatures = [r.temperature for r in requests for _ in r.seeds]
    want = score(model, rows, temperatures, rows_per_batch=64)
    got = [c.sampling_logprobs for cs in sampled for c in cs]
    for left, right in zip(got, want, strict=True):
        np.testing.assert_allclose(left, right, atol=1e-4)


def test_a_row_whose_budget_is_spent_never_leaves_the_context():
    """Learned positions end at the context; one spent row among sixty must not run past them."""
    sampler = HfSampler(
        build("gpt2"), eos_token_ids=frozenset(), pad_token_id=0, context_tokens=64, batch_rows=64
    )
    requests = [
        SamplingRequest(ids(60, 1), (1,), 1.0, 4),
        SamplingRequest(ids(3, 2), tuple(range(60)), 1.0, 61),
    ]
    sampled = sampler.sample(requests)
    assert [len(c.token_ids) for cs in sampled for c in cs] == [4] + [61] * 60


def test_context_is_read_from_the_config():
    assert context_tokens(build("llama").config) == 64
    assert context_tokens(build("gpt2").config) == 64
    assert context_tokens(BloomConfig()) == UNLIMITED_TOKENS
