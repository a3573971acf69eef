"""Keeps tracebacks out of a flow run's log where they tell nothing.

An error that the product raises on purpose says what failed, where and what to do; the engine
would bury that under its own frames. Any other error keeps its traceback.
"""

import logging

from grpo_core.errors import GrpoError

_LOGGERS = ("prefect.flow_runs", "prefect.task_runs")


def calm_expected_errors() -> None:
    """Install the filter in this process; once is enough, twice does no harm."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_without_traceback)


def _without_traceback(record: logging.LogRecord) -> bool:
    if record.exc_info:
        error = record.exc_info[1]
        if isinstance(error, GrpoError):
            record.msg, record.args = str(error), ()
            record.exc_info = None
        elif error is None:
            record.exc_info = None
    return True
