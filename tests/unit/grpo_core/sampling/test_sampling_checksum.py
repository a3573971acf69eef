"""Checksums of weights, however an engine fuses, pads, orders and splits them."""

import pytest
import torch

from grpo_core.models.directory import SavedWeights
from grpo_core.sampling.checksum import OTHERS, HeldWeights, checksum, differing

QKV = "layers.0.qkv_proj.weight"
PARTS = ["layers.0.q_proj.weight", "layers.0.k_proj.weight", "layers.0.v_proj.weight"]


@pytest.fixture
def weights():
    """A model of one layer: 4 heads of queries and 2 of keys and values, 6 numbers each."""
    generator = torch.Generator().manual_seed(0)
    shapes = dict(zip(PARTS, [(24, 8), (12, 8), (12, 8)], strict=True))
    shapes |= {"embed.weight": (50, 8), "norm.weight": (8,)}
    return {
        name: torch.randn(shape, generator=generator).to(torch.bfloat16)
        for name, shape in shapes.items()
    }


def held(name, tensor, shard="0", parts=None):
    return HeldWeights(name, parts or [name], "bfloat16", shard, checksum(tensor))


def engine_of(weights, num_ranks=1):
    """What the ranks of an engine hold: q, k, v fused and split, vocabulary padded, norms whole."""
    rows = []
    padded = torch.nn.functional.pad(weights["embed.weight"], (0, 0, 0, 14))
    replicas = max(1, num_ranks // 2)
    for rank in range(num_ranks):
        q, k, v = (
            weights[name].chunk(ranks)[rank // (num_ranks // ranks)]
            for name, ranks in zip(PARTS, (num_ranks, *[num_ranks // replicas] * 2), strict=True)
        )
        rows += [
            held(QKV, q, f"q{rank}", PARTS),
            held(QKV, torch.cat([k, v]), f"kv{rank // replicas}", PARTS),
            held("embed.weight", padded.chunk(num_ranks)[rank], str(rank)),
            held("norm.weight", weights["norm.weight"], str(rank)),
        ]
    return rows


def step(tensor, index=0):
    """Move one weight by its last bit."""
    tensor.view(torch.int16).view(-1)[index] += 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_the_order_of_the_numbers_and_zeros_between_them_do_not_matter(dtype):
    values = torch.randn(3000, generator=torch.Generator().manual_seed(1)).to(dtype)
    shuffled = values[torch.randperm(3000, generator=torch.Generator().manual_seed(2))]
    padded = torch.cat([shuffled, torch.zeros(600, dtype=dtype)])
    assert checksum(padded) == checksum(padded.view(60, 60).t()) == checksum(values) != 0
    assert checksum(-torch.zeros(5, dtype=dtype)) == 0


def test_any_one_bit_moves_it():
    values = torch.arange(1, 65).to(torch.bfloat16)  # no two alike, or moved ones could swap
    seen = {checksum(values)}
    for index in range(64):
        for bit in [1 << n for n in range(15)] + [-(1 << 15)]:
            other = values.clone()
            other.view(torch.int16)[index] ^= bit
            seen.add(checksum(other))
    assert len(seen) == 1 + 64 * 16


def test_steps_that_cancel_in_a_plain_sum_of_bits_are_seen():
    values = torch.tensor([1.5, 2.5, 3.5, 4.5], dtype=torch.bfloat16)
    moved = values.clone()
    moved.view(torch.int16)[:] += torch.tensor([1, -1, 2, -2], dtype=torch.int16)
    assert checksum(moved) != checksum(values)


def test_tensors_beyond_one_chunk_count_to_their_end():
    values = torch.ones((1 << 20) + 3)
    assert checksum(values) == ((1 << 20) + 3) * checksum(torch.ones(1)) % (1 << 64)


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_fused_padded_and_split_tensors_are_made_of_the_weights(weights, num_ranks):
    engine = engine_of(weights, num_ranks)
    assert differing(engine, weights) == []
    for name, parameter in [(PARTS[1], QKV), ("embed.weight", "embed.weight")]:
        stale = {key: tensor.clone() for key, tensor in weights.items()}
        step(stale[name], index=-1)
        assert differing(engine, stale) == [parameter]


def test_a_copy_that_differs_on_one_rank_is_named(weights):
    """Four ranks hold each head of keys and values twice; one copy is stale."""
    engine = engine_of(weights, 4)
    stale = {key: tensor.clone() for key, tensor in weights.items()}
    step(stale[PARTS[2]])
    step(stale["norm.weight"])
    mixed = [*engine[:4], *engine_of(stale, 4)[4:8], *engine[8:]]
    assert differing(mixed, weights) == [QKV, "norm.weight"]


def test_a_missing_shard_is_named(weights):
    engine = [one for one in engine_of(weights, 2) if (one.name, one.shard) != (QKV, "q1")]
    assert differing(engine, weights) == [QKV]


def test_equal_halves_of_a_tensor_are_no_copies(weights):
    weights["norm.weight"] = torch.ones(8, dtype=torch.bfloat16)
    engine = [one for one in engine_of(weights, 2) if one.name != "norm.weight"]
    halves = [held("norm.weight", torch.ones(4, dtype=torch.bfloat16), n) for n in "01"]
    assert differing([*engine, *halves], weights) == []


def test_names_of_the_engines_own_are_compared_in_one_sum(weights):
    engine = [
        one._replace(name=f"language.{one.name}", parts=[f"language.{p}" for p in one.parts])
        for one in engine_of(weights, 2)
    ]
    assert differing(engine, weights) == []
    step(weights["norm.weight"])
    assert differing(engine, weights) == [OTHERS]
    assert differing([], weights) == [OTHERS]


def test_what_only_the_engine_holds_is_not_looked_at(weights):
    scale = held("layers.0.attn._k_scale", torch.ones(1, dtype=torch.bfloat16))
    assert differing([*engine_of(weights), scale], weights) == []


def test_a_tied_head_is_the_embedding(weights):
    head = held("head.weight", weights["embed.weight"])
    ties = {"head.weight": "embed.weight"}
    assert differing([*engine_of(weights), head], weights, ties) == []
    step(weights["embed.weight"])
    assert differing([*engine_of(weights), head], weights, ties) == ["head.weight"]


def test_files_in_another_dtype_are_rounded_as_the_engine_rounds_them(weights, tmp_path):
    from safetensors.torch import save_file

    exact = {name: tensor.float() * 1.007 for name, tensor in weights.items()}
    save_file(exact, tmp_path / "model.safetensors")
    engine = engine_of({name: tensor.to(torch.bfloat16) for name, tensor in exact.items()})
    files = SavedWeights(tmp_path)
    assert len(files) == len(weights)
    assert differing(engine, files) == []
    save_file(weights, tmp_path / "model.safetensors")
    assert QKV in differing(engine, SavedWeights(tmp_path))


def test_a_file_may_hold_a_tied_tensor_twice(weights):
    twice = weights | {"head.weight": weights["embed.weight"].clone()}
    engine = engine_of(weights)
    assert differing(engine, twice) == []
    step(twice["embed.weight"])
    assert differing(engine, twice) == ["embed.weight"]


def test_a_file_without_the_engines_prefix_may_hold_more_or_less(weights):
    """Masks of old files, scales of the engine's own."""
    engine = [held(f"transformer.{name}", tensor) for name, tensor in weights.items()]
    mask = {"attn.bias": torch.ones(1, 1, 4, 4).tril()}
    assert differing(engine, weights | mask) == []
    scale = held("attn.scale", torch.ones(1, dtype=torch.bfloat16))
    assert differing([*engine, scale], weights) == []
    step(weights["norm.weight"])
    assert differing(engine, weights | mask) == [OTHERS]
    assert differing([*engine, scale], weights) == [OTHERS]
