"""Any legal combination of options meets its fp64 definition: the options are orthogonal."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_core.objective import AdvantageConfig, KlConfig, LossConfig, verify_loss
from grpo_core.objective.checks import RunFacts
from grpo_core.objective.presets import PRESETS
from grpo_core.objective.verify_advantages import ADVANTAGE_TOLERANCE, advantage_error

torch.set_num_threads(1)
steady = settings(max_examples=40, deadline=None, derandomize=True)


def maybe(values):
    return st.one_of(st.none(), values)


losses = st.fixed_dictionaries(
    {
        "method": st.sampled_from(["grpo", "dapo", "dr_grpo", "gspo", "gspo_token", "cispo"]),
        "ratio": maybe(st.sampled_from(["token", "sequence", "sequence_token"])),
        "surrogate": maybe(st.sampled_from(["clipped", "weighted"])),
        "clip_low": maybe(st.floats(0.01, 0.9)),
        "clip_high": maybe(st.floats(0.01, 2.0)),
        "dual_clip": maybe(st.floats(1.1, 4.0)),
        "ratio_cap": maybe(st.floats(0.5, 6.0)),
        "aggregation": maybe(
            st.sampled_from(["token_mean", "prompt_mean", "sequence_mean", "constant_length"])
        ),
        "sampler_correction": st.sampled_from(
            ["none", "token_truncated", "token_masked", "geometric_mask", "product_mask"]
        ),
        "off_policy_mask_nats": maybe(st.floats(0.01, 0.5)),
    }
)
divergences = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["k1", "k2", "k3"]),
        "gradient": st.sampled_from(["own", "k2"]),
        "importance_corrected": st.booleans(),
        "beta": st.floats(0.001, 1.0),
    }
)
advantages = st.fixed_dictionaries(
    {
        "std": st.sampled_from(["sample", "population", "none"]),
        "std_scope": st.sampled_from(["group", "batch"]),
        "eps": st.sampled_from([0.0, 1e-6, 0.1]),
        "clip": maybe(st.floats(0.1, 3.0)),
        "baseline": st.sampled_from(["mean", "leave_one_out"]),
        "winsorise_low": st.floats(0.0, 0.4),
        "winsorise_high": st.floats(0.6, 1.0),
        "ema_weight": st.floats(0.0, 1.0),
        "tolerance_band": st.floats(0.0, 0.5),
    }
)


def without_idle(options):
    """The options without those that the configuration would refuse beside the others."""
    surrogate = options["surrogate"] or PRESETS[options["method"]].surrogate
    idle = ("ratio_cap",) if surrogate == "clipped" else ("clip_low", "clip_high", "dual_clip")
    return {name: value for name, value in options.items() if name not in idle}


@steady
@given(losses, divergences)
def test_any_loss_meets_its_definition(options, divergence):
    loss = LossConfig(**without_idle(options))
    kl = KlConfig(place="loss", **divergence)
    report = verify_loss(loss, kl=kl, facts=RunFacts(phase_tokens=(9,)), seeds=1)
    assert report.passed, (report.max_loss_error, report.max_gradient_error)


@steady
@given(advantages, st.integers(2, 9))
def test_any_advantages_meet_their_definition(options, group_size):
    config = AdvantageConfig(**options)
    error = advantage_error(config, LossConfig(), group_size=group_size, seeds=2)
    assert error <= ADVANTAGE_TOLERANCE
