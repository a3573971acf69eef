"""Bounds on what a worker process may take."""

import os
import resource
import sys
from pathlib import Path


def limit_resources(memory_bytes: int) -> None:
    """Bound this process: address space in bytes, no files written, no core dumps."""
    for kind, amount in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        if kind == resource.RLIMIT_AS and sys.platform == "darwin":
            continue
        _, hard = resource.getrlimit(kind)
        bounded = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
        resource.setrlimit(kind, (bounded, hard))


def limit_growth(growth_bytes: int) -> int:
    """Let this process take so many bytes of address space more than it has now; the new limit.

    Without effect where the platform cannot tell or limit it.
    """
    statistics = Path("/proc/self/statm")
    if not statistics.exists():
        return 0
    pages = int(statistics.read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + growth_bytes
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    bounded = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (bounded, hard))
    return bounded
