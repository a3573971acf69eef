"""The tokenizer: covers what the generator writes, loses nothing, marks what it does not know."""

import random

import pytest
from transformers import PreTrainedTokenizerFast

from grpo_core.prompts.suffixes import SUFFIXES
from grpo_core.tiny.demonstrations import render_prompt
from grpo_core.tiny.problems import TOKENS, draw_problem, solution_tokens
from grpo_core.tiny.tokenizer import build_tokenizer, vocabulary


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer()


def test_generated_texts_survive_the_round_trip(tokenizer: PreTrainedTokenizerFast) -> None:
    rng = random.Random("round trip")
    for index in range(400):
        problem = draw_problem(rng)
        suffix = list(SUFFIXES.values())[index % len(SUFFIXES)]
        for text in (render_prompt(problem.question, suffix), problem.question, problem.answer):
            ids = tokenizer(text).input_ids
            assert tokenizer.unk_token_id not in ids
            assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_solutions_need_the_budget_of_their_steps(tokenizer: PreTrainedTokenizerFast) -> None:
    rng = random.Random("budgets")
    for _ in range(400):
        problem = draw_problem(rng)
        ids = tokenizer(problem.answer, add_special_tokens=False).input_ids
        assert len(ids) + 1 == solution_tokens(problem.lines)
        least, most = TOKENS[len(problem.lines)]
        assert least <= len(ids) + 1 <= most


def test_special_tokens_are_distinct_and_bos_comes_first(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    special = [
        tokenizer.pad_token_id,
        tokenizer.bos_token_id,
        tokenizer.eos_token_id,
        tokenizer.unk_token_id,
    ]
    assert special == [0, 1, 2, 3]
    assert tokenizer("Tom has").input_ids[0] == tokenizer.bos_token_id
    assert tokenizer.eos_token_id not in tokenizer("Tom has").input_ids


@pytest.mark.parametrize("text", ["Tom has 3 zebras.", "tom", "Tom has 3 %", "\u00e9"])
def test_an_unknown_word_becomes_unk(text: str, tokenizer: PreTrainedTokenizerFast) -> None:
    assert tokenizer.unk_token_id in tokenizer(text).input_ids


def test_a_word_has_one_token_at_the_start_and_in_the_middle(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    ids = tokenizer("Tom\nTom Tom").input_ids
    _, first, _, next_line, middle = ids
    assert first == next_line == middle
    assert tokenizer.decode(ids, skip_special_tokens=True) == "Tom\nTom Tom"


def test_the_vocabulary_holds_no_token_twice() -> None:
    assert len(set(vocabulary())) == len(vocabulary())
