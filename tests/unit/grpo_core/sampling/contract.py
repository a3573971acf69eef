"""What every sampler must do; subclass `SamplerContract` and say how one is made.

The policy is a random Llama with peaked logits, so that orders, lengths and ends vary.
"""

import copy
from collections.abc import Iterable

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from grpo_core.errors import NonFiniteError, SamplerError
from grpo_core.models.scoring import score
from grpo_core.sampling.protocol import Sampler
from grpo_core.types import FinishReason, SampledCompletion, SamplingRequest

VOCABULARY = 60
CONTEXT = 96
EOS = frozenset({2})
LOGPROB_TOLERANCE = 1e-4
"""Sampler against trainer, nats, fp32: two orders of summation over the same numbers."""


def random_policy(seed: int = 0, **changes) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    settings = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": CONTEXT,
        "initializer_range": 0.3,
        "pad_token_id": 0,
        "eos_token_id": 2,
    } | changes
    return LlamaForCausalLM(LlamaConfig(**settings)).eval()


def prompt(length: int, seed: int = 0) -> tuple[int, ...]:
    return tuple(np.random.default_rng(seed).integers(3, VOCABULARY, length).tolist())


def request(
    length: int = 6, *, seeds: Iterable[int] = (1,), temperature: float = 1.0, budget: int = 24
) -> SamplingRequest:
    return SamplingRequest(prompt(length, seed=length), tuple(seeds), temperature, budget)


def raise_logit(model: LlamaForCausalLM, token_id: int, by: float) -> None:
    """Make a token likelier: its output row follows the mean hidden state."""
    with torch.no_grad():
        hidden = model.model(torch.tensor([prompt(20)])).last_hidden_state[0]
        mean = hidden.mean(0)
        model.lm_head.weight[token_id] += by * mean / mean.dot(mean)


def assert_rows_match(
    got: Iterable[SampledCompletion], want: Iterable[SampledCompletion], tolerance: float = 1e-4
) -> None:
    for left, right in zip(got, want, strict=True):
        assert left.token_ids == right.token_ids
        assert left.finish_reason == right.finish_reason
        np.testing.assert_allclose(left.sampling_logprobs, right.sampling_logprobs, atol=tolerance)


class SamplerContract:
    def make(
        self,
        model: LlamaForCausalLM,
        *,
        eos_token_ids: frozenset[int] = EOS,
        context: int = CONTEXT,
    ) -> Sampler:
        raise NotImplementedError

    @pytest.fixture
    def model(self) -> LlamaForCausalLM:
        return random_policy()

    @pytest.fixture
    def sampler(self, model: LlamaForCausalLM) -> Sampler:
        return self.make(model)

    @pytest.fixture
    def requests(self) -> list[SamplingRequest]:
        """Five prompts of different lengths; temperatures, budgets and sample counts vary."""
        return [
            request(11, seeds=range(4), temperature=1.0, budget=24),
            request(1, seeds=range(10, 13), temperature=0.7, budget=40),
            request(30, seeds=(7,), temperature=1.3, budget=1),
            request(5, seeds=range(20, 28), temperature=0.4, budget=33),
            request(17, seeds=(99, 98), temperature=2.0, budget=12),
        ]

    @pytest.fixture
    def sampled(
        self, sampler: Sampler, requests: list[SamplingRequest]
    ) -> list[list[SampledCompletion]]:
        return sampler.sample(requests)

    def test_one_list_per_request_and_one_completion_per_seed(self, requests, sampled):
        assert [len(rows) for rows in sampled] == [len(r.seeds) for r in requests]

    def test_ids_and_logprobs_are_aligned_and_within_the_budget(self, requests, sampled):
        for asked, rows in zip(requests, sampled, strict=True):
            for row in rows:
                assert len(row.token_ids) == len(row.sampling_logprobs)
                assert 1 <= len(row.token_ids) <= asked.max_completion_tokens
                assert all(type(token) is int for token in row.token_ids)
                assert all(0 <= token < VOCABULARY for token in row.token_ids)
                assert all(np.isfinite(row.sampling_logprobs))
                assert max(row.sampling_logprobs) <= 0

    def test_finish_reason_is_stop_exactly_when_the_last_id_is_eos(self, requests, sampled):
        seen = set()
        for asked, rows in zip(requests, sampled, strict=True):
            for row in rows:
                seen.add(row.finish_reason)
                assert not EOS & set(row.token_ids[:-1])
                assert (row.finish_reason is FinishReason.STOP) == (row.token_ids[-1] in EOS)
                if row.finish_reason is FinishReason.LENGTH:
                    assert len(row.token_ids) == asked.max_completion_tokens
        assert seen == set(FinishReason)

    def test_logprobs_are_the_trainers_at_each_requests_temperature(self, model, requests, sampled):
        rows, temperatures, got = [], [], []
        for asked, completions in zip(requests, sampled, strict=True):
            for completion in completions:
                rows.append((asked.prompt_token_ids, completion.token_ids))
                temperatures.append(asked.temperature)
                got.append(completion.sampling_logprobs)
        want = score(model, rows, temperatures, rows_per_batch=4)
        for left, right in zip(got, want, strict=True):
            np.testing.assert_allclose(left, right, atol=LOGPROB_TOLERANCE)

    @pytest.mark.parametrize("temperature", [1.0, 0.7])
    def test_logprobs_are_the_trainers_at_one_temperature(self, model, sampler, temperature):
        asked = request(9, seeds=range(8), temperature=temperature)
        (completions,) = sampler.sample([asked])
        rows = [(asked.prompt_token_ids, c.token_ids) for c in completions]
        want = score(model, rows, [temperature] * len(rows), rows_per_batch=8)
        for completion, logprobs in zip(completions, want, strict=True):
            np.testing.assert_allclose(
                completion.sampling_logprobs, logprobs, atol=LOGPROB_TOLERANCE
            )

    def test_a_row_does_not_depend_on_its_neighbours(self, sampler, requests, sampled):
        for asked, rows in zip(requests, sampled, strict=True):
            alone = [
                sampler.sample(
                    [
                        SamplingRequest(
                            asked.prompt_token_ids,
                            (seed,),
                            asked.temperature,
                            asked.max_completion_tokens,
                        )
                    ]
                )[0][0]
                for seed in asked.seeds
            ]
            assert_rows_match(rows, alone)

    def test_the_same_seed_gives_the_same_row_and_another_seed_another(self, sampler):
        first, again, other = sampler.sample(
            [request(8, seeds=(5,)), request(8, seeds=(5,)), request(8, seeds=(6,))]
        )
        assert_rows_match(first, again)
        assert first[0].token_ids != other[0].token_ids

    def test_a_longer_budget_continues_the_same_row(self, sampler):
        (short,), (long,) = sampler.sample([request(8, budget=5), request(8, budget=30)])
        assert long.token_ids[: len(short.token_ids)] == short.token_ids

    def test_several_eos_ids_all_end_a_completion(self):
        model = random_policy(seed=3)
        for token_id in (2, 5, 41):
            raise_logit(model, token_id, by=3.0)
        sampler = self.make(model, eos_token_ids=frozenset({2, 5, 41}))
        (rows,) = sampler.sample([request(6, seeds=range(64), budget=40)])
        ends = {row.token_ids[-1] for row in rows if row.finish_reason is FinishReason.STOP}
        assert ends == {2, 5, 41}
        for row in rows:
            assert not {2, 5, 41} & set(row.token_ids[:-1])

    def test_a_completion_that_ends_at_once_holds_its_eos_alone(self):
        model = random_policy(seed=4)
        raise_logit(model, 2, by=60.0)
        asked = [request(20, seeds=range(4)), request(7, seeds=range(4), budget=1)]
        rows = [row for rows in self.make(model).sample(asked) for row in rows]
        at_once = [row for row in rows if row.token_ids == (2,)]
        assert len(at_once) >= 4
        assert all(row.finish_reason is FinishReason.STOP for row in at_once)
        assert all(len(row.sampling_logprobs) == 1 for row in at_once)

    def test_n_samples_of_one_prompt_follow_the_policy(self, model, sampler):
        count = 4000
        for temperature in (1.0, 0.5):
            asked = request(6, seeds=range(count), temperature=temperature, budget=1)
            (rows,) = sampler.sample([asked])
            drawn = np.bincount([r.token_ids[0] for r in rows], minlength=VOCABULARY) / count
            with torch.no_grad():
                logits = model(torch.tensor([asked.prompt_token_ids])).logits[0, -1].double()
            want = torch.softmax(logits / temperature, -1).numpy()
            error = np.sqrt(want * (1 - want) / count) + 1 / count
            assert (np.abs(drawn - want) < 4.5 * error).all()

    @pytest.mark.parametrize("budget", [8, 1])
    def test_a_prompt_at_the_context_limit_is_served(self, model, sampler, budget):
        asked = request(CONTEXT - budget, seeds=range(3), budget=budget)
        (rows,) = sampler.sample([asked])
        pairs = [(asked.prompt_token_ids, row.token_ids) for row in rows]
        want = score(model, pairs, [1.0] * 3, rows_per_batch=3)
        for row, logprobs in zip(rows, want, strict=True):
            np.testing.assert_allclose(row.sampling_logprobs, logprobs, atol=LOGPROB_TOLERANCE)

    def test_beyond_the_context_is_refused_with_the_lengths(self, sampler):
        with pytest.raises(SamplerError, match=r"request 1.* 89 tokens .* 8 tokens .*97 .* 96"):
            sampler.sample([request(5), request(CONTEXT - 7, budget=8)])

    @pytest.mark.parametrize(
        "bad",
        [
            SamplingRequest((), (1,), 1.0, 8),
            SamplingRequest((3,), (1,), 1.0, 0),
            SamplingRequest((3,), (1,), 0.0, 8),
            SamplingRequest((3,), (1,), float("nan"), 8),
        ],
    )
    def test_requests_without_meaning_are_refused(self, sampler, bad):
        with pytest.raises(SamplerError, match="request 0"):
            sampler.sample([bad])

    def test_nothing_asked_gives_nothing(self, sampler):
        assert sampler.sample([]) == []
        assert sampler.sample([request(4, seeds=())]) == [[]]

    def test_a_sampler_that_has_slept_draws_the_same_rows(self, sampler, requests, sampled):
        sampler.sleep()
        for rows, again in zip(sampled, sampler.sample(requests), strict=True):
            assert_rows_match(rows, again)

    def test_nan_weights_are_an_error_that_names_the_request(self):
        model = random_policy()
        with torch.no_grad():
            model.lm_head.weight[7] = float("nan")
        with pytest.raises(NonFiniteError, match=r"request 0, sample 0"):
            self.make(model).sample([request(6)])

    def test_after_sync_the_sampler_has_the_trainers_weights(self):
        model = random_policy(seed=6)
        sampler = self.make(model)
        asked = request(9, seeds=range(4), temperature=0.7)
        before = sampler.sample([asked])
        trained = copy.deepcopy(model)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.05)
        sampler.sync(model.state_dict().items())
        (rows,) = sampler.sample([asked])
        pairs = [(asked.prompt_token_ids, row.token_ids) for row in rows]
        want = score(model, pairs, [0.7] * 4, rows_per_batch=4)
        stale = score(trained, pairs, [0.7] * 4, rows_per_batch=4)
        for row, logprobs in zip(rows, want, strict=True):
            np.testing.assert_allclose(row.sampling_logprobs, logprobs, atol=LOGPROB_TOLERANCE)
        assert max(np.abs(a - b).max() for a, b in zip(want, stale, strict=True)) > 0.01
        assert before[0] != rows
