"""The warm start: it learns, it is a function of its seed, and the shipped model is its result."""

from itertools import islice
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from grpo_core.tiny.demonstrations import Demonstration
from grpo_core.tiny.tokenizer import build_tokenizer
from grpo_core.tiny.warm_start import (
    IGNORED,
    WarmStart,
    build_model,
    draw_batches,
    to_batch,
    train,
    write_model,
)

MODEL = Path(__file__).parents[4] / "data" / "models" / "tiny"
SHORT = WarmStart(steps=12, batch=8, warmup_steps=4)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer()


def losses(seed: int, tokenizer: PreTrainedTokenizerFast) -> list[float]:
    return list(train(build_model(tokenizer, seed), tokenizer, SHORT, seed))


def test_a_few_steps_reduce_the_loss_and_repeat(tokenizer: PreTrainedTokenizerFast) -> None:
    first = losses(0, tokenizer)
    assert first[-1] < first[0] - 0.5
    assert losses(0, tokenizer) == first
    assert losses(1, tokenizer) != first


def test_building_a_model_leaves_the_global_generator_alone(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    before = torch.random.get_rng_state()
    build_model(tokenizer, 0)
    assert torch.equal(before, torch.random.get_rng_state())


def test_labels_cover_the_completion_and_the_end_token(tokenizer: PreTrainedTokenizerFast) -> None:
    shown = [
        Demonstration("Tom has 3 pens.\nAnswer:", "#### 3", correct=True),
        Demonstration("How?\nAnswer:", "#### 12", correct=True),
    ]
    ids, labels = to_batch(tokenizer, shown)
    live = labels != IGNORED
    assert live.sum(1).tolist() == [3, 4]
    assert torch.equal(ids[live], labels[live])
    assert tokenizer.decode(labels[1][live[1]]) == "#### 12<eos>"
    assert ids[1, -1] == tokenizer.pad_token_id


def test_batches_hold_texts_of_about_the_same_length(tokenizer: PreTrainedTokenizerFast) -> None:
    for ids, _ in islice(draw_batches(tokenizer, WarmStart(), seed=0), 4):
        assert (ids != tokenizer.pad_token_id).float().mean() > 0.7


def test_written_model_loads_with_the_auto_classes(tmp_path: Path) -> None:
    write_model(tmp_path, WarmStart(steps=1, batch=2), seed=0)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in MODEL.iterdir()}
    assert AutoTokenizer.from_pretrained(tmp_path)("Tom").input_ids[0] == 1
    AutoModelForCausalLM.from_pretrained(tmp_path)


def test_the_shipped_model_has_the_shape_and_tokenizer_of_the_recipe(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    shipped = AutoModelForCausalLM.from_pretrained(MODEL)
    recipe = build_model(tokenizer, 0)
    assert {name: value.shape for name, value in shipped.state_dict().items()} == {
        name: value.shape for name, value in recipe.state_dict().items()
    }
    assert AutoTokenizer.from_pretrained(MODEL).get_vocab() == tokenizer.get_vocab()
    assert shipped.config.head_dim >= 32
    assert shipped.generation_config.eos_token_id == tokenizer.eos_token_id
    assert shipped.generation_config.pad_token_id == tokenizer.pad_token_id
    assert sum(path.stat().st_size for path in MODEL.iterdir()) < 2_000_000


def test_the_shipped_model_solves_a_small_problem(tokenizer: PreTrainedTokenizerFast) -> None:
    shipped = AutoModelForCausalLM.from_pretrained(MODEL)
    prompt = "Tom has 3 red apples and 4 blue apples. How many apples does Tom have now?\nAnswer:"
    ids = torch.tensor([tokenizer(prompt).input_ids])
    out = shipped.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_length=64)
    text = tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True)
    assert text == "<<3+4=7>>7 apples\n#### 7"
