import pytest
import torch

from grpo_core.errors import ConfigError, DataContractError
from grpo_core.objective import KlConfig, LossBatch, LossConfig, policy_loss, resolve_loss
from grpo_core.objective import reference as papers
from grpo_core.objective.generated import generate_step
from grpo_core.objective.reference_options import reference_loss
from grpo_core.objective.verify import arrangements, run_arrangement

torch.set_num_threads(1)

METHODS = ("grpo", "dapo", "dr_grpo", "gspo", "gspo_token", "cispo")
DEFINITIONS = {
    "grpo": papers.grpo,
    "dapo": papers.dapo,
    "dr_grpo": lambda step: papers.dr_grpo(step, 12),
    "gspo": papers.gspo,
    "gspo_token": papers.gspo_token,
    "cispo": papers.cispo,
}


def preset(method, **options):
    return resolve_loss(LossConfig(method=method, **options), longest_completion_tokens=12)


def drift(method):
    return 1e-3 if method.startswith("gspo") else 0.3


@pytest.mark.parametrize("per_token", [False, True], ids=["rollout", "token"])
@pytest.mark.parametrize("method", METHODS)
def test_preset_equals_the_definition_of_its_paper(method, per_token):
    config = preset(method)
    step = generate_step(3, drift=drift(method), per_token=per_token)
    reference = step.reference()
    expected = DEFINITIONS[method](reference)
    (gradient,) = torch.autograd.grad(expected, [reference.logprobs])
    for how in arrangements(step.mask.shape[0]):
        loss, actual = run_arrangement(step, how, config)
        assert loss == pytest.approx(float(expected.detach()), rel=1e-5, abs=1e-7)
        torch.testing.assert_close(
            actual.double(), torch.where(step.mask, gradient, 0.0), rtol=1e-5, atol=1e-7
        )


@pytest.mark.parametrize("method", METHODS)
def test_both_definitions_agree(method):
    step = generate_step(5, drift=drift(method)).reference()
    general = reference_loss(step, preset(method))
    assert float(general.detach()) == pytest.approx(float(DEFINITIONS[method](step).detach()))


@pytest.mark.parametrize("method", ["grpo", "dapo", "dr_grpo", "gspo"])
def test_gradient_of_the_definition_is_its_slope(method):
    # The others stop gradients on purpose, so that their slope is another one.
    step = generate_step(1, groups=2, group_size=2, tokens=4, drift=drift(method)).reference()
    loss = reference_loss(step, preset(method))
    (gradient,) = torch.autograd.grad(loss, [step.logprobs])
    for row, tokens in enumerate(step.live):
        for token in tokens:
            slopes = []
            for shift in (1e-6, -1e-6):
                moved = step.logprobs.detach().clone()
                moved[row, token] += shift
                other = type(step)(**{**step.__dict__, "logprobs": moved})
                slopes.append(float(reference_loss(other, preset(method))))
            assert (slopes[0] - slopes[1]) / 2e-6 == pytest.approx(
                float(gradient[row, token]), abs=1e-8
            )


def test_advantages_a_token_differ_from_their_mean():
    step = generate_step(3, per_token=True)
    whole = next(arrangements(step.mask.shape[0]))
    _, own = run_arrangement(step, whole, preset("dapo"))
    flat = type(step)(
        **{
            **step.__dict__,
            "advantages": step.advantages.nanmean(dim=1, keepdim=True) + 0 * step.advantages,
        }
    )
    _, mean = run_arrangement(flat, whole, preset("dapo"))
    assert not torch.allclose(own, mean)


def batch_of(**optional):
    ones = torch.full((2, 3), -1.0)
    mask = torch.ones((2, 3), dtype=torch.bool)
    return LossBatch.whole_step(ones, ones, torch.tensor([1.0, -1.0]), mask, **optional)


@pytest.mark.parametrize(
    ("config", "kl", "missing"),
    [
        (LossConfig(), KlConfig(place="loss", beta=0.1), "ref_logprobs"),
        (LossConfig(sampler_correction="token_masked"), None, "sampling_logprobs"),
        (LossConfig(aggregation="prompt_mean"), None, "group_index"),
    ],
)
def test_missing_tensors_are_named(config, kl, missing):
    with pytest.raises(DataContractError, match=missing):
        policy_loss(batch_of(), config, kl=kl)


def test_constant_length_needs_its_constant():
    with pytest.raises(ConfigError, match="constant_length_tokens"):
        policy_loss(batch_of(), LossConfig(method="dr_grpo"))


def test_half_precision_logprobs_are_computed_in_fp32():
    half = torch.full((1, 2), -1.0, dtype=torch.bfloat16, requires_grad=True)
    batch = LossBatch.whole_step(
        half, torch.full((1, 2), -1.25), torch.tensor([1.0]), torch.ones((1, 2), dtype=torch.bool)
    )
    output = policy_loss(batch, LossConfig(method="grpo", clip_high=1.0))
    assert output.loss.dtype == torch.float32
    assert float(output.loss.detach()) == pytest.approx(-(2.718281828**0.25))


def test_shapes_and_dtypes_are_checked():
    ones, mask = torch.zeros((2, 3)), torch.ones((2, 3), dtype=torch.bool)
    with pytest.raises(DataContractError, match="old_logprobs"):
        LossBatch.whole_step(ones, ones[:1], torch.zeros(2), mask)
    with pytest.raises(DataContractError, match="advantages"):
        LossBatch.whole_step(ones, ones, torch.zeros(3), mask)
    with pytest.raises(DataContractError, match="completion_mask"):
        LossBatch.whole_step(ones, ones, torch.zeros(2), mask.float())
    with pytest.raises(DataContractError, match="logprobs"):
        LossBatch.whole_step(ones[0], ones[0], torch.zeros(2), mask)
