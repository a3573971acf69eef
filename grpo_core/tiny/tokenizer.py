"""The tiny model's tokenizer: one token a word, one token a digit.

A word's token carries the space before it, and the first word of a line is encoded as if a space
stood there, so a word has one token wherever it stands and `decode(encode(text)) == text`. Whatever
is not in the vocabulary becomes `<unk>`.
"""

import re
from collections.abc import Iterator
from functools import cache
from string import digits

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from grpo_core.prompts.suffixes import SUFFIXES
from grpo_core.tiny.demonstrations import PROMPT_TEMPLATE
from grpo_core.tiny.stories import all_texts
from grpo_core.tiny.words import DOLLAR, PAGE, PEOPLE, THINGS

PAD, BOS, EOS, UNK = "<pad>", "<bos>", "<eos>", "<unk>"
MAX_TOKENS = 256

_SYMBOLS = (" ", "\n", "<<", ">>", "#### ", "=", "+", "-", "*", "/", ".", ",", "?", ":")
_PIECES = r" ?[A-Za-z]+|#### |<<|>>|[0-9]|\n|[^\n]"
_LINE_START = r"(?<![^\n])"
_WORD = re.compile(r"[A-Za-z]+")
_SLOT = re.compile(r"\{[^}]*\}")


@cache
def vocabulary() -> tuple[str, ...]:
    """Every token in the order of its id: special tokens, symbols, digits, words."""
    words = sorted({word for text in _texts() for word in _WORD.findall(text)})
    return (PAD, BOS, EOS, UNK, *_SYMBOLS, *digits, *(f" {word}" for word in words))


def _texts() -> Iterator[str]:
    """Every text that a prompt or a completion is made of."""
    for text in (*all_texts(), PROMPT_TEMPLATE):
        yield _SLOT.sub(" ", text.replace("{{", "{").replace("}}", "}"))
    yield from SUFFIXES.values()
    for person in PEOPLE:
        yield from (person.name, person.he, person.He, person.him)
    for thing in (*THINGS, DOLLAR, PAGE):
        yield from (thing.one, thing.many)


def build_tokenizer() -> PreTrainedTokenizerFast:
    """The tokenizer; calling it puts `<bos>` first and nothing last."""
    vocab = {token: index for index, token in enumerate(vocabulary())}
    core = Tokenizer(models.WordLevel(vocab, unk_token=UNK))
    core.normalizer = normalizers.Replace(Regex(_LINE_START + r"(?=[A-Za-z])"), " ")
    core.pre_tokenizer = pre_tokenizers.Split(Regex(_PIECES), "isolated")
    core.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", special_tokens=[(BOS, vocab[BOS])]
    )
    core.decoder = decoders.Sequence(
        [decoders.Fuse(), decoders.Replace(Regex(_LINE_START + r" (?=[A-Za-z])"), "")]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        bos_token=BOS,
        eos_token=EOS,
        unk_token=UNK,
        clean_up_tokenization_spaces=False,
        model_max_length=MAX_TOKENS,
    )
