"""A word-level tokenizer with an unknown token, made on the spot."""

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>", "<turn>")
WORDS = (
    *SPECIAL,
    "user",
    "system",
    "Sam",
    "has",
    "3",
    "apples",
    ".",
    "Answer",
    ":",
    "Think",
    "first",
)
CHAT_TEMPLATE = (
    "{% for m in messages %}<turn> {{ m.role }} : {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<turn> Answer :{% endif %}"
)


def word_tokenizer(*, chat_template: str | None = None, ends_texts: bool = False):
    vocabulary = {word: index for index, word in enumerate(WORDS)}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    core.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    core.post_processor = processors.TemplateProcessing(
        single="<bos> $A <eos>" if ends_texts else "<bos> $A",
        special_tokens=[("<bos>", 1), ("<eos>", 2)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<unk>",
        additional_special_tokens=["<turn>"],
        chat_template=chat_template,
    )


def encode(text: str) -> tuple[int, ...]:
    return tuple(WORDS.index(word) for word in text.split())
