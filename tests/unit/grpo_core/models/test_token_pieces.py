"""What each token adds to the text, for the tokenizer families that people bring."""

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from grpo_core.models.load import load_tokenizer
from grpo_core.models.pieces import _pieces_of_growing_text, token_pieces
from grpo_core.objective.spans import template_span_mask
from grpo_core.paths import resolve_path

TEXT = "The answer is 4 €, so\n#### 4"


def byte_level():
    """One token a byte, as byte-level BPE has for what it never merged."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE({sign: n for n, sign in enumerate(alphabet)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=core)


def metaspace():
    """Words with their space in front, which a token decoded alone loses."""
    words = ["<unk>", *(f"▁{word}" for word in TEXT.split())]
    core = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    core.decoder = decoders.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>")


def shipped():
    return load_tokenizer(resolve_path("data/models/tiny"))


@pytest.mark.parametrize("make", [byte_level, metaspace, shipped])
@pytest.mark.parametrize("is_fast", [True, False])
def test_joined_pieces_are_the_text(make, is_fast):
    tokenizer = make()
    text = "Zoe had 3-1=2 shells\n#### 2" if make is shipped else TEXT.replace("\n", " ")
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    pieces = (
        token_pieces(tokenizer, ids)
        if is_fast
        else _pieces_of_growing_text(lambda some: str(tokenizer.decode(some)), ids)
    )
    assert len(pieces) == len(ids)
    assert "".join(pieces) == text == tokenizer.decode(ids)


def test_a_character_of_three_bytes_belongs_to_its_last_token():
    tokenizer = byte_level()
    ids = tokenizer("4 €", add_special_tokens=False)["input_ids"]
    assert token_pieces(tokenizer, ids) == ("4", " ", "", "", "€")


@pytest.mark.parametrize("make", [byte_level, metaspace])
def test_a_template_is_found_whatever_the_tokenizer_does_with_spaces(make):
    tokenizer = make()
    ids = tokenizer(TEXT.replace("\n", " "), add_special_tokens=False)["input_ids"]
    pieces = token_pieces(tokenizer, ids)
    generated = torch.ones((1, len(ids)), dtype=torch.bool)
    marked = template_span_mask([pieces], generated, ["The answer is"])[0]
    found = "".join(piece for piece, flag in zip(pieces, marked.tolist(), strict=True) if flag)
    assert found == "The answer is"
    euro = template_span_mask([pieces], generated, ["€,"])[0]
    assert int(euro.sum()) == (4 if make is byte_level else 0)
