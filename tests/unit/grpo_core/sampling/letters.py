"""A tokenizer of one token a character for the random policies of `contract`."""

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789+-*/=.,?!:;()[]{}#$%&"


def letter_tokenizer() -> PreTrainedTokenizerFast:
    """The policies' 60 ids are <pad>, <bos>, <eos> and 57 characters."""
    vocabulary = {t: i for i, t in enumerate(["<pad>", "<bos>", "<eos>", *LETTERS])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    core.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    core.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="<eos>")
