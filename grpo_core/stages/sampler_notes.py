"""Tells people of what befell a sampler and was overcome, such as an engine that died."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LOGGER = logging.getLogger("grpo_core.sampling")


@contextmanager
def sampler_warnings_noted(note: Callable[[str], None]) -> Iterator[None]:
    """Whatever a sampler warns of inside the block is also noted in the run's progress.

    Args:
        note: Gets the text of each warning.
    """
    handler = _Notes(note)
    _LOGGER.addHandler(handler)
    try:
        yield
    finally:
        _LOGGER.removeHandler(handler)


class _Notes(logging.Handler):
    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._note = note

    def emit(self, record: logging.LogRecord) -> None:
        """Note the record's text."""
        self._note(record.getMessage())
