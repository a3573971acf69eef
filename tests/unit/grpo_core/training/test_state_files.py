"""What a checkpoint carries of the model that training began with."""

import torch
from contract import random_policy

from grpo_core.config import load_config
from grpo_core.objective.kl_control import start_control
from grpo_core.store.files import FileDigests
from grpo_core.store.models import tokenizer_digest
from grpo_core.training.state import CHECKPOINT, TrainerState, load_trainer_state, save_state

FILES = (
    "tokenizer_config.json",
    "tokenizer.json",
    "vocab.txt",
    "spiece.model",
    "chat_template.jinja",
    "additional_chat_templates/short.jinja",
    "tokenization_own.py",
)


def test_a_checkpoint_has_the_tokenizer_of_the_model_it_came_from(tmp_path):
    source = tmp_path / "source"
    for name in FILES:
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n", encoding="utf-8")
    model = random_policy()
    state = TrainerState(3, start_control(load_config("tiny").kl))
    save_state(
        tmp_path / "state",
        model=model,
        optimizer=torch.optim.AdamW(model.parameters()),
        state=state,
        tokenizer_from=source,
    )
    checkpoint, digests = tmp_path / "state" / CHECKPOINT, FileDigests(None)
    assert load_trainer_state(tmp_path / "state") == state
    for name in FILES:
        assert (checkpoint / name).read_text() == "{}\n"
    (checkpoint / "generation_config.json").unlink()  # of the policy, not of the tokenizer
    assert tokenizer_digest(checkpoint, digests, with_code=True) == tokenizer_digest(
        source, digests, with_code=True
    )
