"""The integer per kind that changes when the same inputs would give other content.

`tests/architecture/test_kind_versions.py` hashes the code that each kind is made with: when it
differs, the commit bumps the integer here or records that results are the same.
"""

from types import MappingProxyType

from grpo_core.types import Kind

KIND_VERSIONS: MappingProxyType[Kind, int] = MappingProxyType(
    {
        Kind.PROMPTS: 2,
        Kind.SAMPLES: 1,
        Kind.VERDICTS: 2,
        Kind.BANDS: 1,
        Kind.VARIANTS: 1,
        Kind.REF_LOGP: 2,
        Kind.TRAIN: 4,
        Kind.EVAL_SAMPLES: 1,
        Kind.EVAL_VERDICTS: 2,
        Kind.AUDIT: 2,
    }
)
