"""The engine of the random policies, and the trainer's side of its proofs."""

from contract import CONTEXT, VOCABULARY

from grpo_core.models.scoring import score
from grpo_core.sampling.proof import TOLERANCES
from grpo_core.sampling.vllm import TrainerSide
from grpo_core.sampling.vllm_start import EngineSettings

SETTINGS = EngineSettings("float32", CONTEXT, max_rows=512, threads=1)


def trainer_side(model, dtype="float32") -> TrainerSide:
    return TrainerSide(
        score=lambda rows, temperatures: score(model, rows, temperatures, rows_per_batch=64),
        weights=lambda: model.state_dict().items(),
        vocabulary_size=min(VOCABULARY, model.config.vocab_size),
        tolerance=TOLERANCES[dtype],
    )
