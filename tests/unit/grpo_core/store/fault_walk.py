"""Faults for tests: death before any file operation, files that cannot be opened."""

import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

_OPERATIONS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate"}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def run_until(
    operation: int, root: Path, action: Callable[[], object], *, with_reads: bool = True
) -> bool:
    """Run `action` in a child that kills itself before its file operation number `operation`.

    Without reads, opening a file to read it counts as none.

    Returns whether it was killed; False when it finished first.
    """
    child = os.fork()
    if child == 0:
        count, inside = 0, os.fspath(root)

        def hook(event: str, args: tuple[object, ...]) -> None:
            nonlocal count
            is_read = event == "open" and not cast(int, args[2]) & _WRITES
            if is_read and not with_reads:
                return
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


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """No file can be opened inside."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = os.open("/dev/null", os.O_RDONLY)
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(taken)


@contextmanager
def failing_open(name: str, number: int) -> Iterator[None]:
    """No file of this name can be opened inside."""
    open_path = Path.open

    def fail(self: Path, *args: Any, **options: Any) -> Any:
        if self.name == name:
            raise OSError(number, os.strerror(number))
        return open_path(self, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", fail)
        yield
