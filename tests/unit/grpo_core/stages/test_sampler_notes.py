import logging

from grpo_core.stages.sampler_notes import sampler_warnings_noted

SAMPLER = logging.getLogger("grpo_core.sampling.vllm")


def test_what_a_sampler_warns_of_is_noted_while_an_artefact_is_made() -> None:
    notes: list[str] = []
    with sampler_warnings_noted(notes.append):
        SAMPLER.warning("the engine %s", "died")
        SAMPLER.info("it samples")
        logging.getLogger("grpo_core.stages").warning("of another part")
    SAMPLER.warning("nobody makes anything")
    assert notes == ["the engine died"]
