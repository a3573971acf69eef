"""Where relative paths of a configuration count from: the project's root."""

import os
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parents[1]


def resolve_path(path: str) -> Path:
    """Absolute path; relative ones count from the project's root, `~` is the home directory."""
    return (PROJECT_ROOT / Path(path).expanduser()).absolute()


def real_path(path: Path) -> Path:
    """Absolute path with links followed; where they go in a circle, the path as it is."""
    return Path(os.path.realpath(path))
