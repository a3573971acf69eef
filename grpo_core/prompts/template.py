"""How a problem becomes the text or the chat messages that the model is given."""

import traceback
from functools import lru_cache
from typing import Final

from jinja2 import StrictUndefined, Template, TemplateError, TemplateSyntaxError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from grpo_core.config.data import PromptConfig
from grpo_core.errors import ConfigError

CHAT: Final = "chat"
"""Value of `prompt.template` that means the tokenizer's own chat template."""

_VARIABLES = frozenset({"problem", "system", "instruction", "suffix"})
_RENDER_ERRORS = (
    TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)


def chat_messages(
    config: PromptConfig, problem_text: str, suffix_text: str = ""
) -> list[dict[str, str]]:
    """Return the messages for the tokenizer's chat template: system (when set) and user.

    The user's message is problem, suffix and instruction, each on its own line, empty ones left
    out.
    """
    parts = [part for part in (problem_text, suffix_text, config.instruction) if part]
    user = {"role": "user", "content": "\n".join(parts)}
    return [{"role": "system", "content": config.system}, user] if config.system else [user]


def render_problem(config: PromptConfig, problem_text: str, suffix_text: str = "") -> str:
    """Return the model input of a Jinja `prompt.template`.

    The template runs in a sandbox and sees problem, system, instruction and suffix only.

    Raises:
        ConfigError: The template is `chat`, is broken, or fails; the message names the line.
    """
    template = _compile(config.template)
    try:
        return template.render(
            problem=problem_text,
            system=config.system,
            instruction=config.instruction,
            suffix=suffix_text,
        )
    except _RENDER_ERRORS as error:
        raise ConfigError(
            f"prompt.template: line {_failing_line(error)}: {error}",
            f"known names: {', '.join(sorted(_VARIABLES))}",
        ) from error


def check_template(config: PromptConfig) -> None:
    """Raise ConfigError when the template cannot render, or leaves the problem out."""
    if config.template != CHAT:
        probe = "the problem itself"
        if probe not in render_problem(config, probe):
            raise ConfigError(
                "prompt.template: expected the problem in the rendered text, got none",
                "write {{ problem }} where it belongs",
            )


@lru_cache(maxsize=16)
def _compile(source: str) -> Template:
    if source == CHAT:
        raise ConfigError(
            "prompt.template: 'chat' is rendered by the tokenizer, expected a Jinja text",
            "build its input with chat_messages",
        )
    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True
    )
    del environment.filters["random"], environment.globals["lipsum"]  # they draw at random
    try:
        template = environment.from_string(source)
        unknown = meta.find_undeclared_variables(environment.parse(source)) - _VARIABLES
    except TemplateSyntaxError as error:
        raise ConfigError(
            f"prompt.template: line {error.lineno}: {error.message}",
            "prompt.template is `chat` or a Jinja text over problem, system, instruction, suffix",
        ) from error
    if unknown:
        name = min(unknown)
        raise ConfigError(
            f"prompt.template: line {_line_of(source, name)}: unknown name {name!r}",
            f"known names: {', '.join(sorted(_VARIABLES))}",
        )
    return template


def _line_of(source: str, name: str) -> int:
    lines = source.splitlines()
    return next((number for number, line in enumerate(lines, start=1) if name in line), 1)


def _failing_line(error: BaseException) -> int:
    """The template's line that an error passed through; Jinja maps it into the traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename in ("<template>", "<unknown>")]
    return lines[-1] or 1 if lines else 1
