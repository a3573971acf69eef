"""Rows of the reference cache: their keys, what they depend on, which values they may hold."""

import hashlib
import struct
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from grpo_core.errors import DataContractError
from grpo_core.store.canonical import sha256_json

CACHE_VERSION = 2
"""Raised when the scoring code gives other numbers, or rows get other keys."""

_KINDS_SINCE: dict[int, dict[str, int]] = {2: {"ref_logp": 2, "train": 2}}
"""Cache version → kinds of artefacts that rest on a cache → their first version that used it."""

Logprobs = npt.NDArray[np.float32]
_MAX_LOGPROB = 1e-4
"""Rounding may lift a log-prob of a certain token a little above 0."""
_HALF_PRECISION_BITS = np.uint32(0x1FFF)
"""Low mantissa bits that are zero in every fp16 value, and so in every bf16 value too."""
_ROWS_AT_ONCE = 1024
_TELLING_NATS = 0.5
"""Values nearer 0 tell nothing: logit minus log-sum-exp is a multiple of their last place, so a
confident token has zero low bits in fp32, too."""
_FEWEST_TELLING_VALUES = 8
"""One telling value has zero low bits by chance in 2**6 cases at worst (logits up to 128)."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What reference log-probs depend on besides the row itself.

    Args:
        weights: Digest of the reference's weights and config.
        tokenizer: Digest of tokenizer and template.
        dtype: Of weights and activations.
        attention: Attention implementation.
        version: Version of the scoring code.
    """

    weights: str
    tokenizer: str
    dtype: str
    attention: str
    version: int = CACHE_VERSION

    @property
    def digest(self) -> str:
        """Name of the cache's directory, 32 hex digits."""
        return sha256_json(asdict(self))[:32]


@dataclass(frozen=True)
class RefRow:
    """A completion whose reference log-probs are wanted.

    Args:
        prompt_token_ids: [P].
        completion_token_ids: [T].
        temperature: Divides the logits; log-probs at another temperature are other numbers.
    """

    prompt_token_ids: Sequence[int]
    completion_token_ids: Sequence[int]
    temperature: float

    @cached_property
    def key(self) -> str:
        """Key of the row, 32 hex digits."""
        hasher = hashlib.sha256(struct.pack("<d", round(self.temperature, 6)))
        for ids in (self.prompt_token_ids, self.completion_token_ids):
            hasher.update(struct.pack("<q", len(ids)))
            hasher.update(array("i", ids).tobytes())
        return hasher.hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Found:
    """What the cache has of the rows that were asked for, in their order.

    Args:
        logprobs: fp32 [T] of each row, None where there is none.
        scored_by: Who scored each row, empty where there is none.
    """

    logprobs: list[Logprobs | None]
    scored_by: list[str]


def check_values(rows: Sequence[RefRow], logprobs: Sequence[Logprobs]) -> Logprobs:
    """Refuse values that are not the fp32 log-probs of their rows; names the first bad row.

    Returns:
        The values of all rows, one row after the other.

    Raises:
        DataContractError: Wrong dtype or length, NaN or infinity, above 0, or fp32 values that
            were rounded to bf16 or fp16 before.
    """
    lengths = [len(row.completion_token_ids) for row in rows]
    return _check_values([row.key for row in rows], lengths, logprobs)


def check_stored_values(keys: Sequence[str], logprobs: Sequence[Logprobs]) -> None:
    """`check_values` for rows whose token ids are not at hand, so that no length is judged."""
    for start in range(0, len(keys), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        _check_values(keys[part], list(map(len, logprobs[part])), logprobs[part])


def _check_values(
    keys: Sequence[str], lengths: list[int], logprobs: Sequence[Logprobs]
) -> Logprobs:
    try:
        flat = flatten(logprobs)
        has_right_form = lengths == list(map(len, logprobs))
    except (TypeError, ValueError):
        has_right_form = False
    if not has_right_form:
        raise _bad_form(keys, lengths, logprobs)
    if not flat.size:
        return flat
    if not (flat.max() <= _MAX_LOGPROB and np.isfinite(flat.min())):
        raise _bad_value(keys, logprobs)
    rounded = _first_rounded(flat, np.array(lengths, np.int64))
    if rounded is not None:
        raise _refusal(
            keys[rounded],
            "every value below -0.5 is a bf16 or fp16 number (its low mantissa bits are zero)",
            hint="score in fp32: a log-prob rounded to bf16 is off by up to 0.4 %",
        )
    return flat


def flatten(logprobs: Sequence[Logprobs]) -> Logprobs:
    """The values of all rows, one row after the other; refuses another dtype and more dimensions.

    Raises:
        TypeError: An array is not fp32.
        ValueError: An array has not one dimension.
    """
    return np.concatenate([np.empty(0, np.float32), *logprobs], dtype=np.float32, casting="no")


def _bad_form(
    keys: Sequence[str], lengths: Sequence[int], logprobs: Sequence[Logprobs]
) -> DataContractError:
    """Names the first row whose array has another dtype or shape than its log-probs must have."""
    for key, length, values in zip(keys, lengths, logprobs, strict=True):
        if values.dtype != np.float32:
            return _refusal(key, f"dtype {values.dtype}, expected float32")
        if values.shape != (length,):
            return _refusal(key, f"shape {values.shape}, expected ({length},)")
    raise AssertionError("called for rows of the right form")


def _bad_value(keys: Sequence[str], logprobs: Sequence[Logprobs]) -> DataContractError:
    """Names the first row with a value that is no log-prob."""
    for key, values in zip(keys, logprobs, strict=True):
        bad = values[~((values <= _MAX_LOGPROB) & np.isfinite(values))]
        if bad.size:
            what = "above 0" if bad[0] > 0 else "NaN or infinity"
            return _refusal(key, f"a log-prob of {bad[0]:.3g}, {what}")
    raise AssertionError("called for rows without a bad value")


def _first_rounded(flat: Logprobs, lengths: npt.NDArray[np.int64]) -> int | None:
    """Number of the first row whose telling values all carry the pattern of half precision.

    Rows with too few telling values are judged together.
    """
    telling = flat <= -_TELLING_NATS
    has_low_bits = (flat.view(np.uint32) & _HALF_PRECISION_BITS) != 0
    filled = np.flatnonzero(lengths)
    starts = (np.cumsum(lengths) - lengths)[filled]
    if np.logical_or.reduceat(telling & has_low_bits, starts).all():
        return None  # the usual case: each row has a value that no half-precision number is
    num_telling = np.add.reduceat(telling, starts, dtype=np.int64)
    num_rounded = np.add.reduceat(telling & ~has_low_bits, starts, dtype=np.int64)
    is_suspect = (num_telling >= _FEWEST_TELLING_VALUES) & (num_rounded == num_telling)
    if is_suspect.any():
        return int(filled[is_suspect.argmax()])
    total = int(num_telling.sum())
    is_all = total >= _FEWEST_TELLING_VALUES and int(num_rounded.sum()) == total
    return int(filled[(num_telling > 0).argmax()]) if is_all else None


def _refusal(key: str, problem: str, hint: str = "") -> DataContractError:
    return DataContractError(f"reference log-probs of row {key}: {problem}", hint=hint)


def rests_on_cache(kind: str) -> bool:
    """Whether artefacts of a kind name rows of a reference cache."""
    return kind in _KINDS_SINCE[CACHE_VERSION]


def cache_version_of(payload: Mapping[str, Any]) -> int:
    """Version of the reference cache that an artefact was made with."""
    kind, version = payload.get("kind", ""), payload.get("version", 0)
    if not rests_on_cache(kind):
        return CACHE_VERSION
    fitting = [cache for cache, since in _KINDS_SINCE.items() if version >= since[kind]]
    return max(fitting, default=1)


def fingerprint_of(payload: Mapping[str, Any]) -> str:
    """Digest of the reference that an artefact was trained with; empty when it had none."""
    fields, inputs = payload.get("fields", {}), payload.get("inputs", {})
    if "reference" not in inputs:
        return ""
    return Fingerprint(
        weights=inputs["reference"],
        tokenizer=inputs["tokenizer"],
        dtype=fields["model.dtype"],
        attention=fields["model.attention"],
        version=cache_version_of(payload),
    ).digest
