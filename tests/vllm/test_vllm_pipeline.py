"""The whole tiny pipeline with vLLM as the sampler, and against the hf sampler."""

import math
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from grpo_core.config import load_config
from grpo_core.planning.externals import model_directory
from grpo_core.policy.runtime import load_runtime, sample_request
from grpo_core.prompts.ingest import active, draw_limit
from grpo_core.rewards.grader import Grader
from grpo_core.rewards.rows import grade_rows, grader_rules, problems_by_id
from grpo_core.sampling.vllm import VllmSampler
from grpo_core.sampling.vllm_engine import VllmEngine
from grpo_core.stages import RunSession, run_stage
from grpo_core.store.lake import Lake
from grpo_core.types import Split, StageName

VLLM = ("execution.engine=vllm", "execution.threads=1", "sampling.rows_per_batch=512")
MINI = (
    *VLLM,
    "prompts.train_limit=16",
    "prompts.validation_limit=4",
    "prompts.test_limit=8",
    "prefilter.samples_per_prompt=8",
    "bands.weight_unsolved=1",
    "bands.weight_solved=1",
    "train.group_size=8",
    "train.prompts_per_rollout=8",
    "train.prefilter_batches=0",
    "train.validation_samples=2",
    'train.phases=[{"max_completion_tokens":24,"max_steps":4},'
    '{"max_completion_tokens":40,"max_steps":2}]',
    "evaluate.samples_per_prompt=4",
    "evaluate.ks=[1,4]",
)


@contextmanager
def count_starts():
    starts, restart = [], VllmEngine.restart

    def counted(self, directory):
        starts.append(directory)
        restart(self, directory)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VllmEngine, "restart", counted)
        yield starts


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory):
    root = tmp_path_factory.mktemp("vllm") / "lake"
    config = load_config("tiny", overrides=MINI)
    with count_starts() as starts, RunSession.open(config, root=root, run="mini") as session:
        results = [run_stage(session.directory, stage) for stage in StageName]
    assert len(starts) == 1, "one engine serves every stage and every checkpoint"
    return root, {node.label: node for result in results for node in result.nodes}


def test_the_whole_pipeline_runs_and_its_audits_pass(finished):
    _, nodes = finished
    assert {"samples", "train/1", "train/2", "eval_samples/2", "audit"} <= nodes.keys()
    assert all(node.state == "Computed" for node in nodes.values())


def test_the_engine_held_the_weights_of_every_step(finished):
    """Rollouts of later batches are scored with weights that the engine was given by a sync."""
    root, nodes = finished
    lake = Lake(root)
    compared = 0
    for label in ("train/1", "train/2"):
        artifact = lake.store.current("train", nodes[label].key)
        for row in artifact.table("rollouts").to_pylist():
            if row["old_logprobs"] is not None:
                difference = np.subtract(row["sampling_logprobs"], row["old_logprobs"])
                assert np.abs(difference).max() < 1e-3, (label, row["step"])
                compared += row["step"] > 1
    assert compared > 0


def test_both_samplers_have_the_same_pass_rate(tmp_path: Path, finished):
    root, nodes = finished
    prompts = Lake(root).store.current("ingest", nodes["prompts"].key).table("prompts")
    problems = list(problems_by_id(draw_limit(active(prompts, Split.TEST), 128)).values())
    share, count = {}, len(problems) * 16
    for engine in ("vllm", "hf"):
        config = load_config("tiny", overrides=[*VLLM, f"execution.engine={engine}"])
        runtime = load_runtime(config, model_directory(config.model.path))
        assert isinstance(runtime.sampler.inner, VllmSampler) == (engine == "vllm")
        requests = [
            sample_request(
                runtime.renderer.render(problem["text"]),
                ("agreement", problem["prompt_id"]),
                num_samples=16,
                temperature=1.0,
                max_completion_tokens=64,
            )
            for problem in problems
        ]
        rows = [row for rows in runtime.sampler.sample(requests) for row in rows]
        texts = [runtime.renderer.decode(row.token_ids) for row in rows]
        asked = [problem for problem in problems for _ in range(16)]
        with Grader(grader_rules(config)) as grader:
            verdicts = grade_rows(grader, texts, asked)
        share[engine] = sum(verdict.reward_raw == 1.0 for verdict in verdicts) / count
        runtime.sampler.close()
    pooled = sum(share.values()) / 2
    error = math.sqrt(2 * pooled * (1 - pooled) / count)
    assert 0.1 < pooled < 0.9
    assert abs(share["vllm"] - share["hf"]) < 4 * error, share
