"""What a process gives up before it runs a stranger's program."""

import os
import resource
import sys
import sysconfig
from collections.abc import Callable
from typing import Any, Final

from grpo_core.rewards.code.kernel import restrict
from grpo_core.rewards.limits import limit_growth

OUTPUT_BYTES: Final = 16 << 20
"""Most that a program may print."""
_SYSTEM_FILES: Final = (
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/lib",
    "/lib64",
    "/usr/share/zoneinfo",
    "/etc/localtime",
    "/etc/ld.so.cache",
    "/dev/null",
    "/dev/urandom",
)
_DENIED: Final = (
    "socket.bind",
    "socket.connect",
    "socket.sendto",
    "socket.sendmsg",
    "socket.getaddrinfo",
    "socket.gethostby",
    "subprocess.",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.fork",
    "os.kill",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.mkdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
    "os.chown",
    "shutil.",
    "ctypes.",
    "gc.get_",
)
"""Beginnings of Python's audit events that a program may not cause."""


def enter(
    *, cpu_seconds: int, growth_bytes: int, keep: int, stdin: int = -1, stdout: int = -1
) -> None:
    """Give up files, network, other processes, and more than so much time and memory, for good.

    Kernel rules do it where there are any (`kernel.restrict`); Python's audit events do it
    everywhere, for code that stays within Python.

    Args:
        cpu_seconds: Processor time until the process is killed.
        growth_bytes: Address space beyond what the process has now.
        keep: The one descriptor that stays open besides the standard ones.
        stdin: Descriptor that becomes standard input; -1 for nothing to read.
        stdout: Descriptor that becomes standard output; -1 for nowhere.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream, descriptor in enumerate((stdin, stdout, -1)):
        os.dup2(nothing if descriptor < 0 else descriptor, stream)
    os.closerange(3, keep)
    os.closerange(keep + 1, 1 << 16)
    os.chdir("/")
    os.environ.clear()
    _limit(cpu_seconds, growth_bytes, num_descriptors=max(64, keep + 1))
    readable = (*_python_files(), *_SYSTEM_FILES)
    restrict(readable)
    sys.addaudithook(_hook(readable))


def _limit(cpu_seconds: int, growth_bytes: int, num_descriptors: int) -> None:
    limits = {
        resource.RLIMIT_CPU: cpu_seconds,
        resource.RLIMIT_FSIZE: OUTPUT_BYTES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: num_descriptors,
    }
    for kind, amount in limits.items():
        _, hard = resource.getrlimit(kind)
        bounded = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
        resource.setrlimit(kind, (bounded, bounded))
    limit_growth(growth_bytes)


def _python_files() -> tuple[str, ...]:
    """Directories of the interpreter's own libraries and of installed packages."""
    paths = sysconfig.get_paths()
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    libraries = os.path.join(sys.base_prefix, "lib")
    return tuple({os.path.realpath(path) for path in (libraries, *(paths[n] for n in names))})


def _hook(readable: tuple[str, ...]) -> Callable[[str, tuple[Any, ...]], None]:
    real, denied = os.path.realpath, _DENIED
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    error = PermissionError

    def check(event: str, details: tuple[Any, ...]) -> None:
        if event in ("open", "os.listdir", "os.scandir") and details[0].__class__ is not int:
            flags = details[2] if event == "open" and details[2].__class__ is int else 0
            path = details[0].decode() if details[0].__class__ is bytes else str(details[0])
            if flags & writing or not real(path).startswith(readable):
                raise error("a tested program has no files")
        elif event.startswith(denied):
            raise error(f"a tested program may not do {event}")

    return check
