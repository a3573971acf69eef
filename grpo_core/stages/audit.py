"""Stage audit: SQL over everything that the run uses; only a pass is an artefact."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from grpo_core.audits import audit_run
from grpo_core.config import RunConfig
from grpo_core.errors import AuditFailedError
from grpo_core.objective.presets import resolve_std
from grpo_core.planning.graph import needs_reference
from grpo_core.stages.context import Made, MakeContext
from grpo_core.store.catalog import Catalog
from grpo_core.store.results import AuditResult
from grpo_core.store.schemas import AUDIT_RESULTS

_SHOWN_ROWS = 5


def make_audit(context: MakeContext) -> Made:
    """Run every audit; a blocking one that finds rows fails the run and shows them.

    Raises:
        AuditFailedError: A blocking audit found rows.
    """
    with context.timings.part("audit"):
        results = audit_run(
            _audited(context),
            context.run,
            audit_params(context.config),
            deep=context.config.audit.deep,
        )
    context.report(len(results), len(results), "audits")
    for result in results:
        if result.num_rows:
            context.note(f"{result.name}: {result.num_rows} rows ({result.severity})")
    failed = [result for result in results if result.is_blocking]
    if failed:
        raise AuditFailedError(
            "\n".join(describe_failure(result) for result in failed),
            hint=f"all offending rows: grpo audit --run {context.run}",
        )
    rows = [
        {
            "audit": result.name,
            "severity": result.severity,
            "num_rows": result.num_rows,
            "why": result.why,
        }
        for result in results
    ]
    return Made(
        tables={"audit_results": pa.Table.from_pylist(rows, schema=AUDIT_RESULTS.schema)},
        figures={
            "audits": len(results),
            "warnings": sum(result.num_rows > 0 for result in results),
        },
    )


def _audited(context: MakeContext) -> Catalog:
    """The catalog of what the audit's key names, and nothing else that the run ever used."""
    catalog = context.lake.catalog(context.run)
    used = {(artifact.key, artifact.content) for artifact in context.inputs.values()}
    rows = tuple(row for row in catalog.run_artifacts if (row.key, row.content) in used)
    return replace(catalog, run_artifacts=rows)


def audit_params(config: RunConfig) -> dict[str, Any]:
    """What the audits must know of the configuration."""
    advantage = config.advantage
    is_centred = (
        advantage.baseline == "mean" and advantage.ema_weight == 0 and advantage.tolerance_band == 0
    )
    is_plain = (
        is_centred
        and advantage.std_scope == "group"
        and (advantage.winsorise_low, advantage.winsorise_high) == (0.0, 1.0)
        and not config.reward.confidence_weighting
    )
    return {
        "default_verifier": config.reward.function,
        "group_size": config.train.group_size,
        "samples_per_prompt": config.prefilter.samples_per_prompt,
        "eval_samples_per_prompt": config.evaluate.samples_per_prompt,
        "advantage_std": resolve_std(advantage, config.loss) if is_plain else None,
        "advantage_eps": advantage.eps,
        "advantage_clip": advantage.clip,
        "advantage_tolerance": config.audit.advantage_tolerance,
        "advantages_centred": is_centred,
        "zero_variance_dropped": config.filter.zero_variance,
        "hard_max": config.bands.hard_max,
        "medium_max": config.bands.medium_max,
        "truncated_share": config.bands.truncated_share,
        "kl_enabled": needs_reference(config),
    }


def describe_failure(result: AuditResult) -> str:
    """An audit's finding with its first rows, for an error message."""
    lines = [f"audit {result.name} found {result.num_rows} rows: {result.why}"]
    lines += [f"  {_short(row)}" for row in result.rows[:_SHOWN_ROWS]]
    return "\n".join(lines)


def _short(row: dict[str, Any]) -> str:
    return ", ".join(f"{name}={_shown(value)}" for name, value in row.items())


def _shown(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{len(value)} values]"
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
