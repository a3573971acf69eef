"""Config sections about data: the model, its prompt, problems, bands and variants."""

from typing import Literal

from pydantic import Field

from grpo_core.config.fields import Section, by_digest, execution, keyed
from grpo_core.types import Kind

_POLICY = (Kind.SAMPLES, Kind.TRAIN, Kind.EVAL_SAMPLES)
_RENDERED = (*_POLICY, Kind.REF_LOGP)


class ModelConfig(Section):
    """The policy to train and the frozen reference."""

    path: str = by_digest("data/models/tiny")
    """Directory or Hugging Face id of the initial policy; its weights, tokenizer and trusted code
    enter every key by their digest, not by this path."""
    reference: str = by_digest("")
    """Directory or id of the reference for the KL term; empty means the initial policy."""
    dtype: Literal["float32", "bfloat16"] = keyed("float32", *_RENDERED)
    """Weights and activations; log-softmax is fp32 in any case."""
    attention: Literal["sdpa", "eager"] = keyed("sdpa", *_RENDERED)
    """Attention implementation of transformers."""
    trust_remote_code: bool = execution(False)
    """Run Python code that comes with the model, which keys its results then; never taken from a
    flow parameter."""


class PromptConfig(Section):
    """How a problem becomes model input, equal in prefilter, training and evaluation."""

    template: str = keyed("chat", *_RENDERED)
    """`chat` (the tokenizer's chat template) or a Jinja text over problem, system, instruction and
    suffix."""
    system: str = keyed("", *_RENDERED)
    """System text."""
    instruction: str = keyed("", *_RENDERED)
    """How to answer, appended to the problem (for example: put the final answer after ####)."""
    stop: tuple[str, ...] = keyed((), *_RENDERED)
    """Strings that end a completion besides the model's own end-of-sequence ids."""


class MixtureConfig(Section):
    """What rows of a mixture say about themselves, besides problem and answer."""

    verifier_field: str = keyed("", Kind.PROMPTS, absent="")
    """Field that names the verifier of a row: `math`, `code` or a name of `reward.verifiers`; empty
    or null means `reward.function`."""
    tests_field: str = keyed("", Kind.PROMPTS, absent="")
    """Field that holds the unit tests of a row for the `code` verifier."""
    source_field: str = keyed("", Kind.PROMPTS, absent="")
    """Field that says which source of a mixture a row is from, for metrics per source; empty means
    that a file is one source."""


class PromptsConfig(Section):
    """Where problems come from and how they are split."""

    source: str = by_digest("data/prompts/train.jsonl")
    """Train problems: JSONL, Parquet, or a saved Hugging Face dataset directory. Enters the key as
    the digest of what it points to."""
    validation_source: str = by_digest("")
    """Validation problems; empty means that they are split off `source` by hash."""
    test_source: str = by_digest("")
    """Test problems; empty means that they are split off `source` by hash."""
    problem_field: str = keyed("question", Kind.PROMPTS)
    """Field that holds the problem."""
    answer_field: str = keyed("answer", Kind.PROMPTS)
    """Field that holds the gold answer, or the solution that ends in it."""
    answer_marker: str = keyed("####", Kind.PROMPTS)
    """Text before the gold inside `answer_field`; empty means the whole field is the gold."""
    answer_type_field: str = keyed("", Kind.PROMPTS)
    """Field that names the answer type of a row; empty means none."""
    mixture: MixtureConfig = Field(default_factory=MixtureConfig)
    validation_fraction: float = keyed(0.05, Kind.PROMPTS, ge=0, lt=1)
    """Share of `source` split off by hash when `validation_source` is empty."""
    test_fraction: float = keyed(0.05, Kind.PROMPTS, ge=0, lt=1)
    """Share of `source` split off by hash when `test_source` is empty."""
    max_characters: int = keyed(20_000, Kind.PROMPTS, ge=1)
    """Problems or answers longer than this go to quarantine."""
    train_limit: int = keyed(0, Kind.SAMPLES, Kind.TRAIN, ge=0)
    """Train problems to draw for prefilter and training, by hash order; 0 means all."""
    validation_limit: int = keyed(0, Kind.TRAIN, ge=0)
    """Validation problems to use, by hash order; 0 means all."""
    test_limit: int = keyed(0, Kind.EVAL_SAMPLES, ge=0)
    """Test problems to use, by hash order; 0 means all."""


class PrefilterConfig(Section):
    """Sampling each train prompt from the initial policy."""

    samples_per_prompt: int = keyed(32, Kind.SAMPLES, ge=2)
    """Samples a prompt."""
    prompts_per_unit: int = keyed(32, Kind.SAMPLES, ge=1)
    """Prompts in one work unit: what a killed run repeats at most."""
    seed: int | None = keyed(None, Kind.SAMPLES)
    """Seed of the samples; unset means the run's `seed`."""


class BandsConfig(Section):
    """Difficulty bands from pass rates, and how often each is drawn."""

    hard_max: float = keyed(0.30, Kind.BANDS, gt=0, lt=1)
    """Upper edge of `hard`: (0, hard_max]."""
    medium_max: float = keyed(0.50, Kind.BANDS, gt=0, lt=1)
    """Upper edge of `medium`: (hard_max, medium_max]; `easy` is (medium_max, 1)."""
    weight_unsolved: float = keyed(0.1, Kind.BANDS, ge=0)
    """Draw weight of prompts never solved."""
    weight_hard: float = keyed(1.0, Kind.BANDS, ge=0)
    """Draw weight of `hard`."""
    weight_medium: float = keyed(0.5, Kind.BANDS, ge=0)
    """Draw weight of `medium`."""
    weight_easy: float = keyed(0.2, Kind.BANDS, ge=0)
    """Draw weight of `easy`."""
    weight_solved: float = keyed(0.0, Kind.BANDS, ge=0)
    """Draw weight of prompts always solved."""
    weight_unknown: float = keyed(0.5, Kind.BANDS, ge=0)
    """Draw weight of prompts without a decidable sample, or cut off by the budget."""
    truncated_share: float = keyed(0.5, Kind.BANDS, gt=0, le=1)
    """A prompt never solved of whose samples at least this share is truncated becomes `unknown`
    when the next phase has a longer budget: it was cut off, not shown to be too hard."""
    confidence: float = keyed(0.95, Kind.BANDS, gt=0, lt=1)
    """Level of the Wilson interval of each pass rate."""


class VariantsConfig(Section):
    """Changed problems and changed instructions."""

    kinds: tuple[Literal["number_substitution"], ...] = keyed(
        ("number_substitution",), Kind.VARIANTS
    )
    """Rewrites to make; empty makes none."""
    per_prompt: int = keyed(1, Kind.VARIANTS, ge=0)
    """Variants a prompt and kind."""
    max_number: int = keyed(99, Kind.VARIANTS, ge=1)
    """Largest number that substitution puts into a problem."""
    max_result: int = keyed(999, Kind.VARIANTS, ge=1)
    """Largest intermediate or final result that substitution accepts."""
    seed: int | None = keyed(None, Kind.VARIANTS)
    """Seed of the rewrites; unset means the run's `seed`."""
    draw_share: float = keyed(0.25, Kind.TRAIN, ge=0, le=1)
    """Chance that a training group takes a variant of its prompt instead of the prompt."""
    suffix_share: float = keyed(0.25, Kind.TRAIN, ge=0, le=1)
    """Chance that a rollout gets an instruction suffix; evaluation uses none."""
    suffixes: tuple[str, ...] = keyed((), Kind.TRAIN)
    """Ids of the instruction suffixes to draw from; empty means all shipped ones."""
