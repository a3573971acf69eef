import numpy as np
import pytest
import torch

from grpo_core.sampling.draw import draw_tokens, uniform_streams


def draw(logits, uniforms, temperature=1.0):
    logits = torch.tensor(logits)
    rows = len(logits)
    return draw_tokens(
        logits, torch.full((rows, 1), temperature), torch.tensor(uniforms).reshape(rows, 1)
    )


def test_a_row_of_uniforms_depends_on_its_seed_alone():
    together = uniform_streams([3, 99, 2**63 - 1], 40)
    assert torch.equal(together[1], uniform_streams([99], 40)[0])
    assert torch.equal(together[:, :7], uniform_streams([3, 99, 2**63 - 1], 7))
    assert not torch.equal(together[0], together[1])


def test_a_row_is_the_philox_stream_of_its_seed():
    for seed in (0, 7, 2**64 + 5, 2**128 - 1):
        stream = np.random.Generator(np.random.Philox(key=seed))
        want = stream.random(9, dtype=np.float32)
        assert uniform_streams([1, seed], 9)[1].tolist() == want.tolist()


def test_uniforms_are_uniform():
    values = uniform_streams(range(500), 200).numpy().ravel()
    assert 0 <= values.min() < values.max() < 1
    counts = np.histogram(values, bins=20, range=(0, 1))[0]
    assert (np.abs(counts - 5000) < 5 * np.sqrt(5000 * 0.95)).all()


def test_the_token_is_where_the_cumulative_probability_passes_the_uniform():
    logits = np.log([[0.2, 0.5, 0.3]] * 5).tolist()
    tokens, logprobs = draw(logits, [0.0, 0.19, 0.21, 0.69, 0.71])
    assert tokens.tolist() == [0, 0, 1, 1, 2]
    assert torch.allclose(logprobs.exp(), torch.tensor([0.2, 0.2, 0.5, 0.5, 0.3]))


def test_logprobs_are_at_the_temperature_over_the_whole_vocabulary():
    logits = torch.randn(16, 11) * 3
    temperatures = torch.linspace(0.3, 2.0, 16)[:, None]
    tokens, logprobs = draw_tokens(logits, temperatures, uniform_streams(range(16), 1))
    want = torch.log_softmax(logits.double() / temperatures.double(), -1)
    assert torch.allclose(logprobs.double(), want.gather(1, tokens[:, None]).squeeze(1), atol=1e-6)


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 2**-24])
def test_impossible_tokens_are_never_drawn(uniform):
    """At both ends and in the middle, also where the sum of the probabilities is not exactly 1."""
    generator = torch.Generator().manual_seed(0)
    for size in (5, 50, 1000):
        logits = torch.randn(64, size, generator=generator)
        logits[:, 0] = logits[:, -1] = logits[:, size // 2] = float("-inf")
        tokens, logprobs = draw_tokens(logits, torch.ones(64, 1), torch.full((64, 1), uniform))
        assert torch.isfinite(logprobs).all()
        assert not torch.isin(tokens, torch.tensor([0, size // 2, size - 1])).any()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_nan_and_infinite_logits_show_in_the_logprob(bad):
    tokens, logprobs = draw([[1.0, 2.0, 3.0], [1.0, bad, 3.0]], [0.3, 0.3])
    assert torch.isfinite(logprobs).tolist() == [True, False]
    assert 0 <= int(tokens[1]) < 3
