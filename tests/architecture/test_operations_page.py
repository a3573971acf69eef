"""docs/operations.md says of each case which test proves it; those tests must be there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(test_[a-z0-9_]+)(…?)`", PAGE)


def _tests() -> set[str]:
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    return {name for text in texts for name in re.findall(r"^def (test_\w+)\(", text, re.M)}


def test_every_test_that_the_page_names_exists() -> None:
    tests = _tests()
    missing = [
        name
        for name, cut in NAMED
        if not (any(test.startswith(name) for test in tests) if cut else name in tests)
    ]
    assert missing == []
    assert len(NAMED) > 20


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`(tests/\S+\.py)`", PAGE))))
def test_every_file_of_tests_that_the_page_names_exists(path: str) -> None:
    assert (ROOT / path).is_file()
