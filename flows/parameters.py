"""Types of the flow's parameters: what creation refuses and the form in the UI offers.

Prefect checks a run's parameters against their JSON schema when the run is created, so every
bound here is a mistake that no runner ever sees. What a schema can not say (combinations, bounds
of single settings) `load_config` checks in the flow before its first task. The texts of the form
come from the flow's docstring.
"""

import re
from typing import Annotated

from pydantic import Field

from flows.request import RUN_NAME_PATTERN
from grpo_core.config import RunConfig, preset_names
from grpo_core.config.fields import leaves
from grpo_core.types import StageName


def _setting_patterns() -> str:
    """A regular expression for the path of any setting; phases by number or as a whole."""
    paths = {re.sub(r"\.\d+\.", ".[0-9]+.", path) for path, _, _ in leaves(RunConfig())}
    escaped = (path.replace(".", r"\.").replace(r"\.[0-9]+\.", r"\.[0-9]+\.") for path in paths)
    return "|".join([*sorted(escaped), r"train\.phases"])


OVERRIDE_PATTERN = rf"^({_setting_patterns()})=.*$"
FORK_PATTERN = r"^([A-Za-z0-9][A-Za-z0-9_-]{0,63}:[0-9]+(:[0-9]+)?)?$"

Preset = Annotated[str, Field(json_schema_extra={"enum": preset_names()})]
Run = Annotated[str, Field(pattern=RUN_NAME_PATTERN)]
Stages = Annotated[
    tuple[StageName, ...], Field(min_length=1, json_schema_extra={"uniqueItems": True})
]
Overrides = tuple[Annotated[str, Field(pattern=OVERRIDE_PATTERN)], ...]
ConfigFile = Annotated[str, Field(max_length=4096)]
Forced = Annotated[tuple[StageName, ...], Field(json_schema_extra={"uniqueItems": True})]
Fork = Annotated[str, Field(pattern=FORK_PATTERN)]
