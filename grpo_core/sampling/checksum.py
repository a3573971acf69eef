"""Checksums of weights that fusing, splitting, reordering and padding with zeros leave alone.

An engine fuses q, k and v, splits tensors over devices, packs them for its kernels and pads the
vocabulary, so tensors cannot be compared. The sum of a mix of each weight's bits can: it is the
same in any order, and a single weight that is one bit off moves it, but for one chance in 2^64. It
runs inside the engine's processes too, so it imports nothing of the trainer.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

OTHERS = "tensors that the engine names otherwise"
"""Compared in one sum: neither side's names are known to the other."""

_WORD = (1 << 64) - 1
_FACTORS = (-7046029254386353131, -4417276706812531889)
"""Odd 64-bit constants whose bits are mixed well, of SplitMix and xxHash."""
_CHUNK = 1 << 20
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def checksum(tensor: Tensor) -> int:
    """Sum over the elements of a 64-bit mix of each one's bits, in [0, 2^64); zeros add nothing.

    Args:
        tensor: Any shape, floating dtype and device; read in chunks of 8 MB.
    """
    numbers = tensor.detach().reshape(-1)
    total = torch.zeros((), dtype=torch.int64, device=tensor.device)
    for chunk in torch.split(numbers, _CHUNK):
        # + 0 makes zeros of -0.0, which kernels do not keep apart
        total += _mixed((chunk + 0).view(_BITS[tensor.element_size()])).sum()
    return int(total) & _WORD


class HeldWeights(NamedTuple):
    """Weights as one rank of an engine holds them; plain values, to travel between processes.

    Args:
        name: Parameter of the engine's model.
        parts: Names of the tensors that are fused in it; its own when none are.
        dtype: As torch calls it, `bfloat16`.
        shard: Which part of the tensor it is; ranks that hold a copy of it give the same.
        checksum: Of what is held.
    """

    name: str
    parts: Sequence[str]
    dtype: str
    shard: str
    checksum: int


def differing(
    held: Iterable[HeldWeights],
    weights: Mapping[str, Tensor],
    ties: Mapping[str, str] | None = None,
) -> list[str]:
    """Names of the engine's parameters that are not made of `weights`, sorted.

    Parameters that are named after no weight may have the sum of any: a file may lack a prefix, or
    hold a tied tensor twice. What is left of both sides then is compared in one sum, as `OTHERS`.
    What only one side holds is not looked at.

    Args:
        held: Of every rank.
        weights: Whole tensors by the names of the model's state dict, each once.
        ties: Further names of tensors in `weights` → their names there.
    """
    ties = ties or {}
    named: dict[str, list[HeldWeights]] = defaultdict(list)
    others: dict[str, list[HeldWeights]] = defaultdict(list)
    for one in held:
        parts = [ties.get(part, part) for part in one.parts]
        is_named = all(part in weights for part in parts)
        (named if is_named else others)[one.name].append(one._replace(parts=parts))
    wrong = [
        name
        for name, shards in named.items()
        if _expected(shards[0].parts, weights, shards[0].dtype) not in _sums(shards)
    ]
    left = weights.keys() - {part for shards in named.values() for part in shards[0].parts}
    if left and not _is_accounted_for(left, weights, [*named.values()], [*others.values()]):
        wrong.append(OTHERS)
    return sorted(wrong)


def _is_accounted_for(
    left: Collection[str],
    weights: Mapping[str, Tensor],
    named: Sequence[Sequence[HeldWeights]],
    others: Sequence[Sequence[HeldWeights]],
) -> bool:
    """Is what the engine names otherwise made of the weights that are left?"""
    dtype = next((shards[0].dtype for shards in (*others, *named)), "")
    expected = {name: _expected([name], weights, dtype) for name in left}
    held = {value for shards in (*named, *others) for value in _sums(shards)}
    rest = [value for value in expected.values() if value not in held]
    known = set(expected.values())
    unknown = [sums for sums in map(_sums, others) if not known.intersection(sums)]
    total = sum(next(iter(sums), 0) for sums in unknown) & _WORD
    if not rest or not unknown:
        return bool(named or others)
    return sum(rest) & _WORD == total


def _expected(parts: Iterable[str], weights: Mapping[str, Tensor], dtype: str) -> int:
    """Checksum of the parts together, each in the engine's dtype."""
    tensors = (weights[part] for part in parts)
    return sum(checksum(t.to(getattr(torch, dtype)) if dtype else t) for t in tensors) & _WORD


def _sums(shards: Sequence[HeldWeights]) -> list[int]:
    """What the whole tensor's checksum may be, likeliest first; none when copies of a shard differ.

    Ranks with equal checksums hold copies of the whole or, seldom, parts that are equal.
    """
    copies: dict[str, set[int]] = defaultdict(set)
    for one in shards:
        copies[one.shard].add(one.checksum)
    if any(len(values) > 1 for values in copies.values()):
        return []
    values = [value for (value,) in copies.values()]
    total = sum(values) & _WORD
    return [values[0], total] if len(set(values)) == 1 else [total]


def _mixed(bits: Tensor) -> Tensor:
    """Bits [n] of any integer dtype → int64 [n]; 0 stays 0."""
    mixed = bits.to(torch.int64)
    for factor in _FACTORS:
        mixed.mul_(factor)
        mixed.bitwise_xor_((mixed >> 29).bitwise_and_((1 << 35) - 1))
    return mixed.mul_(_FACTORS[0])
