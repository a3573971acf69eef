"""Columns that several tables share, built from lists of token-level values."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Logprobs = Sequence[npt.NDArray[np.float32]]


def logprob_columns(prefix: str, rows: Logprobs) -> dict[str, list[Any]]:
    """The list column `<prefix>_logprobs` and its per-row scalars, see `store.schemas`.

    Args:
        prefix: `sampling` or `old`.
        rows: One fp32 array [T] a row, nats.
    """
    finite = [row[np.isfinite(row)] for row in rows]
    return {
        f"{prefix}_logprobs": list(rows),
        f"{prefix}_logprob_sum": [float(row.sum(dtype=np.float64)) for row in rows],
        f"{prefix}_logprob_min": [float(row.min()) if row.size else 0.0 for row in finite],
        f"{prefix}_logprob_max": [float(row.max()) if row.size else 0.0 for row in finite],
        f"{prefix}_logprob_nonfinite": [
            int(row.size - kept.size) for row, kept in zip(rows, finite, strict=True)
        ],
    }
