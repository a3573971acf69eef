"""The lake: artefacts with keys and content digests, runs, the ref-logprob cache, SQL views."""

from grpo_core.store.lake import Lake
from grpo_core.store.ref_cache import RefLogprobCache
from grpo_core.store.ref_rows import Fingerprint, RefRow

__all__ = ["Fingerprint", "Lake", "RefLogprobCache", "RefRow"]
