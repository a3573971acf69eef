"""Read-through access to the reference's log-probs."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from grpo_core.config import RunConfig
from grpo_core.errors import CacheStaleError
from grpo_core.models.fixed_scoring import score_fixed
from grpo_core.models.head import Head, check_head
from grpo_core.models.load import load_policy
from grpo_core.models.scoring import score
from grpo_core.planning.externals import model_directory
from grpo_core.policy.origins import RefOrigin, Scorer
from grpo_core.policy.runtime import pick_device
from grpo_core.seeds import generator
from grpo_core.store.ref_cache import RefLogprobCache
from grpo_core.store.ref_rows import Fingerprint, Logprobs, RefRow

_TOLERANCE_NATS = {"float32": 1e-3}
_HALF_TOLERANCE_NATS = 0.25
"""Largest difference of a token's log-prob between two machines, by the model's dtype."""


@dataclass(frozen=True, slots=True)
class RefRead:
    """Reference log-probs of the rows that were asked for, in their order.

    Args:
        logprobs: fp32 [T] of each row.
        origins: Where each came from.
        seconds: What each took: its share of the look-up, or of loading and scoring.
    """

    logprobs: list[Logprobs]
    origins: list[RefOrigin]
    seconds: list[float]


@dataclass
class Reference:
    """The frozen reference behind its cache; loaded only when the cache misses a row.

    Args:
        config: The resolved configuration.
        cache: Where its log-probs are kept.
        scorer: Who asks.
    """

    config: RunConfig
    cache: RefLogprobCache
    scorer: Scorer
    hits: int = 0
    misses: int = 0
    _loaded: tuple[Any, Head] | None = field(default=None, repr=False)
    _is_proven: bool = field(default=False, repr=False)
    _last: tuple[tuple[str, ...], RefRead] = field(default=((), RefRead([], [], [])), repr=False)

    @classmethod
    def open(
        cls, config: RunConfig, lake_root: Path, *, weights: str, tokenizer: str, scorer: Scorer
    ) -> "Reference":
        """The reference of a run.

        Args:
            config: The resolved configuration.
            lake_root: Root of the lake.
            weights: Digest of the reference's weights.
            tokenizer: Digest of the tokenizer.
            scorer: Who asks.
        """
        fingerprint = Fingerprint(
            weights=weights,
            tokenizer=tokenizer,
            dtype=config.model.dtype,
            attention=config.model.attention,
        )
        return cls(config, RefLogprobCache(lake_root / "ref_logprobs", fingerprint), scorer)

    def read(self, rows: Sequence[RefRow]) -> RefRead:
        """Log-probs of each row, from the cache or computed and appended.

        The bits of a row do not depend on what else is asked for, so only missing rows are scored.
        Asking for the same rows again at once is answered from memory and counts nothing.

        Raises:
            CacheStaleError: A sample of the cached rows is not what the reference says.
        """
        keys = tuple(row.key for row in rows)
        if keys != self._last[0]:
            self._last = (keys, self._read_through(rows))
        return self._last[1]

    def release(self) -> None:
        """Let the model go, out of the GPU at least; the next miss takes it up again.

        It stays in main memory when it needs no more than `execution.reference.memory_share`.
        """
        if self._loaded is None:
            return
        model, head = self._loaded
        share = self.config.execution.reference.memory_share
        if _model_bytes(model) > share * _memory_bytes():
            self._loaded = None
        elif next(model.parameters()).device.type != "cpu":
            self._loaded = (model.to("cpu"), head)

    def _read_through(self, rows: Sequence[RefRow]) -> RefRead:
        started = time.perf_counter()
        cached = self.cache.read(rows)
        first: dict[str, int] = {}
        for n, values in enumerate(cached.logprobs):
            if values is None:  # equal rows are scored once
                first.setdefault(rows[n].key, n)
        missing = list(first.values())
        found = [n for n, values in enumerate(cached.logprobs) if values is not None]
        looked_up = time.perf_counter()
        if found and not self._is_proven:
            self._prove(rows, cached.logprobs, found)
        fresh = dict(zip(missing, self._score([rows[n] for n in missing]), strict=True))
        if missing:
            self.cache.put_many(
                [rows[n] for n in missing], list(fresh.values()), scored_by=self.scorer.signature
            )
        self.hits += len(rows) - len(missing)
        self.misses += len(missing)
        look_up = (looked_up - started) / max(len(rows), 1)
        scoring = (time.perf_counter() - looked_up) / max(len(missing), 1)
        origins = [self.scorer.origin_of(writer) for writer in cached.scored_by]
        logprobs = [
            fresh[first[row.key]] if values is None else values
            for row, values in zip(rows, cached.logprobs, strict=True)
        ]
        for n, values in enumerate(cached.logprobs):
            if values is None:
                origins[n] = RefOrigin.SCORED if n in fresh else RefOrigin.REPEAT
        seconds = [look_up + scoring * (n in fresh) for n in range(len(rows))]
        return RefRead(logprobs, origins, seconds)

    def _prove(
        self, rows: Sequence[RefRow], cached: Sequence[Logprobs | None], found: Sequence[int]
    ) -> None:
        """Score a seeded sample of cached rows anew and refuse a cache that says otherwise."""
        count = min(self.config.execution.reference.check_rows, len(found))
        rng = generator(self.config.seed_of("train"), "prove", rows[found[0]].key)
        sample = [found[n] for n in rng.choice(len(found), size=count, replace=False)]
        for n, scored in zip(sample, self._score([rows[n] for n in sample]), strict=True):
            values = cached[n]
            if values is None or not values.size:
                continue
            difference = np.abs(values - scored)
            token = int(difference.argmax())
            tolerance = _TOLERANCE_NATS.get(self.config.model.dtype, _HALF_TOLERANCE_NATS)
            if not difference[token] <= tolerance:
                raise CacheStaleError(
                    f"{self.cache.directory}: row {rows[n].key}, token {token}: the cache says "
                    f"{values[token]:.6f} nats, the reference {scored[token]:.6f}; expected "
                    f"within {tolerance}",
                    hint="the cached rows were made by other code or rounded; remove the "
                    "directory and its rows are computed again",
                )
        self._is_proven = True

    def _score(self, rows: Sequence[RefRow]) -> list[Logprobs]:
        if not rows:
            return []
        model, head = self._load()
        pairs = [(row.prompt_token_ids, row.completion_token_ids) for row in rows]
        return score_fixed(model, pairs, [row.temperature for row in rows], head)

    def _load(self) -> tuple[Any, Head]:
        device = pick_device(self.config)
        if self._loaded is None:
            config = self.config.model
            model = load_policy(
                model_directory(config.reference or config.path),
                dtype=config.dtype,
                attention=config.attention,
                trust_remote_code=config.trust_remote_code,
                device=device,
            )
            self._loaded = (model, check_head(model))
        else:
            self._loaded[0].to(device)
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


def _model_bytes(model: torch.nn.Module) -> int:
    tensors = [*model.parameters(), *model.buffers()]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
