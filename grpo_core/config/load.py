"""From preset, file and overrides to one `RunConfig`; every mistake names the field.

Layers, later wins: defaults in code, the preset's TOML, a config file, `a.b=value` overrides.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from grpo_core.config.checks import check_config, check_reward
from grpo_core.config.run import RunConfig
from grpo_core.config.training import PhaseConfig
from grpo_core.errors import ConfigError

PRESET_DIRECTORY = Path(__file__).resolve().parents[2] / "flows" / "presets"

_PPO_KEYS = {
    "gae": "advantages come from the group's rewards, not from a value function",
    "lam": "advantages come from the group's rewards, not from a value function",
    "gamma": "a completion has one reward at its end, so nothing is discounted",
    "vf_": "there is no value loss without a value function",
    "value_": "there is no value loss without a value function",
    "cliprange_value": "there is no value loss without a value function",
    "critic": "the group mean is the baseline, so no critic is trained",
}
"""Parts of names that only methods with a value function have."""


def preset_names() -> list[str]:
    """Names of the shipped presets, sorted."""
    return sorted(path.stem for path in PRESET_DIRECTORY.glob("*.toml"))


def load_config(
    preset: str = "tiny",
    *,
    config_file: Path | None = None,
    overrides: Sequence[str] = (),
) -> RunConfig:
    """Resolve and check a configuration; reads files, starts nothing.

    Args:
        preset: Name of a shipped preset.
        config_file: TOML file with the same sections, over the preset.
        overrides: `section.field=value`; values are JSON, else text.

    Raises:
        ConfigError: Unknown preset or key (with the nearest known one), value out of bounds, or a
            combination that cannot mean what it says.
    """
    layers = _read_preset(preset)
    changes: dict[str, Any] = {}
    if config_file is not None:
        changes = _read_toml(config_file)
        _merge(layers, changes)
    may_run_code = _may_run_code(layers)
    for override in overrides:
        _apply_override(layers, override)
        if _may_run_code(layers) != may_run_code:
            raise _code_by_override(override)
        _note_source(changes, override)
    _drop_foreign_splits(layers, changes)
    config = config_from_dict(layers)
    check_config(config)
    return config


def regraded_config(config: RunConfig, overrides: Sequence[str]) -> RunConfig:
    """A run's configuration with other settings of `reward` and `bands`.

    Raises:
        ConfigError: An override of another section, or as `load_config`.
    """
    layers = config.model_dump(mode="json")
    for override in overrides:
        if not override.startswith(("reward.", "bands.")):
            raise ConfigError(
                f"override {override!r}: only verdicts and bands are made again",
                hint="set reward.… or bands.…",
            )
        _apply_override(layers, override)
    changed = config_from_dict(layers)
    check_reward(changed)
    return changed


def _may_run_code(layers: Mapping[str, Any]) -> Any:
    """What the layers say of `model.trust_remote_code`; None when nothing."""
    model = layers.get("model")
    return model.get("trust_remote_code") if isinstance(model, Mapping) else None


def _code_by_override(override: str) -> ConfigError:
    """A flow parameter must not be able to run code that comes with a model."""
    return ConfigError(
        "model.trust_remote_code cannot be set by an override or a flow parameter, "
        f"which {override!r} does",
        hint="set it in a config file that you control: --config FILE",
    )


def _note_source(changes: dict[str, Any], override: str) -> None:
    path = override.partition("=")[0].strip()
    if path.startswith("prompts.") and path.endswith("source"):
        changes.setdefault("prompts", {})[path.removeprefix("prompts.")] = override


def _drop_foreign_splits(layers: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Train problems of one's own are not judged on the preset's validation and test problems.

    Whoever sets `prompts.source` and not the other two gets them split off the own source.
    """
    given = changes.get("prompts", {})
    if "source" in given:
        for name in ("validation_source", "test_source"):
            if name not in given:
                layers["prompts"][name] = ""


def config_from_dict(values: Mapping[str, Any]) -> RunConfig:
    """Validate a nested mapping; the first problem becomes a ConfigError that names its field."""
    _refuse_unknown(values, RunConfig, "")
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        raise _as_config_error(error.errors()[0]) from error


def stored_config(directory: Path) -> RunConfig:
    """The resolved configuration that lies in a run's directory.

    Raises:
        ConfigError: It is missing or torn, or another release wrote it, with settings that this one
            does not know.
    """
    path = directory / "config.json"
    renewed = "run it again to renew the file"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise ValueError(f"a JSON object is expected, got {type(values).__name__}")
    except FileNotFoundError as error:
        raise ConfigError(f"{path} is missing", hint=renewed) from error
    except ValueError as error:
        raise ConfigError(f"{path} is damaged: {error}", hint=renewed) from error
    try:
        return config_from_dict(values)
    except ConfigError as error:
        raise ConfigError(
            f"{path}: {error.message}",
            hint="another release made this run; run it again under this one to renew the file",
        ) from error


def _read_preset(preset: str) -> dict[str, Any]:
    """A preset over the one that it extends, if any."""
    own = _read_toml(_preset_path(preset))
    parent = own.pop("extends", None)
    if parent is None:
        return own
    layers = _read_preset(parent)
    _merge(layers, own)
    return layers


def _preset_path(preset: str) -> Path:
    path = PRESET_DIRECTORY / f"{preset}.toml"
    if "/" in preset or not path.is_file():
        close = get_close_matches(preset, preset_names(), n=1)
        meant = f"did you mean {close[0]!r}? " if close else ""
        raise ConfigError(
            f"preset: no preset is called {preset!r}",
            hint=f"{meant}presets: {', '.join(preset_names())}",
        )
    return path


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"config file {path} does not exist") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"config file {path} is not valid TOML: {error}",
            hint="sections look like [train] with lines such as group_size = 8",
        ) from error


def _merge(base: dict[str, Any], layer: Mapping[str, Any]) -> None:
    for key, value in layer.items():
        if isinstance(value, Mapping) and isinstance(base.get(key), dict):
            _merge(base[key], value)
        else:
            base[key] = value


def _apply_override(layers: dict[str, Any], override: str) -> None:
    path, separator, text = override.partition("=")
    keys = path.strip().split(".")
    if not separator or not all(keys):
        raise ConfigError(
            f"override {override!r} is not of the form section.field=value",
            hint="for example --set train.group_size=16",
        )
    target: Any = layers
    for depth, key in enumerate(keys[:-1]):
        target = _descend(target, key, ".".join(keys[: depth + 1]))
    value = _parse_value(text.strip())
    if isinstance(target, list):
        target[_list_index(target, keys[-1], path)] = value
    else:
        target[keys[-1]] = value


def _descend(target: Any, key: str, path: str) -> Any:
    if isinstance(target, list):
        return target[_list_index(target, key, path)]
    child = target.setdefault(key, {})
    if not isinstance(child, (dict, list)):
        raise ConfigError(f"{path} holds a value, so nothing can be set below it")
    return child


def _list_index(items: list[Any], key: str, path: str) -> int:
    if not key.isdigit() or int(key) >= len(items):
        raise ConfigError(
            f"{path}: {key!r} is not a position in a list of {len(items)}",
            hint=f"positions count from 0 to {len(items) - 1}",
        )
    return int(key)


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _refuse_unknown(values: Mapping[str, Any], section: type[BaseModel], prefix: str) -> None:
    """Refuse keys that no section has, before pydantic does, to suggest the nearest one."""
    for key, value in values.items():
        field = section.model_fields.get(key)
        if field is None:
            raise _unknown_key(f"{prefix}{key}", key, section)
        child = field.annotation
        if key == "phases" and isinstance(value, list):
            for index, phase in enumerate(value):
                _refuse_unknown(phase, PhaseConfig, f"{prefix}{key}.{index}.")
        if isinstance(child, type) and issubclass(child, BaseModel) and isinstance(value, Mapping):
            _refuse_unknown(value, child, f"{prefix}{key}.")


def _unknown_key(path: str, key: str, section: type[BaseModel]) -> ConfigError:
    ppo = next((word for word in _PPO_KEYS if word in key.lower()), None)
    if ppo is not None:
        return ConfigError(
            f"{path}: GRPO has no {key}: {_PPO_KEYS[ppo]}",
            hint="remove it; see docs/methods.md for what replaces it",
        )
    known = {name: f"{path.removesuffix(key)}{name}" for name in section.model_fields}
    for name, field in RunConfig.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            known |= {
                leaf: f"{name}.{leaf}"
                for leaf in field.annotation.model_fields
                if leaf not in section.model_fields
            }
    close = get_close_matches(key, list(known), n=1, cutoff=0.7)
    hint = (
        f"did you mean {known[close[0]]}?" if close else f"known: {', '.join(section.model_fields)}"
    )
    return ConfigError(f"{path} is not a setting", hint=hint)


def _as_config_error(detail: ErrorDetails) -> ConfigError:
    path = ".".join(str(part) for part in detail["loc"])
    got = detail.get("input")
    return ConfigError(f"{path}: {detail['msg'].lower()}, got {got!r}")
