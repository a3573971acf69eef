"""The page of settings is true, and so pins which field invalidates which artefact."""

from pathlib import Path

from grpo_core.config.document import markdown, settings
from grpo_core.config.run import RunConfig

PAGE = Path(__file__).parents[2] / "docs" / "config.md"
MAX_FIELDS = 20


def test_the_page_is_what_the_code_says() -> None:
    expected = "\n".join(markdown(settings()))
    assert PAGE.read_text() == expected, "run: python -m grpo_core.config.document > docs/config.md"


def test_sections_stay_small() -> None:
    for name, field in RunConfig.model_fields.items():
        section = field.annotation
        if hasattr(section, "model_fields"):
            assert len(section.model_fields) <= MAX_FIELDS, name
