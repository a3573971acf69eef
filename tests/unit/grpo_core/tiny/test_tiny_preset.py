"""The tiny preset speaks to the tiny model as its warm start did."""

from grpo_core.config import load_config
from grpo_core.tiny.demonstrations import PROMPT_TEMPLATE


def test_the_preset_renders_prompts_like_the_warm_start() -> None:
    assert load_config("tiny").prompt.template == PROMPT_TEMPLATE
