"""Combinations of settings that cannot mean what they say, refused before anything runs."""

from importlib.util import find_spec
from itertools import pairwise

from grpo_core.config.idle import check_idle
from grpo_core.config.run import RunConfig
from grpo_core.errors import ConfigError
from grpo_core.objective.checks import RunFacts, check_objective
from grpo_core.objective.presets import resolve_loss
from grpo_core.prompts.template import check_template
from grpo_core.rewards.functions.reference import find_function
from grpo_core.rewards.verifier_names import BUILT_IN, CODE

_WARNED_NOTES = ("one_update_per_rollout",)
"""Properties of a choice that people should see at every start."""


def check_config(config: RunConfig) -> None:
    """Raise ConfigError for the first bad combination."""
    _check_phases(config)
    _check_updates(config)
    _check_refill(config)
    _check_bands(config)
    _check_evaluation(config)
    _check_evaluation_budget(config)
    _check_prefilter(config)
    _check_splits(config)
    if config.execution.device == "cuda":
        check_placement(config)
    check_template(config.prompt)
    check_reward(config)
    _check_objective(config)


def check_placement(config: RunConfig) -> None:
    """Refuse an engine on GPUs that the trainer cannot hand its weights to.

    Raises:
        ConfigError: It is to share the trainer's GPU and several others.
    """
    execution = config.execution
    size = execution.tensor_parallel_size
    if execution.engine == "vllm" and execution.placement == "colocate" and size > 1:
        raise ConfigError(
            f"execution.tensor_parallel_size: {size} GPUs, but execution.placement = colocate "
            "hands weights over inside the trainer's GPU, and the engine's others get none",
            hint="execution.placement = split gives the engine GPUs of its own",
        )


def check_engine(config: RunConfig) -> None:
    """Refuse an engine that is not installed, before a run works towards it.

    Raises:
        ConfigError: `execution.engine` is vllm and there is no vLLM.
    """
    if config.execution.engine == "vllm" and find_spec("vllm") is None:
        raise ConfigError(
            "execution.engine: vllm is not installed",
            hint="make vllm installs it; execution.engine=hf samples without it",
        )


def config_warnings(config: RunConfig) -> list[str]:
    """What the configuration does not do although it reads as if it did, one sentence each."""
    findings = check_objective(
        config.loss,
        advantage=config.advantage,
        kl=config.kl,
        mask=config.mask,
        facts=run_facts(config),
    )
    shown = set(_WARNED_NOTES)
    if "clip" in config.advantage.model_fields_set:
        shown.add("advantage_clip_cannot_bind")
    return [
        f"{finding.message}; {finding.hint}"
        for finding in findings
        if finding.level == "warn" or finding.code in shown
    ]


def run_facts(config: RunConfig) -> RunFacts:
    """What the objective's checks must know of the rest of the run."""
    train, reward = config.train, config.reward
    parts = (
        reward.rules.repetition_weight,
        reward.rules.format_weight,
        reward.rules.language_weight,
    )
    is_binary = not reward.process_credit and reward.function in BUILT_IN
    return RunFacts(
        group_size=train.group_size,
        updates_per_rollout=train.updates_per_rollout * train.epochs_per_rollout,
        sampling_temperature=config.sampling.temperature,
        scoring_temperature=config.sampling.temperature,
        phase_tokens=tuple(phase.max_completion_tokens for phase in train.phases),
        reward_range=(-1.0, 1.0) if reward.scale == "±1" else (0.0, 1.0),
        has_binary_rewards=is_binary and not any((*parts, reward.rules.length_weight)),
        drops_zero_variance=config.filter.zero_variance,
        shapes_overlong=reward.overlong_factor > 0,
    )


def _check_phases(config: RunConfig) -> None:
    budgets = [phase.max_completion_tokens for phase in config.train.phases]
    if not budgets:
        raise ConfigError("train.phases: at least one phase is needed")
    for index, (before, after) in enumerate(pairwise(budgets), start=1):
        if after <= before:
            raise ConfigError(
                f"train.phases.{index}.max_completion_tokens: budgets must rise from phase to "
                f"phase, got {after} after {before}"
            )


def _check_updates(config: RunConfig) -> None:
    train = config.train
    steps_a_batch = train.updates_per_rollout * train.epochs_per_rollout
    for index, phase in enumerate(train.phases):
        if phase.max_steps % steps_a_batch:
            raise ConfigError(
                f"train.phases.{index}.max_steps: {phase.max_steps} is not a multiple of the "
                f"{steps_a_batch} steps of a rollout batch "
                "(updates_per_rollout * epochs_per_rollout), so the last batch would be cut",
                hint=f"take {-(-phase.max_steps // steps_a_batch) * steps_a_batch}",
            )
    if train.updates_per_rollout > train.prompts_per_rollout:
        raise ConfigError(
            f"train.updates_per_rollout: {train.updates_per_rollout} updates cannot each get a "
            f"whole group of {train.prompts_per_rollout} prompts_per_rollout"
        )


def _check_refill(config: RunConfig) -> None:
    if config.filter.refill_rounds and not config.filter.zero_variance:
        raise ConfigError(
            "filter.refill_rounds: nothing is short of signal while filter.zero_variance is off",
            hint="set filter.zero_variance=true, or filter.refill_rounds=0",
        )


def _check_bands(config: RunConfig) -> None:
    bands = config.bands
    if bands.hard_max >= bands.medium_max:
        raise ConfigError(
            f"bands.medium_max: {bands.medium_max} must lie above hard_max {bands.hard_max}"
        )
    weights = [getattr(bands, name) for name in type(bands).model_fields if "weight" in name]
    if not any(weights):
        raise ConfigError("bands: every weight is 0, so no prompt would ever be drawn")


def _check_evaluation(config: RunConfig) -> None:
    too_large = [k for k in config.evaluate.ks if k > config.evaluate.samples_per_prompt or k < 1]
    if too_large:
        raise ConfigError(
            f"evaluate.ks: pass@{too_large[0]} needs 1 <= k <= samples_per_prompt "
            f"({config.evaluate.samples_per_prompt})"
        )


def _check_evaluation_budget(config: RunConfig) -> None:
    longest = config.train.phases[-1].max_completion_tokens
    if config.evaluation_tokens < longest:
        raise ConfigError(
            f"evaluate.max_completion_tokens: {config.evaluation_tokens} would cut completions "
            f"that the last phase allows ({longest})",
            hint="leave it unset, or raise it",
        )


def _check_prefilter(config: RunConfig) -> None:
    samples, group = config.prefilter.samples_per_prompt, config.train.group_size
    if config.train.prefilter_batches and samples < group:
        raise ConfigError(
            f"prefilter.samples_per_prompt: {samples} samples cannot fill a group of {group}",
            hint="raise it, or set train.prefilter_batches=0",
        )


def check_reward(config: RunConfig) -> None:
    """Verifiers that exist; the code of reward functions is read, not run."""
    reward = config.reward
    spread = 2.0 if reward.scale == "±1" else 1.0
    if reward.overlong_factor >= spread:
        raise ConfigError(
            f"reward.overlong_weight: {reward.overlong_factor} on the scale {reward.scale} puts a "
            "correct answer at the limit no higher than a short wrong one",
            hint=f"leave it unset, or below {spread}",
        )
    reserved = sorted(set(reward.verifiers) & set(BUILT_IN))
    if reserved:
        raise ConfigError(f"reward.verifiers: {reserved[0]!r} is the name of a built-in verifier")
    known = (*BUILT_IN, *reward.verifiers)
    unknown = [name for name in reward.calls.second_opinions if name not in known]
    if unknown:
        raise ConfigError(
            f"reward.calls.second_opinions: there is no verifier {unknown[0]!r}",
            hint=f"known: {', '.join(known)}; give a function a name in reward.verifiers",
        )
    default = [] if reward.function in BUILT_IN else [reward.function]
    for text in [*default, *reward.verifiers.values()]:
        find_function(text)
    if reward.function == CODE and not config.prompts.mixture.tests_field:
        raise ConfigError(
            "reward.function: code needs the unit tests of each row",
            hint="name their field with prompts.mixture.tests_field",
        )


def _check_objective(config: RunConfig) -> None:
    """Options of the objective that cannot act, or cannot be computed."""
    longest = config.train.phases[-1].max_completion_tokens
    resolve_loss(config.loss, longest_completion_tokens=longest)
    check_idle(config)


def _check_splits(config: RunConfig) -> None:
    prompts = config.prompts
    shares = [
        getattr(prompts, f"{name}_fraction")
        for name in ("validation", "test")
        if not getattr(prompts, f"{name}_source")
    ]
    if sum(shares) >= 1:
        raise ConfigError(
            f"prompts.validation_fraction and prompts.test_fraction take {sum(shares)} of the "
            "problems, which leaves none to train on"
        )
    for name in ("validation", "test"):
        given = getattr(prompts, f"{name}_source")
        if not given and getattr(prompts, f"{name}_fraction") == 0:
            raise ConfigError(
                f"prompts.{name}_fraction: 0 leaves the {name} split empty",
                hint=f"set prompts.{name}_source or a fraction above 0",
            )
