"""Digests of model directories: what a policy is, apart from where it lies.

A policy is its weights, its config, its end-of-sequence ids, its tokenizer and its chat template,
and the Python code that comes with it where that is trusted. Version stamps and paths that
libraries leave in the JSON files are not part of it.
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
    "vocab.txt",
    "spiece.model",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
)
_CODE, _TEMPLATES = "*.py", "additional_chat_templates/*.jinja"
_CLOCK = "strftime_now"
TEMPLATE_DATE = "2025-01-01"
"""Today, to every chat template that asks: a prompt must not depend on the day of the run."""


def model_digest(directory: Path, digests: FileDigests, *, with_code: bool = False) -> str:
    """Digest of weights, config and tokenizer of a Hugging Face directory, 64 hex digits.

    Args:
        directory: Of the model.
        digests: Hashes files.
        with_code: The Python code beside it is trusted, so it may make the policy.

    Raises:
        ConfigError: The directory has no config.json or no safetensors.
    """
    return sha256_json(
        {
            "weights": weights_digest(directory, digests, with_code=with_code),
            "tokenizer": _tokenizer(directory, digests, with_code),
        }
    )


def weights_digest(directory: Path, digests: FileDigests, *, with_code: bool = False) -> str:
    """Digest of weights, config and code alone: what log-probs of given token ids depend on."""
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
        | (_code(directory, digests) if with_code else {})
    )


def architecture_digest(directory: Path) -> str:
    """Digest of config.json alone: models that share it differ in their weights only."""
    return sha256_json(_json_without_stamps(directory / "config.json"))


def tokenizer_digest(directory: Path, digests: FileDigests, *, with_code: bool = False) -> str:
    """Digest of the tokenizer, its template and the end-of-sequence ids."""
    return sha256_json(_tokenizer(directory, digests, with_code))


def tokenizer_files(directory: Path) -> list[Path]:
    """Files of a model directory that make the tokenizer and the end-of-sequence ids."""
    named = [directory / name for name in (*_JSON_FILES, *_BYTE_FILES)]
    return [path for path in named if path.is_file()] + sorted(directory.glob(_TEMPLATES))


def code_files(directory: Path) -> list[Path]:
    """Python files that come with a model; they run only where they are trusted."""
    return sorted(directory.glob(_CODE))


def _tokenizer(directory: Path, digests: FileDigests, with_code: bool) -> dict[str, Any]:
    """What is not there adds nothing, so that a model without it keeps its digest."""
    found: dict[str, Any] = {}
    asks_for_date = False
    for path in tokenizer_files(directory):
        is_json = path.name in _JSON_FILES
        name = str(path.relative_to(directory))
        found[name] = _json_without_stamps(path) if is_json else digests.digest(path)
        if is_json or path.suffix == ".jinja":
            asks_for_date |= _CLOCK in path.read_text(encoding="utf-8")
    if asks_for_date:
        found[_CLOCK] = TEMPLATE_DATE
    return found | (_code(directory, digests) if with_code else {})


def _code(directory: Path, digests: FileDigests) -> dict[str, Any]:
    code = {path.name: digests.digest(path) for path in code_files(directory)}
    return {"code": code} if code else {}


def _json_without_stamps(path: Path) -> Any:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path} holds a {type(value).__name__}, expected a JSON object")
    return {key: item for key, item in value.items() if key not in _VOLATILE}
