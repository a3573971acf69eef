import torch
from contract import prompt, random_policy
from transformers import DynamicCache

from grpo_core.sampling.decode import fill_holes
from grpo_core.sampling.kv_cache import BufferedLayer, new_cache


def test_appending_and_reordering_give_what_the_plain_cache_gives():
    generator = torch.Generator().manual_seed(0)
    plain, buffered = DynamicCache(), new_cache_without_config()
    num_rows = 2

    def append(tokens):
        states = [torch.randn(num_rows, 3, tokens, 4, generator=generator) for _ in range(2)]
        for left, right in zip(plain.update(*states, 0), buffered.update(*states, 0), strict=True):
            assert torch.equal(left, right)

    append(30)
    for order in ([0, 0, 0, 1, 1, 1, 1], [0, 6, 2, 5], [1, 3], [0]):
        for cache in (plain, buffered):
            cache.reorder_cache(torch.tensor(order))
        num_rows = len(order)
        append(1)
        append(40)
    assert buffered.get_seq_length() == plain.get_seq_length() == 30 + 4 * 41


def new_cache_without_config():
    cache = new_cache(random_policy().config)
    cache.layers = cache.layers[:1]
    return cache


def test_a_llama_gets_buffered_layers_only():
    cache = new_cache(random_policy().config)
    assert [type(layer) for layer in cache.layers] == [BufferedLayer] * 2
    assert cache.get_seq_length() == 0


def test_the_model_computes_the_same_with_it():
    model = random_policy()
    ids = torch.tensor([prompt(20), prompt(20, seed=5)])
    cache = new_cache(model.config)
    with torch.no_grad():
        parts = [
            model(ids[:, start:stop], past_key_values=cache, use_cache=True).logits
            for start, stop in ((0, 7), (7, 8), (8, 20))
        ]
        want = model(ids).logits
    assert torch.allclose(torch.cat(parts, 1), want, atol=1e-5)


def test_holes_are_filled_from_the_end():
    is_open = torch.tensor([True, False, True, False, True, True])
    assert fill_holes(is_open, 4).tolist() == [0, 4, 2, 5]
    assert fill_holes(torch.tensor([True, True]), 2).tolist() == [0, 1]
    assert fill_holes(torch.tensor([False, False, True]), 1).tolist() == [2]
