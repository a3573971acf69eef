"""How long a context an engine is started for, and when the next policy needs another one."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from grpo_core.config import load_config
from grpo_core.paths import resolve_path
from grpo_core.policy.engines import _engine_context, _fits
from grpo_core.sampling.vllm_start import EngineSettings
from grpo_core.store.models import architecture_digest

TINY = resolve_path("data/models/tiny")


@pytest.mark.parametrize(
    ("limit", "longest_prompt", "want"),
    [
        (131_072, 700, 1024 + 768),  # the largest budget is 1,024
        (131_072, 736, 1024 + 768),  # 32 tokens to spare
        (131_072, 737, 1024 + 1024),
        (1500, 400, 1500),
        (131_072, None, 131_072),
    ],
)
def test_an_engine_holds_what_the_run_samples(limit, longest_prompt, want):
    phases = 'train.phases=[{"max_completion_tokens":512,"max_steps":4}]'
    changes = [phases, "evaluate.max_completion_tokens=1024"]
    config = load_config("tiny", overrides=changes)
    assert _engine_context(config, limit, longest_prompt) == want


def test_an_engine_with_a_longer_context_serves_the_next_policy():
    settings = EngineSettings("float32", 512, max_rows=8)
    engine = SimpleNamespace(settings=settings, architecture=architecture_digest(TINY))
    assert _fits(engine, TINY, replace(settings, context_tokens=256))
    assert not _fits(engine, TINY, replace(settings, context_tokens=768))
    assert not _fits(engine, TINY, replace(settings, max_rows=9))
