import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from grpo_core.errors import DataContractError
from grpo_core.objective import selective_logprobs
from grpo_core.objective.entropy import entropy_from_logits
from grpo_core.objective.logprobs import HeadSpec, token_logprobs
from grpo_core.objective.plain import plain_logprobs

torch.set_num_threads(1)

VOCABULARY, WIDTH = 5003, 24


def inputs(shape=(7,), dtype=torch.float32, seed=0):
    draw = torch.Generator().manual_seed(seed)
    hidden = torch.randn((*shape, WIDTH), generator=draw, dtype=torch.float32)
    weight = 0.5 * torch.randn((VOCABULARY, WIDTH), generator=draw)
    ids = torch.randint(0, VOCABULARY, shape, generator=draw)
    incoming = torch.randn(shape, generator=draw)
    return (
        hidden.to(dtype).requires_grad_(),
        weight.to(dtype).requires_grad_(),
        ids,
        incoming,
    )


def plain(hidden, weight, ids, temperature=1.0, spec=None):
    spec = spec or HeadSpec()
    logits = spec.scale * (hidden.double() @ weight.double().T)
    if spec.bias is not None:
        logits = logits + spec.bias.double()
    if spec.softcap is not None:
        logits = spec.softcap * torch.tanh(logits / spec.softcap)
    return plain_logprobs(logits, ids, temperature=temperature)


def relative(actual, expected):
    return float((actual.double() - expected.double()).norm() / expected.double().norm())


SPECS = {
    "plain": HeadSpec,
    "bias": lambda: HeadSpec(bias=torch.linspace(-1, 1, VOCABULARY).requires_grad_()),
    "all": lambda: HeadSpec(
        scale=0.7, softcap=5.0, bias=torch.linspace(-1, 1, VOCABULARY).requires_grad_()
    ),
}


@pytest.mark.parametrize("temperature", [1.0, 0.6, "rows"])
@pytest.mark.parametrize("name", SPECS)
def test_values_and_gradients_equal_the_plain_path(name, temperature):
    spec = SPECS[name]()
    hidden, weight, ids, incoming = inputs((3, 5))
    if temperature == "rows":
        temperature = torch.tensor([0.5, 1.0, 1.7])
    expected = plain(hidden, weight, ids, temperature, spec)
    actual = token_logprobs(hidden, weight, ids, temperature=temperature, chunk_tokens=4, head=spec)
    for mine, theirs in zip(actual, expected, strict=True):
        assert mine.dtype == torch.float32
        torch.testing.assert_close(mine.double(), theirs, rtol=1e-5, atol=1e-5)
    leaves = [hidden, weight] + ([spec.bias] if spec.bias is not None else [])
    mine = torch.autograd.grad((actual.logprobs * incoming).sum(), leaves)
    theirs = torch.autograd.grad((expected.logprobs * incoming).sum(), leaves)
    assert max(map(relative, mine, theirs)) < 1e-5


@pytest.mark.parametrize("chunk", [1, 3, 7, 100])
def test_chunk_size_changes_nothing_but_rounding(chunk):
    hidden, weight, ids, incoming = inputs()
    logprobs, entropy = selective_logprobs(hidden, weight, ids, chunk_tokens=chunk)
    whole, whole_entropy = selective_logprobs(hidden, weight, ids, chunk_tokens=7)
    torch.testing.assert_close(logprobs, whole)
    torch.testing.assert_close(entropy, whole_entropy)
    mine = torch.autograd.grad((logprobs * incoming).sum(), (hidden, weight))
    theirs = torch.autograd.grad((whole * incoming).sum(), (hidden, weight))
    assert max(map(relative, mine, theirs)) < 1e-5


def test_fp64_gradients_are_slopes():
    hidden, weight, ids, _ = inputs((3,), torch.float64)
    hidden = hidden.detach()[:, :4].clone().requires_grad_()
    weight = weight.detach()[:9, :4].clone().requires_grad_()
    bias = torch.linspace(-1, 1, 9, dtype=torch.float64).requires_grad_()
    spec = {"scale": 0.8, "softcap": 4.0}

    def logprobs(h, w, b):
        head = HeadSpec(**spec, bias=b)
        return token_logprobs(h, w, ids % 9, temperature=0.7, chunk_tokens=2, head=head).logprobs

    assert torch.autograd.gradcheck(logprobs, (hidden, weight, bias))


def test_half_precision_heads_are_cast_and_get_their_dtype_back():
    hidden, weight, ids, incoming = inputs(dtype=torch.bfloat16)
    expected = plain(hidden, weight, ids)
    logprobs, entropy = selective_logprobs(hidden, weight, ids, chunk_tokens=3)
    torch.testing.assert_close(logprobs.double(), expected.logprobs, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(entropy.double(), expected.policy_entropy_nats, rtol=1e-5, atol=1e-5)
    mine = torch.autograd.grad((logprobs * incoming).sum(), (hidden, weight))
    theirs = torch.autograd.grad((expected.logprobs * incoming).sum(), (hidden, weight))
    assert [gradient.dtype for gradient in mine] == [torch.bfloat16] * 2
    assert max(map(relative, mine, theirs)) < 4e-3  # the rounding of bf16 itself


def test_only_what_is_asked_for_gets_a_gradient():
    hidden, weight, ids, incoming = inputs()
    theirs = torch.autograd.grad((plain(hidden, weight, ids).logprobs * incoming).sum(), [hidden])
    frozen, _ = selective_logprobs(hidden, weight.detach(), ids)
    mine = torch.autograd.grad((frozen * incoming).sum(), [hidden])
    assert relative(mine[0], theirs[0]) < 1e-5
    only_head, _ = selective_logprobs(hidden.detach(), weight, ids)
    (to_weight,) = torch.autograd.grad((only_head * incoming).sum(), [weight])
    assert float(to_weight.abs().max()) > 0
    with torch.no_grad():
        assert not selective_logprobs(hidden, weight, ids)[0].requires_grad
    assert not selective_logprobs(hidden, weight, ids)[1].requires_grad


def test_rows_without_gradient_leak_nothing():
    hidden, weight, ids, incoming = inputs()
    broken = hidden.detach().clone()
    broken[2] = float("nan")
    broken.requires_grad_()
    incoming[2] = 0.0
    logprobs, _ = selective_logprobs(broken, weight, ids, chunk_tokens=3)
    mine = torch.autograd.grad(
        torch.where(incoming != 0, logprobs, 0.0) @ incoming, (broken, weight)
    )
    kept = torch.tensor([0, 1, 3, 4, 5, 6])
    whole, _ = selective_logprobs(hidden[kept], weight, ids[kept])
    theirs = torch.autograd.grad(whole @ incoming[kept], (hidden, weight))
    assert relative(mine[0], theirs[0]) < 1e-6
    assert relative(mine[1], theirs[1]) < 1e-6
    assert bool((mine[0][2] == 0).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_does_not_lower_the_precision(dtype):
    hidden, weight, ids, incoming = inputs(dtype=dtype)
    head = HeadSpec(bias=torch.linspace(-1, 1, VOCABULARY).requires_grad_())
    results = []
    for enabled in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            logprobs = token_logprobs(hidden, weight, ids, head=head).logprobs
            leaves = (hidden, weight, head.bias)
            slopes = torch.autograd.grad((logprobs * incoming).sum(), leaves)
        results.append((logprobs, *slopes))
    for plain, cast in zip(*results, strict=True):
        torch.testing.assert_close(cast, plain, rtol=0.0, atol=0.0)


def test_extreme_logits_stay_finite():
    hidden, weight, ids, _ = inputs()
    logprobs, entropy = selective_logprobs(1e4 * hidden, weight, ids, temperature=0.1)
    assert bool(torch.isfinite(logprobs).all())
    assert bool((entropy >= -1e-6).all())
    blocked = HeadSpec(bias=torch.where(torch.arange(VOCABULARY) % 2 == 1, -torch.inf, 0.0))
    result = token_logprobs(hidden, weight, ids // 2 * 2, head=blocked)
    expected = plain(hidden, weight, ids // 2 * 2, spec=blocked)
    for mine, theirs in zip(result, expected, strict=True):
        torch.testing.assert_close(mine.double(), theirs, rtol=1e-5, atol=1e-5)


class LargestTensor(TorchDispatchMode):
    """Remembers the largest number of elements of any tensor that an operator returned."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.elements = max(self.elements, tensor.untyped_storage().nbytes() // 4)
        return result


def test_no_logits_tensor_is_ever_alive():
    hidden, weight, ids, incoming = inputs((512,))
    chunk = 64
    with LargestTensor() as largest:
        logprobs, _ = selective_logprobs(hidden, weight, ids, temperature=0.7, chunk_tokens=chunk)
        (logprobs * incoming).sum().backward()
    assert largest.elements <= chunk * VOCABULARY
    with LargestTensor() as largest:
        plain_logprobs(hidden @ weight.T, ids)
    assert largest.elements == 512 * VOCABULARY


def test_no_tokens_are_fine():
    hidden, weight, ids, _ = inputs((0,))
    logprobs, entropy = selective_logprobs(hidden, weight, ids)
    assert logprobs.shape == entropy.shape == (0,)
    logprobs.sum().backward()
    assert float(weight.grad.abs().max()) == 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": torch.tensor([VOCABULARY] * 7)}, "token_ids"),
        ({"ids": torch.tensor([-1] * 7)}, "token_ids"),
        ({"ids": torch.zeros(6, dtype=torch.int64)}, "hidden"),
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": torch.ones(3)}, "temperature"),
        ({"chunk_tokens": 0}, "chunk_tokens"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(change, message):
    hidden, weight, ids, _ = inputs()
    ids = change.pop("ids", ids)
    with pytest.raises(DataContractError, match=message):
        selective_logprobs(hidden, weight, ids, **change)


def test_entropy_of_a_uniform_policy():
    logits = torch.zeros((2, 8))
    assert entropy_from_logits(logits).tolist() == pytest.approx([3 * 0.6931471805] * 2)
