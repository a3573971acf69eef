"""Real engines on the CPU; `make test-vllm` runs these tests in an environment with vLLM."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from contract import CONTEXT, VOCABULARY, random_policy

from grpo_core.models.scoring import score
from grpo_core.policy.engines import close_engines
from grpo_core.sampling.proof import TOLERANCES
from grpo_core.sampling.vllm import TrainerSide
from grpo_core.sampling.vllm_engine import EngineSettings, VllmEngine

SETTINGS = EngineSettings("float32", CONTEXT, max_rows=512, threads=1)


def trainer_side(model) -> TrainerSide:
    return TrainerSide(
        score=lambda rows, temperatures: score(model, rows, temperatures, rows_per_batch=64),
        weights=lambda: model.state_dict().items(),
        vocabulary_size=min(VOCABULARY, model.config.vocab_size),
        tolerance=TOLERANCES["float32"],
    )


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmEngine]:
    """One engine for the random policies; starting one takes longer than most tests."""
    directory: Path = tmp_path_factory.mktemp("random-policy")
    random_policy().save_pretrained(directory)
    running = VllmEngine(directory, SETTINGS)
    yield running
    running.close()


@pytest.fixture(scope="session", autouse=True)
def no_engine_is_left() -> Iterator[None]:
    yield
    close_engines()
