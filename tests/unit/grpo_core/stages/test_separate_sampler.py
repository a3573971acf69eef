"""A sampler with weights of its own sees each update through `sync` alone."""

import copy
from pathlib import Path
from typing import Any

import pytest

from grpo_core.policy import runtime
from grpo_core.sampling.hf import HfSampler
from grpo_core.training import collect

pytestmark = pytest.mark.slow


class CopySampler:
    """Samples from a copy of the policy, as an engine in another process does."""

    def __init__(self, make: Any, model: Any, arguments: dict[str, Any]) -> None:
        self._model = copy.deepcopy(model)
        self._inner: HfSampler = make(model=self._model, **arguments)
        self.is_awake = True
        self.syncs = 0

    def sample(self, requests: Any) -> Any:
        self.is_awake = True
        return self._inner.sample(requests)

    def sync(self, weights: Any) -> None:
        self._model.load_state_dict(dict(weights))
        self.syncs += 1

    def sleep(self) -> None:
        self.is_awake = False

    def close(self) -> None:
        self.is_awake = False


def test_a_run_with_it_gives_the_same_bits(
    tmp_path: Path,
    finished: tuple[Path, dict[str, Any]],
    run_mini: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make, made = runtime.make_sampler, []

    def make_copy(config: Any, *, model: Any, **others: Any) -> CopySampler:
        def inner(*, model: Any, **arguments: Any) -> Any:
            return make(config, model=model, **arguments)

        made.append(CopySampler(inner, model, others))
        return made[-1]

    score, awake = collect.score_unit, []

    def watched(*arguments: Any) -> Any:
        awake.append(made[-1].is_awake)
        return score(*arguments)

    monkeypatch.setattr(collect, "score_unit", watched)
    monkeypatch.setattr(runtime, "make_sampler", make_copy)
    results = run_mini(tmp_path / "lake")
    assert {name: node.content for name, node in results.items()} == {
        name: node.content for name, node in finished[1].items()
    }
    assert sum(sampler.syncs for sampler in made) >= 3
    assert not any(sampler.is_awake for sampler in made)
    assert awake
    assert not any(awake), "the sampler holds the memory that scoring needs"
