"""A KV cache that appends in place and drops rows by filling their holes.

transformers' `DynamicCache` copies every layer's keys and values for each new token. That copy was
half of the sampling time of a small model on a CPU, so plain attention layers write into a buffer
with room to spare instead. Sliding, chunked and recurrent layers stay as transformers makes them.

Shapes: M rows, K rows kept, L cached tokens, C capacity in tokens; keys and values are
[M, heads, L, head_dim].
"""

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

_BLOCK_TOKENS = 32
"""Capacity grows by whole blocks, so a copy of the cache falls due once in so many tokens."""


class BufferedLayer(DynamicLayer):  # type: ignore[misc]
    """A `DynamicLayer` whose keys and values are views into larger buffers."""

    def __init__(self) -> None:
        super().__init__()
        self._buffers: tuple[Tensor, Tensor] | None = None

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append [M, heads, t, head_dim] and return all keys and values."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start = self.get_seq_length()
        end = start + key_states.shape[-2]
        if self._buffers is None or end > self._buffers[0].shape[-2]:
            self._grow(key_states, value_states, start, end)
        assert self._buffers is not None
        keys, values = self._buffers
        keys[:, :, start:end] = key_states
        values[:, :, start:end] = value_states
        self.keys, self.values = keys[:, :, :end], values[:, :, :end]
        return self.keys, self.values

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Rows become `beam_idx` [K]; only rows that change their place are copied when K <= M."""
        if self._buffers is None:
            return
        length = self.get_seq_length()
        num_rows = len(beam_idx)
        if num_rows > self.keys.shape[0]:
            keys, values = (buffer.index_select(0, beam_idx) for buffer in self._buffers)
        else:
            place = torch.arange(num_rows, device=beam_idx.device)
            moved = (beam_idx != place).nonzero().squeeze(1)
            source = beam_idx[moved]
            for buffer in self._buffers:
                buffer[moved, :, :length] = buffer[source, :, :length]
            keys, values = (buffer[:num_rows] for buffer in self._buffers)
        self._buffers = (keys, values)
        self.keys, self.values = keys[:, :, :length], values[:, :, :length]

    def _grow(self, key_states: Tensor, value_states: Tensor, start: int, end: int) -> None:
        """Move to buffers of [M, heads, C, head_dim] with C >= end."""
        capacity = -(-end // _BLOCK_TOKENS) * _BLOCK_TOKENS
        grown = []
        for states, old in ((key_states, self.keys), (value_states, self.values)):
            rows, heads, _, width = states.shape
            buffer = states.new_empty(rows, heads, capacity, width)
            if start:
                buffer[:, :, :start] = old
            grown.append(buffer)
        self._buffers = (grown[0], grown[1])


def new_cache(config: Any) -> DynamicCache:
    """An empty cache for a model with this config; plain attention layers are buffered."""
    cache = DynamicCache(config=config)
    cache.layers = [
        BufferedLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers
    ]
    if cache.layer_class_to_replicate is DynamicLayer:
        cache.layer_class_to_replicate = BufferedLayer
    return cache
