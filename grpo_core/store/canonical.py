"""Canonical JSON and hashes: the same value always gives the same text, and so the same key."""

import hashlib
import json
import math
from typing import Any

from grpo_core.errors import ConfigError


def canonical_json(value: Any) -> str:
    """Sorted keys, no spaces, no NaN or infinity, -0.0 as 0.0, tuples as lists.

    Raises:
        ConfigError: The value holds NaN or infinity.
    """
    return json.dumps(_normalised(value, "value"), sort_keys=True, separators=(",", ":"))


def sha256_json(value: Any) -> str:
    """sha256 of the canonical JSON, 64 hex digits."""
    return sha256_text(canonical_json(value))


def sha256_text(text: str) -> str:
    """sha256 of the UTF-8 text, 64 hex digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def _normalised(value: Any, path: str) -> Any:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ConfigError(f"{path}: {value} cannot be part of a key")
        return 0.0 if value == 0.0 else value
    if isinstance(value, dict):
        return {str(key): _normalised(item, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_normalised(item, f"{path}.{index}") for index, item in enumerate(value)]
    return value
