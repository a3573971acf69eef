"""Digests of model directories: what a policy is, apart from where it lies.

A policy is its weights, its config, its end-of-sequence ids, its tokenizer and its chat template.
Version stamps and paths that libraries leave in the JSON files are not part of it.
"""

import json
from pathlib import Path
from typing import Any

from grpo_core.errors import ConfigError
from grpo_core.store.canonical import sha256_json
from grpo_core.store.files import FileDigests

_VOLATILE = ("transformers_version", "_name_or_path", "name_or_path", "_commit_hash")
_JSON_FILES = ("generation_config.json", "tokenizer_config.json")
_BYTE_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
)
TOKENIZER_FILES = (*_JSON_FILES, *_BYTE_FILES)
"""Files of a model directory that make the tokenizer and the end-of-sequence ids."""


def model_digest(directory: Path, digests: FileDigests) -> str:
    """Digest of weights, config and tokenizer of a Hugging Face directory, 64 hex digits.

    Raises:
        ConfigError: The directory has no config.json or no safetensors.
    """
    return sha256_json(
        {"weights": weights_digest(directory, digests), "tokenizer": _tokenizer(directory, digests)}
    )


def weights_digest(directory: Path, digests: FileDigests) -> str:
    """Digest of weights and config alone: what log-probs of given token ids depend on."""
    weights = sorted(directory.glob("*.safetensors"))
    if not (directory / "config.json").is_file() or not weights:
        raise ConfigError(
            f"model.path: {directory} is not a model directory with config.json and *.safetensors",
            hint="give a local Hugging Face directory; convert other formats with save_pretrained",
        )
    return sha256_json(
        {
            "config": _json_without_stamps(directory / "config.json"),
            "weights": {path.name: digests.digest(path) for path in weights},
        }
    )


def architecture_digest(directory: Path) -> str:
    """Digest of config.json alone: models that share it differ in their weights only."""
    return sha256_json(_json_without_stamps(directory / "config.json"))


def tokenizer_digest(directory: Path, digests: FileDigests) -> str:
    """Digest of the tokenizer, its template and the end-of-sequence ids."""
    return sha256_json(_tokenizer(directory, digests))


def _tokenizer(directory: Path, digests: FileDigests) -> dict[str, Any]:
    parsed = {
        name: _json_without_stamps(directory / name)
        for name in _JSON_FILES
        if (directory / name).is_file()
    }
    hashed = {
        name: digests.digest(directory / name)
        for name in _BYTE_FILES
        if (directory / name).is_file()
    }
    return parsed | hashed


def _json_without_stamps(path: Path) -> Any:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path} holds a {type(value).__name__}, expected a JSON object")
    return {key: item for key, item in value.items() if key not in _VOLATILE}
