import json

import pytest

from grpo_core.config import load_config
from grpo_core.errors import ConfigError
from grpo_core.models.context import budgets, check_budgets, check_prompts, context_limit
from grpo_core.paths import PROJECT_ROOT
from grpo_core.store.models import architecture_digest

TINY = PROJECT_ROOT / "data" / "models" / "tiny"


class WordRenderer:
    """One token a word, and the suffix behind them."""

    def render(self, text: str, suffix: str = "") -> tuple[int, ...]:
        return tuple(range(len(f"{text} {suffix}".split())))


def write_config(directory, **settings):
    (directory / "config.json").write_text(json.dumps(settings))
    return directory


def test_the_limit_is_read_wherever_an_architecture_keeps_it(tmp_path):
    assert context_limit(write_config(tmp_path, max_position_embeddings=96)) == 96
    assert context_limit(write_config(tmp_path, n_positions=64)) == 64
    nested = {"max_position_embeddings": 32}
    assert context_limit(write_config(tmp_path, text_config=nested)) == 32
    assert context_limit(write_config(tmp_path, model_type="mamba")) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [('{"model_type": "lla', "not JSON"), ("[1]", "holds a list"), ("\udcff", "not JSON")],
)
def test_a_broken_config_is_a_config_error_that_names_the_file(tmp_path, text, message):
    (tmp_path / "config.json").write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(ConfigError, match=rf"config.json: {message}"):
        check_budgets(load_config("tiny"), tmp_path)
    with pytest.raises(ConfigError, match=r"config.json (is not valid JSON|holds a list)"):
        architecture_digest(tmp_path)


def test_a_budget_as_long_as_the_context_is_refused_by_its_setting(tmp_path):
    config = load_config("tiny")
    check_budgets(config, TINY)
    short = write_config(tmp_path, max_position_embeddings=64)
    with pytest.raises(ConfigError, match=r"train.phases.2.max_completion_tokens: 64 .* 64\)"):
        check_budgets(config, short)


def test_an_evaluation_budget_counts_too(tmp_path):
    config = load_config("tiny", overrides=["evaluate.max_completion_tokens=90"])
    assert budgets(config)["evaluate.max_completion_tokens"] == 90
    with pytest.raises(ConfigError, match=r"evaluate.max_completion_tokens: 90"):
        check_budgets(config, write_config(tmp_path, max_position_embeddings=90))


def test_the_longest_prompt_must_fit_with_the_largest_budget():
    problems = [("short", "a b"), ("long", "a b c d e")]
    allowed = {
        "train.phases.0.max_completion_tokens": 10,
        "train.phases.1.max_completion_tokens": 20,
    }
    assert check_prompts(WordRenderer(), problems, allowed, 25) == 5
    with pytest.raises(
        ConfigError,
        match=r"train.phases.1.max_completion_tokens: .*\(long\) has 5 tokens and the budget is "
        r"20, together 25, but the model's context is 24 \(max_position_embeddings\)",
    ):
        check_prompts(WordRenderer(), problems, allowed, 24)


def test_a_suffix_makes_the_prompt_longer():
    allowed = {"train.phases.0.max_completion_tokens": 20}
    problems = [("p", "a b c d e")]
    with pytest.raises(ConfigError, match="has 7 tokens"):
        check_prompts(WordRenderer(), problems, allowed, 26, suffixes=["check it"])
    assert check_prompts(WordRenderer(), problems, allowed, 27, suffixes=["check it"]) == 7
    assert check_prompts(WordRenderer(), [], allowed, 1) == 0
