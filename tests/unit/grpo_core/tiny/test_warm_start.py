"""The warm start: it learns, it is a function of its seed, and the shipped model is its result."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from grpo_core.tiny.tokenizer import build_tokenizer
from grpo_core.tiny.warm_start import WarmStart, build_model, train, write_model

MODEL = Path(__file__).parents[4] / "data" / "models" / "tiny"
SHORT = WarmStart(steps=12, batch=4, drills=2, warmup_steps=3)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer()


def losses(seed: int, tokenizer: PreTrainedTokenizerFast) -> list[float]:
    return list(train(build_model(tokenizer, seed), tokenizer, SHORT, seed))


@pytest.mark.slow
def test_a_few_steps_reduce_the_loss_and_repeat(tokenizer: PreTrainedTokenizerFast) -> None:
    first = losses(0, tokenizer)
    assert first[-2] < first[0] - 0.5
    assert losses(0, tokenizer) == first
    assert next(train(build_model(tokenizer, 1), tokenizer, SHORT, seed=1)) != first[0]


def test_building_a_model_leaves_the_global_generator_alone(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    before = torch.random.get_rng_state()
    build_model(tokenizer, 0)
    assert torch.equal(before, torch.random.get_rng_state())


def test_written_model_loads_with_the_auto_classes(tmp_path: Path) -> None:
    write_model(tmp_path, WarmStart(steps=1, batch=2, drills=2), seed=0)
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
