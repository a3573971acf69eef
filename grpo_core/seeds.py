"""Every random choice of the product, derived from what it is for.

A seed is a hash of (run seed, stage, step, prompt_id, sample_index) or as many of these as matter,
so no draw depends on row order, ranks, resume or on what was drawn before it.
"""

import hashlib
import json

import numpy as np

_SEED_BITS = 63


def derive_seed(*parts: str | int) -> int:
    """Return the seed of one purpose, in [0, 2**63): it also fits a signed 64-bit column.

    The canonical encoding is a JSON list, so `("a", 1)`, `("a", "1")` and `("a1",)` differ.

    Args:
        parts: What the draw is for, for example `(run_seed, "prefilter", prompt_id, sample_index)`.

    Raises:
        TypeError: A part is neither a string nor an integer (a float has no canonical text).
        ValueError: There is no part.
    """
    return int.from_bytes(_digest(parts)[:8], "big") >> (64 - _SEED_BITS)


def generator(*parts: str | int) -> np.random.Generator:
    """Return a Philox generator keyed by 128 bits of the same hash as `derive_seed`."""
    return np.random.Generator(np.random.Philox(key=int.from_bytes(_digest(parts)[:16], "big")))


def _digest(parts: tuple[str | int, ...]) -> bytes:
    if not parts:
        raise ValueError("a seed needs at least one part that says what it is for")
    for part in parts:
        if isinstance(part, bool) or not isinstance(part, (str, int)):
            raise TypeError(f"seed parts are strings or integers, got {part!r}")
    canonical = json.dumps(parts, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).digest()
