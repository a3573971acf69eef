"""One rollout batch through the real trainer: collected, graded, scored, grouped, updated on.

Four persisted groups of four, so that nothing is sampled; the policy is the shipped model with its
weights moved a little, so that it differs from the reference and from its own sampler.
"""

import copy
import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from grpo_core.config import RunConfig, load_config
from grpo_core.models.head import check_head
from grpo_core.objective.kl_control import start_control
from grpo_core.objective.presets import resolve_loss
from grpo_core.paths import resolve_path
from grpo_core.planning.graph import needs_reference, total_steps
from grpo_core.policy.origins import Scorer
from grpo_core.policy.reference import Reference
from grpo_core.policy.runtime import PolicyRuntime, completion_columns, load_runtime, sample_request
from grpo_core.rewards import Verdict
from grpo_core.rewards.grader import Grader
from grpo_core.rewards.rows import grader_rules, problems_by_id, verdict_columns
from grpo_core.rewards.verdict import Label
from grpo_core.store.columns import logprob_columns
from grpo_core.store.partials import Partial
from grpo_core.store.schemas import BANDS, SAMPLES, VERDICTS
from grpo_core.training.collect import Collector
from grpo_core.training.first_batch import draw_batch_prompts
from grpo_core.training.phase import PhasePlan, PhaseTrainer
from grpo_core.training.state import TrainerState
from grpo_core.training.updates import Updater, make_optimizer
from grpo_core.training.validation import Validator

SETTINGS = (
    "train.group_size=4",
    "train.prompts_per_rollout=4",
    "train.updates_per_rollout=2",
    "train.epochs_per_rollout=2",
    "train.learning_rate=3e-4",
    "train.warmup_steps=0",
    "train.max_grad_norm=1e9",
    "train.validation_samples=0",
    "train.prefilter_batches=1",
    'train.phases=[{"max_completion_tokens":24,"max_steps":4}]',
    "reward.overlong_weight=0",
    "kl.beta=0.1",
    "execution.threads=1",
)
GROUP_SIZE = 4
REWARDS: tuple[tuple[float | None, ...], ...] = (
    (1.0, 0.0, 0.0, 0.0),
    (1.0, 1.0, 0.0, None),
    (1.0, 0.0, 1.0, 0.0),
    (1.0, 1.0, 1.0, 1.0),
)
CONFIDENCE: tuple[tuple[float | None, ...], ...] = (
    (None, None, None, None),
    (0.5, 1.0, 0.2, None),
    (1.0, 0.3, 0.0, 1.0),
    (None, None, None, None),
)
TEXTS = ("<<2+2=4>>4\n#### 4", "<<2+2=5>>\n#### 4", "<<1+3=4>>4\n#### 4", "#### 4")
"""Sound, flawed, sound and missing process; what the group of equal verdicts is graded by."""
PROMPTS = tuple(f"prompt-{n}" for n in range(4))


@dataclass(frozen=True)
class Outcome:
    """What a batch led to."""

    weights: torch.Tensor
    steps: list[dict[str, Any]]
    rollouts: list[dict[str, Any]]
    events: list[dict[str, Any]]
    state: TrainerState

    def differs_from(self, other: "Outcome") -> bool:
        """Whether the training differs: loss, gradient, what is reported, or the next step."""
        names = ("loss", "kl_loss", "grad_norm", "ref_kl_k3", "beta")
        mine, others = ([[step[name] for name in names] for step in o.steps] for o in (self, other))
        return (
            mine != others
            or not torch.equal(self.weights, other.weights)
            or self.state != other.state
        )


@cache
def train_one_batch(*overrides: str) -> Outcome:
    """The batch under the settings above and some more."""
    config = load_config("tiny", overrides=[*SETTINGS, *overrides])
    with tempfile.TemporaryDirectory() as directory, Grader(grader_rules(config)) as grader:
        trainer = _trainer(config, Path(directory), grader)
        steps = trainer.run_batch(0)
        return Outcome(
            weights=_weights(trainer.runtime.model),
            steps=[{**row, "ref_cache_hit_rate": None} for row in steps.to_pylist()],
            rollouts=trainer.partial.read("rollouts", 0).to_pylist(),
            events=trainer.partial.read("events", 0).to_pylist(),
            state=trainer.state,
        )


@cache
def shipped() -> PolicyRuntime:
    """The shipped model, as it is."""
    return load_runtime(load_config("tiny", overrides=SETTINGS), resolve_path("data/models/tiny"))


@cache
def template_text() -> str:
    """A text that some completion of the batch contains."""
    runtime = shipped()
    row = next(ids for ids in _completions()["completion_token_ids"][8:] if len(ids) > 6)
    return str(runtime.tokenizer.decode(row[1:4]))


def _moved(scale: float = 0.004) -> PolicyRuntime:
    """The shipped model with noise of that standard deviation on every weight."""
    runtime = shipped()
    model = copy.deepcopy(runtime.model)
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += scale * torch.randn(parameter.shape, generator=draw)
    return replace(runtime, model=model, head=check_head(model))


def _weights(model: Any) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def _trainer(config: RunConfig, directory: Path, grader: Grader) -> PhaseTrainer:
    runtime = _moved()
    reference = None
    if needs_reference(config):
        scorer = Scorer(run="test", attempt=1, label="train/1", key="key")
        reference = Reference.open(config, _cache_root(), weights="w", tokenizer="t", scorer=scorer)
    loss = resolve_loss(config.loss, longest_completion_tokens=24)
    optimizer = make_optimizer(runtime.model, config)
    return PhaseTrainer(
        config=config,
        plan=PhasePlan(
            phase=1,
            first_step=0,
            max_steps=4,
            total_steps=total_steps(config),
            bands=_bands(),
            problems=problems_by_id(_problems()),
            variants={},
            persisted=_persisted(config),
        ),
        runtime=runtime,
        reference=reference,
        collector=Collector(
            config=config,
            runtime=runtime,
            reference=reference,
            grader=grader,
            loss=loss,
            phase=1,
            max_completion_tokens=24,
            policy_name="policy",
            is_reference_at_start=False,
        ),
        updater=Updater(runtime.model, optimizer, config, loss, runtime.head, torch.device("cpu")),
        validator=Validator(config, [], grader, 24),
        partial=Partial(directory, "key"),
        state=TrainerState(0, start_control(config.kl), {"data": 0.8}),
        tokenizer_from=resolve_path("data/models/tiny"),
    )


@cache
def _cache_root() -> Path:
    return Path(tempfile.mkdtemp(prefix="grpo-references-"))


@cache
def _problems() -> pa.Table:
    rows = [
        {
            "prompt_id": prompt_id,
            "text": f"Zoe had {n + 2} shells and lost 1. How many shells does Zoe have now?",
            "gold": "4",
            "solution": "<<2+2=4>>4\n#### 4",
            "answer_type": None,
            "verifier": None,
            "tests": None,
            "data_source": None,
            "source": "data",
        }
        for n, prompt_id in enumerate(PROMPTS)
    ]
    return pa.Table.from_pylist(rows)


@cache
def _bands() -> pa.Table:
    row = {field.name: None for field in BANDS.schema} | {"band": "hard", "weight": 1.0, "n": 4}
    rows = [{**row, "prompt_id": prompt_id} for prompt_id in PROMPTS]
    return pa.Table.from_pylist(rows).select(["prompt_id", "band", "weight", "n"])


@cache
def _completions() -> dict[str, list[Any]]:
    """Sampled by the shipped model, with one repetitive and some truncated ones among them."""
    runtime = shipped()
    requests = [
        sample_request(
            runtime.renderer.render(text),
            ("test", text),
            num_samples=GROUP_SIZE,
            temperature=1.0,
            max_completion_tokens=24,
        )
        for text in _problems().column("text").to_pylist()
    ]
    columns = completion_columns(
        requests, runtime.sampler.sample(requests), renderer=runtime.renderer, policy="p"
    )
    ids = columns["completion_token_ids"]
    for row in (1, 6):
        ids[row] = (ids[row][:3] * 3)[:8]
        logprobs = np.full(8, -1.0, np.float32)
        for name, value in logprob_columns("sampling", [logprobs]).items():
            columns[name][row] = value[0]
    for row in (2, 5, 9):
        columns["finish_reason"][row] = "length"
    columns["num_completion_tokens"] = [len(row) for row in ids]
    return columns


def _persisted(config: RunConfig) -> tuple[pa.Table, pa.Table]:
    """Samples and verdicts in the order in which the batch draws its prompts."""
    columns = _completions()
    rows = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    order = [PROMPTS.index(name) for name in draw_batch_prompts(_bands(), config, 1)]
    samples, verdicts = [], []
    for group in order:
        for index in range(GROUP_SIZE):
            key = {"prompt_id": PROMPTS[group], "sample_index": index}
            text = TEXTS[index] if group == 3 else rows[4 * group + index]["text"]
            samples.append({**key, **rows[4 * group + index], "text": text})
            verdicts.append({**key, **_verdict(group, index)})
    return (
        pa.Table.from_pylist(samples, schema=SAMPLES.schema),
        pa.Table.from_pylist(verdicts, schema=VERDICTS.schema),
    )


def _verdict(group: int, index: int) -> dict[str, Any]:
    reward = REWARDS[group][index]
    label = {1.0: Label.CORRECT, 0.0: Label.WRONG, None: Label.TIMEOUT}[reward]
    verdict = Verdict(
        label=label,
        reward_raw=reward,
        extracted="4",
        candidates=("4",),
        reason="as the test says",
        seconds=0.0,
        confidence=CONFIDENCE[group][index],
    )
    columns = verdict_columns(
        grader_rules(load_config("tiny")), [verdict], _problems().to_pylist()[:1]
    )
    return {name: values[0] for name, values in columns.items()}
