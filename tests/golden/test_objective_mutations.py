"""A fault in the objective turns the golden values red; trying all faults takes a minute."""

import pytest
import torch
from objective_loader import MODULES, load_objective, source_of
from objective_mutants import mutants
from values_all import CHECKS

torch.set_num_threads(1)

CHOSEN = {
    "flipped sign": ("losses", "return -gain", "return gain"),
    "dropped mask": (
        "losses",
        "masked(policy_weights * policy_tokens, mask)",
        "(policy_weights * policy_tokens)",
    ),
    "swapped min and max": ("losses", "torch.minimum(ratio", "torch.maximum(ratio"),
    "ratio to the reference": (
        "losses",
        "exact - batch.old_logprobs",
        "exact - batch.ref_logprobs",
    ),
    "swapped clip bounds": ("losses", "ratio.clamp(low, high)", "ratio.clamp(2 - high, 2 - low)"),
    "gradient through the cap": ("losses", "ratio.detach().clamp", "ratio.clamp"),
    "other ddof": (
        "advantages",
        "safe_total - weight.square().sum(dim=1, keepdim=True) / safe_total",
        "safe_total",
    ),
    "nulls as zeros": (
        "advantages",
        "valid = ~torch.isnan(source)\n    weight",
        "source = source.nan_to_num(0.0)\n    valid = ~torch.isnan(source)\n    weight",
    ),
    "no eps": ("advantages", "std, std_scope) + eps)", "std, std_scope))"),
    "swapped roles in the KL": (
        "kl",
        "gap = ref_logprobs - logprobs",
        "gap = logprobs - ref_logprobs",
    ),
    "k3 without its linear term": ("kl", "torch.expm1(inner) - gap", "torch.expm1(inner)"),
    "micro-batch token mean": (
        "aggregation",
        "torch.full_like(lengths, totals.live_tokens)",
        "torch.full_like(lengths, mask.sum())",
    ),
    "padding in the row mean": ("aggregation", "mask.sum(dim=1).clamp(min=1)", "mask.shape[1]"),
    "sum instead of mean in GSPO": (
        "ratios",
        "mean = row_mean(log_ratio, mask).unsqueeze(1)",
        "mean = log_ratio.sum(dim=1, keepdim=True)",
    ),
    "sampler ratio upside down": ("ratios", "exponent = sampler", "exponent = -sampler"),
    "EOS left out": (
        "masks",
        "(ends.cumsum(dim=1) - ends.to(torch.int64)) == 0",
        "ends.cumsum(dim=1) == 0",
    ),
    "no temperature": ("projection", "(chosen - offset) * factor", "(chosen - offset)"),
}

# Faults that change no result, each with the reason.
HARMLESS = {
    ("projection", "negated device.type == 'cpu'"): "block size, a matter of speed",
    ("projection", "Mult -> Div: chunk_rows * vocabulary"): "buffer size, a matter of memory",
}


def is_noticed(objective, order):
    """Whether a check fails; the one that does moves to the front."""
    for check in order:
        try:
            check(objective)
        except Exception:  # noqa: BLE001 - any way of failing is noticing
            order.remove(check)
            order.insert(0, check)
            return True
    return False


@pytest.mark.parametrize("name", CHOSEN)
def test_chosen_fault_is_noticed(name):
    module, old, new = CHOSEN[name]
    assert source_of(module).count(old) == 1
    objective = load_objective(module, lambda source: source.replace(old, new))
    assert is_noticed(objective, list(CHECKS))


def test_the_source_as_it_is_passes():
    assert not is_noticed(load_objective(), list(CHECKS))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("module", MODULES)
def test_every_fault_is_noticed(module):
    order, survivors = list(CHECKS), []
    for fault, source in mutants(source_of(module)):
        if (module, fault) in HARMLESS:
            continue
        try:
            objective = load_objective(module, lambda _, text=source: text)
        except Exception:  # noqa: BLE001 - a fault that cannot be imported is noticed
            continue
        if not is_noticed(objective, order):
            survivors.append(fault)
    assert survivors == []
