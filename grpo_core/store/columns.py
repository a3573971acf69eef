"""Columns that several tables share, built from lists of token-level values."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Logprobs = npt.NDArray[np.float32]


def logprob_columns(prefix: str, rows: Sequence[Logprobs | None]) -> dict[str, list[Any]]:
    """The list column `<prefix>_logprobs` and its per-row scalars, see `store.schemas`.

    Args:
        prefix: `sampling` or `old`.
        rows: One fp32 array [T] a row, nats; None where there is none.
    """
    names = ("sum", "min", "max", "nonfinite")
    scalars = [_scalars(row) if row is not None else (None,) * len(names) for row in rows]
    return {
        f"{prefix}_logprobs": list(rows),
        **{
            f"{prefix}_logprob_{name}": [values[n] for values in scalars]
            for n, name in enumerate(names)
        },
    }


def _scalars(row: Logprobs) -> tuple[float, float, float, int]:
    """Sum, minimum, maximum of the finite values, and how many are not finite."""
    finite = row[np.isfinite(row)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    return float(row.sum(dtype=np.float64)), low, high, int(row.size - finite.size)
