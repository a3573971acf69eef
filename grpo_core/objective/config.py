"""Configuration of the objective: advantages, loss, KL and masks.

Imports no torch, so that `plan`, `sql` and `audit` can read a run's configuration quickly.
A value of `None` means "the preset's": `presets.resolve_loss` shows what it becomes.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Std = Literal["sample", "population", "none"]
Method = Literal["grpo", "dapo", "dr_grpo", "gspo", "gspo_token", "cispo"]
RatioLevel = Literal["token", "sequence", "sequence_token"]
Surrogate = Literal["clipped", "weighted"]
Aggregation = Literal["token_mean", "prompt_mean", "sequence_mean", "constant_length"]
SamplerCorrection = Literal[
    "none", "token_truncated", "token_masked", "geometric_mask", "product_mask"
]
KlKind = Literal["k1", "k2", "k3"]
KlPlace = Literal["none", "loss", "reward"]

Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


def _trains(default: Any, **constraints: Any) -> Any:
    """Returns a field that enters the key of the train artefact."""
    return Field(default, json_schema_extra={"keys": ["train"]}, **constraints)


class ObjectiveSection(BaseModel):
    """Frozen, closed to unknown fields, documented by the string under each field."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )


class AdvantageConfig(ObjectiveSection):
    """How rewards of one group become advantages."""

    std: Std | None = _trains(None)
    """Divisor: sample (n - 1) or population (n) standard deviation, or none; unset: the preset's,
    sample for all but dr_grpo (none, arXiv 2503.20783)."""

    std_scope: Literal["group", "batch"] = _trains("group")
    """Rewards that the divisor is taken over; the baseline stays the group's."""

    eps: float = _trains(1e-6, ge=0)
    """Added to the standard deviation; reward units."""

    clip: Positive | None = _trains(10.0)
    """Bound on |advantage|; unset: none. Cannot bind on standardised advantages of a group below
    100 rollouts, which stay under sqrt(G)."""

    baseline: Literal["mean", "leave_one_out"] = _trains("mean")
    """The group's mean, or for each rollout the mean of the others (RLOO, arXiv 2402.14740)."""

    winsorise_low: Share = _trains(0.0)
    """Quantile of the step's rewards, by data source, that lower rewards are raised to; 0: off."""

    winsorise_high: Share = _trains(1.0)
    """Quantile of the step's rewards, by data source, that higher rewards are cut to; 1: off."""

    ema_weight: Share = _trains(0.0)
    """Share of the running mean reward in the baseline, the rest is the group's; 0: off."""

    ema_decay: float = _trains(0.9, ge=0, lt=1)
    """Memory of the running mean reward, one update a step."""

    tolerance_band: float = _trains(0.0, ge=0)
    """Reward units below the baseline within which no negative advantage is given; 0: off."""

    @model_validator(mode="after")
    def _quantiles_in_order(self) -> Self:
        if self.winsorise_low >= self.winsorise_high:
            raise ValueError(
                f"advantage.winsorise_low {self.winsorise_low} must be below "
                f"winsorise_high {self.winsorise_high}"
            )
        return self


class LossConfig(ObjectiveSection):
    """A named method and the options that may depart from it."""

    method: Method = _trains("dapo")
    """Preset that fills every unset option below; see docs/methods.md."""

    ratio: RatioLevel | None = _trains(None)
    """Importance ratio of each token, of the sequence (GSPO), or the sequence's value with the
    token's own gradient (GSPO-token)."""

    surrogate: Surrogate | None = _trains(None)
    """`clipped`: min of ratio and clipped ratio times advantage; `weighted`: stopped, capped
    ratio times advantage times log-prob (CISPO)."""

    clip_low: float | None = _trains(None, ge=0, le=1)
    """Lower bound of the ratio is 1 - clip_low."""

    clip_high: Positive | None = _trains(None)
    """Upper bound of the ratio is 1 + clip_high."""

    dual_clip: Annotated[float, Field(gt=1)] | None = _trains(None)
    """Bound on the ratio of negative advantages (arXiv 1912.09729, usual 3.0); unset: off."""

    ratio_cap: Positive | None = _trains(None)
    """Absolute cap on the ratio of the `weighted` surrogate (ScaleRL, arXiv 2510.13786: 5.0)."""

    aggregation: Aggregation | None = _trains(None)
    """How token losses become one number; always over the whole optimiser step."""

    constant_length_tokens: Annotated[int, Field(gt=0)] | None = _trains(None)
    """Tokens that `constant_length` divides each rollout by; fixed over phases; unset: the
    longest phase's completion budget."""

    sampler_correction: SamplerCorrection = _trains("none")
    """Use of exp(old - sampling log-probs): cut at a cap (TIS), zero outside bounds (IcePop,
    arXiv 2510.18855), or whole sequences zero outside bounds of its geometric mean or product."""

    correction_low: Positive | None = _trains(None)
    """Lower bound of the correction; unset: 0.5 token_masked, 0.99 geometric, 1/3 product."""

    correction_cap: Positive | None = _trains(None)
    """Upper bound of the correction; unset: 2.0 by token, 1.01 geometric, 3.0 product."""

    off_policy_mask_nats: Positive | None = _trains(None)
    """Mean log(behaviour / current) a token above which a rollout of negative advantage leaves
    the policy term (DeepSeek-V3.2, arXiv 2512.02556); unset: off."""


class MaskConfig(ObjectiveSection):
    """Which sampled tokens carry loss; prompt, padding and tokens after EOS never do."""

    truncated: Literal["keep", "drop"] = _trains("keep")
    """Completions cut by the length limit: `drop` is overlong filtering (arXiv 2503.14476). They
    stay in their group's baseline."""

    repeat_ngram_tokens: Annotated[int, Field(ge=2)] | None = _trains(None)
    """Length of the n-grams whose repetitions carry no loss; unset: off."""

    repeat_free_count: int = _trains(2, ge=1)
    """Occurrences of an n-gram that still carry loss, before the rest is masked."""

    template_spans: tuple[str, ...] = _trains(())
    """Texts that carry no loss wherever a completion contains them; whole tokens only."""


class KlBudgetConfig(ObjectiveSection):
    """A budget of divergence from the reference, spent linearly over the run."""

    nats: Positive | None = _trains(None)
    """`ref_kl_k3`, nats per token, allowed at the end of the run; unset: no controller."""

    ema_decay: float = _trains(0.9, ge=0, lt=1)
    """Memory of the measured `ref_kl_k3`, one update a step."""

    factor: Annotated[float, Field(gt=1)] = _trains(1.5)
    """Beta is multiplied by it over schedule and divided by it under half the schedule."""

    beta_min: Positive = _trains(1e-5)
    """Lower bound of the controlled beta."""

    beta_max: Positive = _trains(1.0)
    """Upper bound of the controlled beta."""

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        if self.beta_min > self.beta_max:
            raise ValueError(f"kl.budget.beta_min {self.beta_min} exceeds beta_max {self.beta_max}")
        return self


class KlConfig(ObjectiveSection):
    """Divergence from the reference: where, which estimator, how strong."""

    place: KlPlace = _trains("none")
    """One place only: a term of the loss, a part of the reward, or none."""

    kind: KlKind = _trains("k3")
    """Estimator (joschu.net/blog/kl-approx.html); nats per token."""

    gradient: Literal["own", "k2"] = _trains("own")
    """In the loss: the estimator's own gradient, or k2's under its value (k2's is that of the
    reverse KL on policy)."""

    beta: float = _trains(0.0, ge=0)
    """Coefficient; per nat."""

    importance_corrected: bool = _trains(False)
    """In the loss: times the importance ratio, for tokens of an older policy (arXiv 2512.02556)."""

    log: bool = _trains(True)
    """Report `ref_kl_k1` and `ref_kl_k3` although beta is 0; needs reference log-probs."""

    relax_start: Share = _trains(1.0)
    """Share of the run with full beta, before it falls linearly; 1: constant."""

    relax_factor: Share = _trains(1.0)
    """What is left of beta at the end of the run, as a share."""

    budget: KlBudgetConfig = KlBudgetConfig()
    """Controller of beta."""

    step_end_weight: float = _trains(1.0, ge=0)
    """Weight of tokens that end a line of reasoning in the KL term; others 1."""

    conclusion_weight: float = _trains(1.0, ge=0)
    """Weight of the last `conclusion_tokens` tokens in the KL term; others 1."""

    conclusion_tokens: int = _trains(16, ge=1)
    """Length of the conclusion; tokens."""

    @model_validator(mode="after")
    def _nothing_idle(self) -> Self:
        problem = ""
        if self.place == "none" and (self.beta > 0 or self.budget.nats is not None):
            problem = "kl.beta and kl.budget have no effect while kl.place is none"
        elif self.place != "loss" and self.importance_corrected:
            problem = "kl.importance_corrected acts in the loss only"
        elif self.place != "loss" and self.gradient != "own":
            problem = "kl.gradient acts in the loss only"
        elif self.budget.nats is not None and self.beta == 0:
            problem = "kl.budget multiplies kl.beta, which is 0"
        elif self.budget.nats is not None and self.relax_factor < 1:
            problem = "kl.budget and kl.relax_factor both steer beta"
        elif (self.relax_start < 1) != (self.relax_factor < 1):
            problem = "kl.relax_start and kl.relax_factor act together only"
        if problem:
            raise ValueError(f"{problem}\nhint: choose one of the two, see docs/methods.md")
        return self
