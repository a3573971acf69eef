"""The raw log of an attempt: `runs/<run>/logs/0003.log`, everything that this process logs."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_OWN = ("grpo_core", "flows")
_TAIL_LINES = 10


def attempt_log(directory: Path, attempt: int) -> Path:
    """Log file of one attempt below `lake/runs/<run>`."""
    return directory / "logs" / f"{attempt:04d}.log"


@contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Write what the block logs to `path` as well: INFO of ours, WARNING of libraries."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter(_FORMAT))
    root, levels = logging.getLogger(), {name: logging.getLogger(name).level for name in _OWN}
    root.addHandler(handler)
    for name in _OWN:
        logging.getLogger(name).setLevel(logging.INFO)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        root.removeHandler(handler)
        try:
            handler.close()
        except OSError as fault:  # what the block raises matters more
            root.error("the end of %s could not be written: %s", path, fault)


def log_tail(path: Path, lines: int = _TAIL_LINES) -> str:
    """The last lines of a log."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    return "\n".join(text.splitlines()[-lines:]) or "(empty)"
