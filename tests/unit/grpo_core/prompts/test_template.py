import pytest

from grpo_core.config.data import PromptConfig
from grpo_core.errors import ConfigError
from grpo_core.prompts.template import chat_messages, check_template, render_problem

TEMPLATE = "{{ system }}|{{ problem }}{% if suffix %} {{ suffix }}{% endif %}|{{ instruction }}\n"


def config(template: str = TEMPLATE, **fields: str) -> PromptConfig:
    return PromptConfig(template=template, **fields)


def test_render_is_verbatim():
    filled = config(system="S", instruction="I")
    assert render_problem(filled, "a < b {{ problem }}") == "S|a < b {{ problem }}|I\n"
    assert render_problem(filled, "p", "Be brief.") == "S|p Be brief.|I\n"


def test_chat_messages():
    assert chat_messages(config("chat"), "p") == [{"role": "user", "content": "p"}]
    messages = chat_messages(config("chat", system="S", instruction="I"), "p", "x")
    assert messages == [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "p\nx\nI"},
    ]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ problem }}\n{% if %}", "line 2"),
        ("{{ problem }}\n\n{{ prompt }}", "line 3: unknown name 'prompt'"),
        ("{{ problem }}\n{{ problem.nothing }}", "line 2"),
        ("{{ problem }}\n{{ 1 / 0 }}", "line 2"),
        ("{{ problem.__class__.__mro__ }}", "line 1"),
        ("{{ system }}", "expected the problem"),
        ("{{ problem", "line 1"),
        ("{{ problem | nofilter }}", "line 1"),
    ],
)
def test_broken_templates_name_the_line(template, message):
    with pytest.raises(ConfigError, match=message):
        check_template(config(template))


def test_good_templates_pass():
    check_template(config())
    check_template(config("chat"))


def test_chat_is_not_rendered_here():
    with pytest.raises(ConfigError, match="rendered by the tokenizer"):
        render_problem(config("chat"), "p")
