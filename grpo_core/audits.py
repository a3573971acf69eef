"""SQL audits over the artefacts of one run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grpo_core.errors import DataContractError
from grpo_core.store.catalog import Catalog, parts_in_use
from grpo_core.store.manifests import CONTENT_CHARACTERS
from grpo_core.store.queries import SQL_DIRECTORY
from grpo_core.store.results import AuditResult
from grpo_core.store.warehouse import Warehouse


def audit_run(
    catalog: Catalog,
    run: str,
    params: Mapping[str, Any] | None = None,
    *,
    deep: bool = False,
    sql_directory: Path = SQL_DIRECTORY,
) -> list[AuditResult]:
    """Run the audits over the artefacts that the latest attempt of one run uses.

    Raises:
        DataContractError: When the catalog knows no such run, or an audit cannot run.
    """
    with Warehouse(restrict_to_run(catalog, run), sql_directory=sql_directory) as warehouse:
        return warehouse.run_audits(params, deep=deep)


def restrict_to_run(catalog: Catalog, run: str) -> Catalog:
    """Keep what the latest attempt of a run uses.

    Raises:
        DataContractError: When the catalog knows no such run.
    """
    nodes = [node for node in catalog.run_artifacts if node.run == run]
    if not nodes:
        known = ", ".join(sorted({node.run for node in catalog.run_artifacts})) or "none"
        raise DataContractError(f"no run is named {run!r}", hint=f"runs: {known}")
    attempt = max(node.attempt for node in nodes)
    nodes = [node for node in nodes if node.attempt == attempt]
    used = {(node.key, node.content) for node in nodes}
    generations = {(key, content[:CONTENT_CHARACTERS]) for key, content in used}
    entries = tuple(entry for entry in catalog.entries if (entry.key, entry.content) in used)
    return Catalog(
        entries=entries,
        damaged=tuple(
            entry for entry in catalog.damaged if (entry.key, Path(entry.path).name) in generations
        ),
        run_artifacts=tuple(nodes),
        live_files=catalog.live_files,
        ref_parts=parts_in_use(entries, catalog.ref_parts),
    )
