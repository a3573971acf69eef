"""Kills a process before each of its file operations in turn."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

_OPERATIONS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate"}


def run_until(operation: int, root: Path, action: Callable[[], object]) -> bool:
    """Run `action` in a child that kills itself before its file operation number `operation`.

    Returns whether it was killed; False when it finished first.
    """
    child = os.fork()
    if child == 0:
        count, inside = 0, os.fspath(root)

        def hook(event: str, args: tuple[object, ...]) -> None:
            nonlocal count
            if event in _OPERATIONS and str(args[0]).startswith(inside):
                if count == operation:
                    os.kill(os.getpid(), signal.SIGKILL)
                count += 1

        code = 1
        try:
            sys.addaudithook(hook)
            action()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "the action failed by itself"
    return False
