from dataclasses import replace

import numpy as np
import pytest
from contract import CONTEXT, EOS, VOCABULARY, random_policy

from grpo_core.errors import SamplerError
from grpo_core.models.scoring import score
from grpo_core.sampling.hf import HfSampler
from grpo_core.sampling.proof import PROBE_TEMPERATURES, TOLERANCES, probe_requests, prove

FP32 = TOLERANCES["float32"]
PROBES = probe_requests(VOCABULARY, CONTEXT)


def draw_from(model):
    return HfSampler(
        model, eos_token_ids=EOS, pad_token_id=0, context_tokens=CONTEXT, batch_rows=64
    ).sample


def score_with(model):
    return lambda rows, temperatures: score(model, rows, temperatures, rows_per_batch=16)


@pytest.fixture(scope="module")
def model():
    return random_policy(seed=21)


def test_equal_weights_are_proven(model):
    proof = prove(draw_from(model), score_with(model), PROBES, FP32)
    assert proof.num_tokens > 50
    assert proof.mean_difference <= proof.most_difference < 1e-4


def test_other_weights_are_refused_with_a_token_of_both(model):
    with pytest.raises(SamplerError, match=r"does not hold .*engine -?\d.*trainer -?\d"):
        prove(draw_from(random_policy(seed=22)), score_with(model), PROBES, FP32)


def test_logprobs_that_ignore_the_temperature_are_refused(model):
    raw = score_with(model)

    def draw_raw(requests):
        rows = draw_from(model)(requests)
        return [
            [
                replace(
                    completion,
                    sampling_logprobs=tuple(
                        raw([(request.prompt_token_ids, completion.token_ids)], [1.0])[0].tolist()
                    ),
                )
                for completion in completions
            ]
            for request, completions in zip(requests, rows, strict=True)
        ]

    assert set(PROBE_TEMPERATURES) > {1.0}
    with pytest.raises(SamplerError, match=r"at temperature 0\.7"):
        prove(draw_raw, raw, PROBES, FP32)


def test_a_trainer_that_scores_nan_proves_nothing(model):
    def score_nan(rows, temperatures):
        return [np.full(len(completion), np.nan, np.float32) for _, completion in rows]

    with pytest.raises(SamplerError, match="nan"):
        prove(draw_from(model), score_nan, PROBES, FP32)


def test_one_stale_layer_is_enough_to_be_refused(model):
    stale = random_policy(seed=21)
    stale.model.layers[1].mlp.up_proj.weight.data.mul_(1.01)
    with pytest.raises(SamplerError, match="does not hold"):
        prove(draw_from(stale), score_with(model), PROBES, FP32)


@pytest.mark.parametrize("context", [4, 8, 4096])
def test_probes_fit_into_the_context(context):
    for request in probe_requests(50, context):
        assert len(request.prompt_token_ids) >= 1
        assert len(request.prompt_token_ids) + request.max_completion_tokens <= context
        assert max(request.prompt_token_ids) < 50
