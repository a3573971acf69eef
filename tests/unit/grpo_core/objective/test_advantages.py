import pytest
import torch

from grpo_core.errors import ConfigError, DataContractError
from grpo_core.objective import group_advantages
from grpo_core.objective.advantages import reward_tensor
from grpo_core.objective.winsorise import winsorise


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_result_has_the_dtype_of_the_rewards(dtype):
    assert group_advantages(torch.tensor([[1.0, 0.0]], dtype=dtype)).dtype == dtype


def test_integer_rewards_are_accepted():
    actual = group_advantages(torch.tensor([[1, 0]]), eps=0.0)
    torch.testing.assert_close(actual, torch.tensor([[0.70710678, -0.70710678]]))


def test_input_is_not_changed():
    rewards = torch.tensor([[1.0, float("nan"), 3.0]])
    before = rewards.clone()
    group_advantages(rewards, clip=1.0, tolerance_band=0.5)
    winsorise(rewards, low=0.1, high=0.9)
    torch.testing.assert_close(rewards, before, equal_nan=True)


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        ([[1.0], [0.0]], "group_size must be at least 2"),
        (torch.tensor([1.0, 0.0]), r"expected shape \[B, G\]"),
        ([[1.0, 0.0], [1.0]], "different size"),
        ([[1.0, float("inf")]], "infinite"),
    ],
)
def test_rewards_that_form_no_groups_are_refused(rewards, message):
    with pytest.raises(DataContractError, match=message):
        reward_tensor(rewards)


def test_negative_confidence_is_refused():
    with pytest.raises(DataContractError, match="weights"):
        group_advantages([[1.0, 0.0]], weights=torch.tensor([[1.0, -1.0]]))


@pytest.mark.parametrize("weight", [float("nan"), -0.1])
def test_weights_must_be_numbers(weight):
    with pytest.raises(DataContractError, match="weights"):
        group_advantages([[1.0, 0.0]], weights=torch.tensor([[1.0, weight]]))


@pytest.mark.parametrize(
    "options",
    [{"std": "robust"}, {"baseline": "median"}, {"std_scope": "step"}, {"ema_weight": 0.5}],
)
def test_unknown_names_are_refused(options):
    with pytest.raises(ConfigError):
        group_advantages([[1.0, 0.0]], **options)


def test_shapes_of_optional_tensors_are_checked():
    with pytest.raises(DataContractError, match="baseline"):
        group_advantages([[1.0, 0.0]], std="none", baseline=torch.zeros(2))
    with pytest.raises(DataContractError, match="ema_baseline"):
        group_advantages([[1.0, 0.0]], ema_baseline=torch.zeros(2), ema_weight=0.5)
    with pytest.raises(DataContractError, match="sources"):
        winsorise(torch.zeros(2, 2), low=0.1, high=1.0, sources=["a"])


def test_leave_one_out_near_constant_peers_stays_bounded():
    # Peers of the first rollout have no spread of their own; the group's deviation has.
    actual = group_advantages([[0.0] + [0.95] * 7], baseline="leave_one_out")
    assert float(actual.abs().max()) < 8**0.5
