"""Code that makes a kind of artefact does not change without a decision.

When this fails, the code behind a kind differs from what was recorded. If the same inputs would
now give other content, raise the kind's integer in `grpo_core/planning/versions.py`. In both cases
record the new state: `python tests/architecture/kind_sources.py`.
"""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from kind_sources import RECORD, current_sources

from grpo_core.types import Kind


@pytest.mark.parametrize("kind", list(Kind))
def test_the_code_of_each_kind_is_as_recorded(kind: Kind) -> None:
    recorded = json.loads(RECORD.read_text())
    assert current_sources()[kind.value] == recorded[kind.value], __doc__
