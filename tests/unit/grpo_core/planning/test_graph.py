"""Which field invalidates what: keys hold all that a node depends on, and nothing else."""

from typing import Any

import pytest

from grpo_core.config import RunConfig, load_config
from grpo_core.config.fields import declared_kinds, leaves
from grpo_core.errors import ConfigError
from grpo_core.planning.externals import Externals
from grpo_core.planning.graph import ForkPoint, Graph, build_graph

EXTERNALS = Externals(
    prompts={"train": "a", "validation": "b", "test": "c"},
    policy="policy",
    reference="reference",
    tokenizer="tokenizer",
    verifier_version=1,
    sql="sql",
)


def graph(*overrides: str, **externals: Any) -> Graph:
    outside = Externals(**{**{f: getattr(EXTERNALS, f) for f in EXTERNALS.__slots__}, **externals})
    return build_graph(load_config("tiny", overrides=overrides), outside)


def keys(built: Graph) -> dict[str, str]:
    """Key of each node when the content of every node is a function of its key."""
    found: dict[str, str] = {}
    for node in built.nodes:
        digests = {r: f"{found[ref.label]}.{ref.aspect}" for r, ref in node.inputs.items()}
        found[node.label] = node.key(digests)
    return found


def changed(*overrides: str, **externals: Any) -> set[str]:
    """Labels whose own key changes while all inputs keep their content."""
    before = {n.label: n.key({r: str(ref) for r, ref in n.inputs.items()}) for n in graph().nodes}
    after = graph(*overrides, **externals)
    return {
        n.label
        for n in after.nodes
        if before.get(n.label) != n.key({r: str(ref) for r, ref in n.inputs.items()})
    }


TRAIN = {"train/1", "train/2", "train/3"}


@pytest.mark.parametrize(
    ("override", "labels"),
    [
        ("bands.hard_max=0.25", {"bands/0", "bands/1", "bands/2", "bands/3"}),
        ("train.group_size=4", {"bands/0", "bands/1", "bands/2", "bands/3", "ref_logp"} | TRAIN),
        ("prefilter.samples_per_prompt=16", {"samples"}),
        ("prefilter.seed=3", {"samples"}),
        ("train.seed=3", {"ref_logp"} | TRAIN),
        ("train.learning_rate=1e-5", TRAIN),
        ("loss.clip_high=0.3", TRAIN),
        ("train.phases.1.max_steps=14", {"train/2"}),
        ("train.phases.0.max_steps=14", {"train/1"}),
        ("train.phases.0.max_completion_tokens=20", {"samples", "train/1"}),
        ("evaluate.samples_per_prompt=8", {f"eval_samples/{n}" for n in ("base", 1, 2, 3)}),
        ("variants.per_prompt=2", {"variants"}),
        ("audit.deep=true", {"audit"}),
        (
            "prompts.test_limit=10",
            {f"eval_{k}/{n}" for k in ("samples",) for n in ("base", 1, 2, 3)},
        ),
        ("execution.micro_batch_rows=7", set()),
        ("execution.threads=1", set()),
        ("evaluate.ks=[1]", set()),
        ("loss.sampler_correction=token_truncated", TRAIN),
        ("filter.refill_rounds=2", TRAIN),
        ("filter.refill_rounds=0", set()),
    ],
)
def test_a_field_invalidates_what_it_names(override: str, labels: set[str]) -> None:
    assert changed(override) == labels


def test_a_verifier_change_samples_nothing_again() -> None:
    labels = changed(verifier_version=2)
    assert not {label for label in labels if "samples" in label}
    assert {"verdicts", "eval_verdicts/base"} | TRAIN <= labels


def test_another_model_changes_what_samples_from_it() -> None:
    assert changed(policy="other") == {"samples", "train/1", "eval_samples/base"}


def test_without_a_kl_term_the_reference_is_in_no_training_key() -> None:
    off = ("kl.place=none", "kl.beta=0", "kl.log=false")
    assert not any("reference" in node.externals for node in graph(*off).nodes if node.phase > 0)


def test_the_runs_seed_reaches_every_seeded_node() -> None:
    assert changed("seed=5") == {"samples", "variants", "ref_logp"} | TRAIN | {
        f"eval_samples/{n}" for n in ("base", 1, 2, 3)
    }


def test_execution_fields_are_in_no_key() -> None:
    config = load_config("tiny")
    paths = {path for path, field, _ in leaves(config) if declared_kinds(field) == ()}
    for node in graph().nodes:
        assert not paths & set(node.fields), node.label


def test_every_keyed_leaf_is_in_a_key_of_the_kinds_that_it_names() -> None:
    config = load_config("tiny")
    nodes = graph().nodes
    for path, field, value in leaves(config):
        is_absent = value == (field.json_schema_extra or {}).get("absent", ...)
        for kind in declared_kinds(field) or ():
            name = path
            if path.startswith("train.phases."):
                name = "phase." + path.rsplit(".", 1)[1]
            holders = [node for node in nodes if node.kind == kind]
            assert holders, (path, kind)
            assert all((name in node.fields) != is_absent for node in holders), (path, kind)


def test_nodes_come_after_their_inputs() -> None:
    seen: set[str] = set()
    for node in graph().nodes:
        assert {ref.label for ref in node.inputs.values()} <= seen, node.label
        seen.add(node.label)


def test_the_base_is_evaluated_once_for_all_training_settings() -> None:
    one, two = keys(graph()), keys(graph("train.learning_rate=1e-5", "train.seed=4"))
    assert one["eval_samples/base"] == two["eval_samples/base"]
    assert one["eval_samples/1"] != two["eval_samples/1"]


def test_a_fork_starts_after_its_point() -> None:
    config: RunConfig = load_config("tiny")
    whole = ForkPoint(1, 12, "d", is_phase_end=True, directory="x", phase_start=0)
    middle = ForkPoint(2, 16, "d", is_phase_end=False, directory="x", phase_start=12)
    assert [n.label for n in build_graph(config, EXTERNALS, whole).nodes if n.kind == "train"] == [
        "train/2",
        "train/3",
    ]
    forked = build_graph(config, EXTERNALS, middle)
    assert [n.label for n in forked.nodes if n.kind == "train"] == ["train/2", "train/3"]
    assert forked["train/2"].externals["parent_state"] == "d"
    assert "parent_state" not in forked["train/3"].externals


def test_a_fork_into_a_phase_that_is_over_is_refused() -> None:
    middle = ForkPoint(2, 16, "d", is_phase_end=False, directory="x", phase_start=12)
    short = load_config("tiny", overrides=["train.phases.1.max_steps=4"])
    with pytest.raises(ConfigError, match=r"train\.phases\.1\.max_steps"):
        build_graph(short, EXTERNALS, middle)


def test_what_is_left_of_a_forked_phase_is_in_its_key() -> None:
    middle = ForkPoint(2, 16, "d", is_phase_end=False, directory="x", phase_start=12)
    later = ForkPoint(2, 16, "d", is_phase_end=False, directory="x", phase_start=10)
    config = load_config("tiny")
    one, two = (build_graph(config, EXTERNALS, fork)["train/2"] for fork in (middle, later))
    assert one.fields["remaining_steps"] == 8
    assert one.key({}) != two.key({})
