"""A directory with a small source for each split."""

from pathlib import Path

import pytest
from ingesting import row, write_lines


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write_lines(tmp_path / "train.jsonl", [row(f"train {i}", i) for i in range(4)])
    write_lines(tmp_path / "validation.jsonl", [row("validation", 1)])
    write_lines(tmp_path / "test.jsonl", [row("test", 1)])
    return tmp_path
