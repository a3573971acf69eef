"""The text that each token adds to a completion."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tokenizers.decoders import DecodeStream

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_UNFINISHED = "\ufffd"
"""What a decoder writes for the first bytes of a character whose last ones are still to come."""


def token_pieces(tokenizer: "PreTrainedTokenizerBase", token_ids: Sequence[int]) -> tuple[str, ...]:
    """Return the text that each token adds, [T]; joined they are the completion's text.

    A token decoded alone loses what it shares with its neighbours: the space before a word, or the
    bytes of a character that several tokens spell. The last token of such a character gets it
    whole, the others get an empty text.

    Args:
        tokenizer: The policy's.
        token_ids: A completion, special tokens included.
    """
    core = getattr(tokenizer, "backend_tokenizer", None)
    if core is None:
        return _pieces_of_growing_text(
            lambda ids: str(tokenizer.decode(ids, clean_up_tokenization_spaces=False)), token_ids
        )
    stream = DecodeStream(skip_special_tokens=False)
    return tuple(stream.step(core, token) or "" for token in token_ids)


def _pieces_of_growing_text(
    decode: Callable[[list[int]], str], token_ids: Sequence[int]
) -> tuple[str, ...]:
    """Pieces by decoding a window that starts one finished piece back, for any tokenizer."""
    pieces: list[str] = []
    start = finished = 0
    for end in range(1, len(token_ids) + 1):
        before = decode(list(token_ids[start:finished]))
        text = decode(list(token_ids[start:end]))
        if text.endswith(_UNFINISHED):
            pieces.append("")
            continue
        pieces.append(text[len(before) :])
        start, finished = finished, end
    return tuple(pieces)
