"""Types of the flow's parameters: what the form in the UI shows and what creation refuses.

Prefect checks a run's parameters against their JSON schema when the run is created, so every
bound here is a mistake that no runner ever sees. What a schema can not say (combinations, bounds
of single settings) `load_config` checks in the flow before its first task.
"""

from typing import Annotated

from pydantic import Field

from flows.request import RUN_NAME_PATTERN
from grpo_core.config import RunConfig, preset_names
from grpo_core.types import StageName

OVERRIDE_PATTERN = rf"^({'|'.join(RunConfig.model_fields)})(\.[A-Za-z0-9_]+)*=.*$"
FORK_PATTERN = r"^([A-Za-z0-9][A-Za-z0-9_-]{0,63}:[0-9]+(:[0-9]+)?)?$"

Preset = Annotated[
    str,
    Field(
        title="Preset",
        description="Shipped configuration to start from.",
        json_schema_extra={"enum": preset_names()},
    ),
]
Run = Annotated[
    str,
    Field(
        title="Run name",
        description="Name in the lake; empty means the preset's name. Letters, digits, _ and -.",
        pattern=RUN_NAME_PATTERN,
    ),
]
Stages = Annotated[
    tuple[StageName, ...],
    Field(
        title="Stages",
        description="Stages to run, always in the order of the pipeline.",
        min_length=1,
        json_schema_extra={"uniqueItems": True},
    ),
]
Override = Annotated[str, Field(pattern=OVERRIDE_PATTERN)]
Overrides = Annotated[
    tuple[Override, ...],
    Field(
        title="Overrides",
        description="Single settings as section.field=value, for example train.group_size=16.",
    ),
]
ConfigFile = Annotated[
    str,
    Field(
        title="Config file",
        description="TOML file on the machine that runs the flow, laid over the preset.",
        max_length=4096,
    ),
]
Forced = Annotated[
    tuple[StageName, ...],
    Field(
        title="Force",
        description="Stages to compute again even when their result exists.",
        json_schema_extra={"uniqueItems": True},
    ),
]
