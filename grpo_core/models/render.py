"""From a problem's text to the token ids that the model is given, and back."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from jinja2 import TemplateError

from grpo_core.config.data import PromptConfig
from grpo_core.errors import ConfigError, DataContractError
from grpo_core.prompts.template import CHAT, chat_messages, render_problem
from grpo_core.store.models import TEMPLATE_DATE

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_WORD = re.compile(r"\S+")
_CHANCE = re.compile(r"\|\s*random\b|\blipsum\b")
_SHOWN_CHARACTERS = 80


class PromptRenderer:
    """Renders problems for one tokenizer, the same in prefilter, training and evaluation.

    Args:
        tokenizer: The policy's.
        config: Template, system text, instruction and stop strings.

    Raises:
        ConfigError: `prompt.template` is `chat` but the tokenizer has no chat template, or one that
            draws at random.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerBase", config: PromptConfig) -> None:
        if config.template == CHAT and not tokenizer.chat_template:
            raise ConfigError(
                "prompt.template is `chat`, but the tokenizer has no chat template",
                "for a base model write the prompt as a Jinja text, for example prompt.template = "
                '"{{ problem }}\\n{{ instruction }}\\n"',
            )
        if config.template == CHAT and (found := _CHANCE.search(str(tokenizer.chat_template))):
            raise ConfigError(
                f"the tokenizer's chat template draws at random ({found[0]!r}), so no prompt could "
                "be rendered twice",
                "write the prompt as a Jinja text in prompt.template",
            )
        self._tokenizer = tokenizer
        self._config = config

    def text(self, problem_text: str, suffix_text: str = "") -> str:
        """The model input as text."""
        if self._config.template != CHAT:
            return render_problem(self._config, problem_text, suffix_text)
        messages = chat_messages(self._config, problem_text, suffix_text)
        try:
            rendered = self._tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, tokenize=False, strftime_now=_date
            )
        except (TemplateError, ValueError, TypeError, LookupError) as error:
            raise ConfigError(
                f"the tokenizer's chat template refuses {[m['role'] for m in messages]}: {error}",
                "templates without a system role need an empty prompt.system",
            ) from error
        return str(rendered)

    def render(self, problem_text: str, suffix_text: str = "") -> tuple[int, ...]:
        """Token ids [P] of the prompt.

        A chat template writes its own special tokens. A Jinja text gets what the tokenizer puts
        before a text (a beginning-of-sequence id), unless the text writes it itself.

        Raises:
            DataContractError: A word is not in the vocabulary, or the prompt is empty.
            ConfigError: The template fails, or the tokenizer ends each text with its EOS id.
        """
        text = self.text(problem_text, suffix_text)
        ids = self._encode(text)
        if not ids:
            raise DataContractError(f"problem {_shown(problem_text)}: the prompt has no token")
        if self._tokenizer.unk_token_id in ids and self._has_unknown(text):
            raise DataContractError(
                f"problem {_shown(problem_text)}: {self._unknown_word(text)!r} is not in the "
                "tokenizer's vocabulary",
                "leave the problem out, or take a model whose tokenizer covers it",
            )
        return ids

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of a completion: no special tokens, cut before the first stop string."""
        text = str(
            self._tokenizer.decode(
                list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        )
        ends = [text.find(stop) for stop in self._config.stop]
        return text[: min((end for end in ends if end >= 0), default=len(text))]

    def _encode(self, text: str) -> tuple[int, ...]:
        tokenizer = self._tokenizer
        writes_own = self._config.template == CHAT or (
            bool(tokenizer.bos_token) and text.startswith(tokenizer.bos_token)
        )
        ids = tuple(tokenizer(text, add_special_tokens=not writes_own)["input_ids"])
        adds_end = not writes_own and ids[-1:] == (tokenizer.eos_token_id,)
        if adds_end and not text.endswith(str(tokenizer.eos_token)):
            raise ConfigError(
                "the tokenizer ends every text with its end-of-sequence id, so a prompt would be "
                "over before the completion starts",
                "set add_eos_token to false in tokenizer_config.json",
            )
        return ids

    def _has_unknown(self, text: str) -> bool:
        """Does `text` hold more unknown ids than times it spells the unknown token out?

        Byte-level tokenizers know every word and use one id for unknown, begin and end alike.
        """
        ids = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        spelled = text.count(str(self._tokenizer.unk_token))
        return bool(ids.count(self._tokenizer.unk_token_id) > spelled)

    def _unknown_word(self, text: str) -> str:
        """The first word of `text` that becomes the unknown id on its own."""
        unknown = self._tokenizer.unk_token_id
        for match in _WORD.finditer(text):
            if unknown in self._tokenizer(match.group(), add_special_tokens=False)["input_ids"]:
                return match.group()
        return text[:_SHOWN_CHARACTERS]


def _date(text_format: str) -> str:
    """What chat templates get for `strftime_now`: the same on every day."""
    return datetime.fromisoformat(TEMPLATE_DATE).strftime(text_format)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}...")
