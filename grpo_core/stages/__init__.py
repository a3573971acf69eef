"""The stages: resolve inputs by content, make what is missing, publish it, record who used what."""

from grpo_core.stages.executor import run_stage
from grpo_core.stages.records import NodeResult, RunRecords, StageResult
from grpo_core.stages.session import RunSession, lake_root

__all__ = ["NodeResult", "RunRecords", "RunSession", "StageResult", "lake_root", "run_stage"]
