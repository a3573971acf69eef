"""The whole configuration of a run, resolved and frozen."""

from pydantic import Field

from grpo_core.config.data import (
    BandsConfig,
    ModelConfig,
    PrefilterConfig,
    PromptConfig,
    PromptsConfig,
    VariantsConfig,
)
from grpo_core.config.fields import Section, execution
from grpo_core.config.training import (
    AuditConfig,
    EvaluateConfig,
    ExecutionConfig,
    FilterConfig,
    RewardConfig,
    SamplingConfig,
    TrainConfig,
)
from grpo_core.objective.config import AdvantageConfig, KlConfig, LossConfig, MaskConfig


class RunConfig(Section):
    """Every knob of the product; each leaf declares beside itself which artefacts it keys."""

    seed: int = execution(0)
    """Default of prefilter.seed, variants.seed, train.seed and evaluate.seed, which carry it into
    the keys."""
    model: ModelConfig = Field(default_factory=ModelConfig)
    prompt: PromptConfig = Field(default_factory=PromptConfig)
    prompts: PromptsConfig = Field(default_factory=PromptsConfig)
    reward: RewardConfig = Field(default_factory=RewardConfig)
    sampling: SamplingConfig = Field(default_factory=SamplingConfig)
    prefilter: PrefilterConfig = Field(default_factory=PrefilterConfig)
    bands: BandsConfig = Field(default_factory=BandsConfig)
    variants: VariantsConfig = Field(default_factory=VariantsConfig)
    advantage: AdvantageConfig = Field(default_factory=AdvantageConfig)
    loss: LossConfig = Field(default_factory=LossConfig)
    kl: KlConfig = Field(default_factory=KlConfig)
    mask: MaskConfig = Field(default_factory=MaskConfig)
    filter: FilterConfig = Field(default_factory=FilterConfig)
    train: TrainConfig = Field(default_factory=TrainConfig)
    evaluate: EvaluateConfig = Field(default_factory=EvaluateConfig)
    audit: AuditConfig = Field(default_factory=AuditConfig)
    execution: ExecutionConfig = Field(default_factory=ExecutionConfig)

    def seed_of(self, section: str) -> int:
        """The seed of `prefilter`, `variants`, `train` or `evaluate`: its own or the run's."""
        own = getattr(self, section).seed
        return self.seed if own is None else int(own)

    @property
    def evaluation_tokens(self) -> int:
        """Budget of an evaluation completion: its own, or the last phase's."""
        own = self.evaluate.max_completion_tokens
        return self.train.phases[-1].max_completion_tokens if own is None else own
