import pytest
from contract import random_policy, request
from letters import letter_tokenizer

from grpo_core.errors import ConfigError
from grpo_core.sampling.hf import HfSampler
from grpo_core.sampling.stopping import stop_check
from grpo_core.types import FinishReason


@pytest.fixture(scope="module")
def tokenizer():
    return letter_tokenizer()


def sample(tokenizer, stop, requests):
    return HfSampler(
        random_policy(),
        eos_token_ids=frozenset({2}),
        pad_token_id=0,
        context_tokens=96,
        batch_rows=64,
        stop=stop_check(tokenizer, stop),
    ).sample(requests)


def test_a_completion_ends_where_its_text_completes_a_stop_string(tokenizer):
    requests = [request(n, seeds=range(16), budget=60) for n in (5, 9)]
    free = [row for rows in sample(tokenizer, (), requests) for row in rows]
    first, second = [row.token_ids for row in free if len(row.token_ids) > 20][:2]
    stops = (tokenizer.decode(first[3:6]), tokenizer.decode(second[7:9]))
    stopped = [row for rows in sample(tokenizer, stops, requests) for row in rows]
    shortened = 0
    for row, whole in zip(stopped, free, strict=True):
        assert whole.token_ids[: len(row.token_ids)] == row.token_ids
        ends = [tokenizer.decode(whole.token_ids).find(stop) + len(stop) for stop in stops]
        ends = [end for end, stop in zip(ends, stops, strict=True) if end >= len(stop)]
        if ends and min(ends) <= len(whole.token_ids):
            shortened += 1
            assert len(row.token_ids) == min(ends)
            assert row.finish_reason is FinishReason.STOP
        else:
            assert row == whole
    assert shortened >= 2


def test_no_stop_string_needs_no_check(tokenizer):
    assert stop_check(tokenizer, ()) is None


@pytest.mark.parametrize("stop", [("",), ("a", "")])
def test_an_empty_stop_string_is_refused(tokenizer, stop):
    with pytest.raises(ConfigError, match="empty string"):
        stop_check(tokenizer, stop)


def test_a_stop_string_outside_the_vocabulary_is_refused(tokenizer):
    with pytest.raises(ConfigError, match="no token"):
        stop_check(tokenizer, ("Ω",))
