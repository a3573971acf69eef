"""Loading a policy and its tokenizer, with every way it can go wrong said clearly.

transformers takes seconds to import, so it is imported inside the functions.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_core.errors import ArtifactError, ConfigError
from grpo_core.models.directory import (
    CONFIG,
    check_directory,
    read_settings,
    resolve_directory,
    text_settings,
)

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

UNLIMITED_TOKENS = 2**31 - 1
"""Context of a model whose config names none (ALiBi, recurrent models)."""

_NO_MEMORY = re.compile(r"allocate memory|(not enough|out of) memory")
"""How torch's allocator on CPUs, mmap and drivers of GPUs say so in a plain RuntimeError."""
_REMOTE_HINT = (
    "set model.trust_remote_code = true in the config file if you trust the code that comes with "
    "the model, or take a transformers release that knows this architecture"
)


def load_policy(
    path: str | Path,
    *,
    dtype: str,
    attention: str,
    device: "torch.device | str",
    trust_remote_code: bool = False,
) -> "PreTrainedModel":
    """Load a causal language model in eval mode.

    Args:
        path: Directory or hub id.
        dtype: `float32` or `bfloat16`, for weights and activations.
        attention: `sdpa` or `eager`.
        device: Where to put the weights.
        trust_remote_code: Run Python code that comes with the model.

    Raises:
        ConfigError: Directory incomplete, architecture unknown, attention not available, or not
            enough memory.
        ArtifactError: Weights damaged, or not those that config.json describes.
    """
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    directory = resolve_directory(path)
    check_directory(directory)
    config = load_config(directory, trust_remote_code=trust_remote_code)
    try:
        with _quiet():
            model, report = AutoModelForCausalLM.from_pretrained(
                directory,
                config=config,
                dtype=getattr(torch, dtype),
                attn_implementation=attention,
                trust_remote_code=trust_remote_code,
                use_safetensors=True,
                local_files_only=True,
                output_loading_info=True,
            )
            model = model.to(device)
    except SafetensorError as error:
        raise ArtifactError(
            f"model {directory}: damaged safetensors: {error}", "fetch or save the model again"
        ) from error
    except MemoryError as error:
        raise _too_large(directory, dtype, device, error) from error
    except ValueError as error:
        raise ConfigError(f"model {directory}: {error}", _REMOTE_HINT) from error
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError) or _NO_MEMORY.search(str(error)):
            raise _too_large(directory, dtype, device, error) from error
        raise ArtifactError(
            f"model {directory}: the weights do not fit {CONFIG}: {error}",
            "weights and config.json come from different models; save both with save_pretrained",
        ) from error
    _check_report(directory, report)
    return model.eval()


def load_config(directory: Path, *, trust_remote_code: bool = False) -> "PretrainedConfig":
    """Load config.json alone.

    Raises:
        ConfigError: It is no JSON, contradicts itself, or names an architecture that transformers
            does not know.
    """
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig

    read_settings(directory / CONFIG)
    try:
        return AutoConfig.from_pretrained(
            directory, trust_remote_code=trust_remote_code, local_files_only=True
        )
    except StrictDataclassError as error:
        raise ConfigError(
            f"{directory / CONFIG}: {error}", "fetch the model again, or correct the named field"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{directory / CONFIG}: {error}", _REMOTE_HINT) from error


def load_tokenizer(
    path: str | Path, *, trust_remote_code: bool = False
) -> "PreTrainedTokenizerBase":
    """Load the tokenizer of a model directory or hub id.

    Raises:
        ConfigError: There is none, or it cannot be read.
    """
    from transformers import AutoTokenizer

    directory = resolve_directory(path)
    check_directory(directory)
    try:
        return AutoTokenizer.from_pretrained(
            directory, trust_remote_code=trust_remote_code, local_files_only=True
        )
    except Exception as error:  # the tokenizers library raises bare Exception
        raise ConfigError(
            f"model {directory}: its tokenizer cannot be read: {error}", _REMOTE_HINT
        ) from error


def eos_token_ids(path: str | Path, tokenizer: "PreTrainedTokenizerBase") -> frozenset[int]:
    """Return every id that ends a completion.

    The union of generation_config.json, config.json (nested text configs too) and the tokenizer:
    chat models name their turn end in one and their document end in another.

    Raises:
        ConfigError: None of them names one, so no completion could ever end.
    """
    directory = resolve_directory(path)
    found = {tokenizer.eos_token_id} - {None}
    for name in ("generation_config.json", CONFIG):
        if (directory / name).is_file():
            settings = read_settings(directory / name)
            for section in (settings, text_settings(settings)):
                value = section.get("eos_token_id")
                found.update(value if isinstance(value, list) else {value} - {None})
    if not found:
        raise ConfigError(
            f"model {directory}: no end-of-sequence id in generation_config.json, {CONFIG} or the "
            "tokenizer",
            "add eos_token_id to generation_config.json",
        )
    return frozenset(int(token_id) for token_id in found)


def pad_token_id(tokenizer: "PreTrainedTokenizerBase", eos: frozenset[int]) -> int:
    """Return the id that fills padded positions; any will do, they are masked by length."""
    return int(tokenizer.pad_token_id) if tokenizer.pad_token_id is not None else min(eos)


def context_tokens(config: "PretrainedConfig") -> int:
    """Return the longest prompt plus completion that the model's positions cover."""
    limit = getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
    return int(limit) if limit else UNLIMITED_TOKENS


def check_vocabulary(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> None:
    """Refuse a tokenizer whose ids the model has no embedding for.

    Raises:
        ArtifactError: The tokenizer is larger than the embedding.
    """
    rows = int(model.get_input_embeddings().weight.shape[0])
    if len(tokenizer) > rows:
        raise ArtifactError(
            f"the tokenizer has {len(tokenizer)} tokens but the model embeds only {rows}",
            "tokenizer and weights come from different models",
        )


def _too_large(
    directory: Path, dtype: str, device: "torch.device | str", error: Exception
) -> ConfigError:
    finer = "model.dtype = bfloat16, " if dtype == "float32" else ""
    return ConfigError(
        f"model {directory}: not enough memory on {device} for its weights in {dtype}: {error}",
        f"take {finer}a smaller model, or a larger device",
    )


def _check_report(directory: Path, report: dict[str, Any]) -> None:
    """Weights that were not there, not used or of another shape are an error, not a warning."""
    problems = [
        f"{len(keys)} {kind} ({', '.join(sorted(str(key) for key in keys)[:3])})"
        for kind, keys in (
            ("missing", report["missing_keys"]),
            ("unexpected", report["unexpected_keys"]),
            ("of another shape", report["mismatched_keys"]),
        )
        if keys
    ]
    if problems or report["error_msgs"]:
        raise ArtifactError(
            f"model {directory}: the weights do not fit {CONFIG}: "
            + "; ".join([*problems, *report["error_msgs"]]),
            "weights and config.json come from different models; save both with save_pretrained",
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """No progress bar of transformers while weights load; its setting comes back afterwards."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
