"""Real engines on the CPU; `make test-vllm` runs these tests in an environment with vLLM."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from contract import random_policy
from letters import letter_tokenizer
from random_engine import SETTINGS

from grpo_core.policy.engines import close_engines
from grpo_core.sampling.vllm_engine import VllmEngine


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmEngine]:
    """One engine for the random policies; starting one takes longer than most tests."""
    directory: Path = tmp_path_factory.mktemp("random-policy")
    random_policy().save_pretrained(directory)
    letter_tokenizer().save_pretrained(directory)
    running = VllmEngine(directory, replace(SETTINGS, tokenizer=str(directory)))
    yield running
    running.close()


@pytest.fixture(scope="session", autouse=True)
def no_engine_is_left() -> Iterator[None]:
    yield
    close_engines()
