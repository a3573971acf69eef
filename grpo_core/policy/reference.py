"""Read-through access to the reference's log-probs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from grpo_core.config import RunConfig
from grpo_core.models.head import Head, check_head
from grpo_core.models.load import load_policy
from grpo_core.models.scoring import score
from grpo_core.planning.externals import model_directory
from grpo_core.policy.runtime import pick_device
from grpo_core.store.ref_cache import RefLogprobCache
from grpo_core.store.ref_rows import Fingerprint, RefRow

Logprobs = npt.NDArray[np.float32]


@dataclass
class Reference:
    """The frozen reference behind its cache; loaded only when the cache misses a row.

    Args:
        config: The resolved configuration.
        cache: Where its log-probs are kept.
    """

    config: RunConfig
    cache: RefLogprobCache
    hits: int = 0
    misses: int = 0
    _loaded: tuple[Any, Head] | None = field(default=None, repr=False)
    _last: tuple[tuple[str, ...], list[Logprobs]] = field(default=((), []), repr=False)

    @classmethod
    def open(
        cls, config: RunConfig, lake_root: Path, *, weights: str, tokenizer: str
    ) -> "Reference":
        """The reference of a run.

        Args:
            config: The resolved configuration.
            lake_root: Root of the lake.
            weights: Digest of the reference's weights.
            tokenizer: Digest of the tokenizer.
        """
        fingerprint = Fingerprint(
            weights=weights,
            tokenizer=tokenizer,
            dtype=config.model.dtype,
            attention=config.model.attention,
        )
        return cls(config, RefLogprobCache(lake_root / "ref_logprobs", fingerprint))

    def logprobs(self, rows: Sequence[RefRow]) -> list[Logprobs]:
        """Log-probs [T] of each row, from the cache or computed and appended.

        The rows are one work unit. When any row is missing the whole unit is scored and used, so
        that a partly filled cache gives the bits of an empty one. Asking for the same
        unit again at once is answered from memory and counts nothing.
        """
        keys = tuple(row.key for row in rows)
        if keys != self._last[0]:
            self._last = (keys, self._read_through(rows))
        return self._last[1]

    def _read_through(self, rows: Sequence[RefRow]) -> list[Logprobs]:
        cached = self.cache.get_many(rows)
        missing = [n for n, values in enumerate(cached) if values is None]
        self.hits += len(rows) - len(missing)
        self.misses += len(missing)
        if not missing:
            return [values for values in cached if values is not None]
        scored = score_unit(*self._load(), rows, self.config)
        self.cache.put_many([rows[n] for n in missing], [scored[n] for n in missing])
        return scored

    def release(self) -> None:
        """Let the model go; the next miss loads it again."""
        self._loaded = None

    def _load(self) -> tuple[Any, Head]:
        if self._loaded is None:
            config = self.config.model
            model = load_policy(
                model_directory(config.reference or config.path),
                dtype=config.dtype,
                attention=config.attention,
                trust_remote_code=config.trust_remote_code,
                device=pick_device(self.config),
            )
            self._loaded = (model, check_head(model))
        return self._loaded


def score_unit(model: Any, head: Head, rows: Sequence[RefRow], config: RunConfig) -> list[Logprobs]:
    """Score the rows of one unit in order of length, longest first; results in given order.

    Longest first shows an out-of-memory error at once instead of at the end.
    """
    order = sorted(
        range(len(rows)),
        key=lambda n: (
            -len(rows[n].prompt_token_ids) - len(rows[n].completion_token_ids),
            rows[n].key,
        ),
    )
    scored = score(
        model,
        [(rows[n].prompt_token_ids, rows[n].completion_token_ids) for n in order],
        [rows[n].temperature for n in order],
        rows_per_batch=config.sampling.score_rows,
        head=head,
        chunk_tokens=config.execution.logits_chunk_tokens,
    )
    results: list[Logprobs] = [np.empty(0, np.float32)] * len(rows)
    for position, values in zip(order, scored, strict=True):
        results[position] = values
    return results
