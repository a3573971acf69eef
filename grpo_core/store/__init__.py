"""The lake: artefacts with keys and content digests, runs, the ref-logprob cache, SQL views."""

from grpo_core.store.lake import Lake
from grpo_core.store.ref_cache import Fingerprint, RefLogprobCache, RefRow

__all__ = ["Fingerprint", "Lake", "RefLogprobCache", "RefRow"]
