"""Typed, frozen configuration; imports neither torch nor prefect."""

from grpo_core.config.load import config_from_dict, load_config, preset_names, stored_config
from grpo_core.config.run import RunConfig

__all__ = ["RunConfig", "config_from_dict", "load_config", "preset_names", "stored_config"]
