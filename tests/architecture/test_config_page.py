"""The page of settings is true, and so pins which field invalidates which artefact."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grpo_core.config.document import markdown, settings
from grpo_core.config.run import RunConfig

PAGE = Path(__file__).parents[2] / "docs" / "config.md"
MAX_FIELDS = 15


def test_the_page_is_what_the_code_says() -> None:
    expected = "\n".join(markdown(settings()))
    assert PAGE.read_text() == expected, "run: python -m grpo_core.config.document > docs/config.md"


def test_sections_stay_small() -> None:
    assert {name: n for name, n in _sizes("", RunConfig) if n > MAX_FIELDS} == {}


def _sizes(name: str, section: Any) -> Iterator[tuple[str, int]]:
    """How many settings each section has of its own."""
    below = {f"{name}.{n}": f.annotation for n, f in section.model_fields.items()}
    sections = {n: kind for n, kind in below.items() if hasattr(kind, "model_fields")}
    yield name, len(below) - len(sections)
    for path, kind in sections.items():
        yield from _sizes(path, kind)
