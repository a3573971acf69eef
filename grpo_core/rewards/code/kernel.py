"""Linux's own limits for a process that runs a stranger's program: Landlock and seccomp.

Landlock (from Linux 5.13) lets it read the interpreter and libraries and write nothing; seccomp
takes away sockets, other processes and signals. Both need no privilege and last until the process
ends. https://docs.kernel.org/userspace-api/landlock.html, .../seccomp_filter.html
"""

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_SET_SECCOMP: Final = 22
_SECCOMP_MODE_FILTER: Final = 2
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_LANDLOCK_VERSION_FLAG: Final = 1
_LANDLOCK_RULE_PATH: Final = 1
_READ: Final = (1 << 0) | (1 << 2) | (1 << 3)
"""Execute, read file, read directory."""
_FILE_ONLY: Final = (1 << 0) | (1 << 1) | (1 << 2) | (1 << 14) | (1 << 15)
_RIGHTS: Final = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Landlock version → how many file-system rights it knows."""
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16
_X32_BIT: Final = 0x40000000
_CLONE_THREAD: Final = 0x00010000


@dataclass(frozen=True, slots=True)
class _Calls:
    """System call numbers of one architecture."""

    arch: int
    clone: int
    clone3: int
    denied: tuple[int, ...]


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


_CALLS: Final = {
    # socket connect accept accept4 bind listen | fork vfork execve execveat | kill tkill tgkill
    # rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open pidfd_send_signal pidfd_getfd | ptrace
    # process_vm_readv process_vm_writev | prlimit64 mount unshare setns bpf userfaultfd
    # perf_event_open add_key request_key keyctl io_uring_setup | chmod fchmod fchmodat fchmodat2
    # chown fchown lchown fchownat
    "x86_64": _Calls(
        0xC000003E,
        56,
        435,
        _numbers(
            "41 42 43 288 49 50 57 58 59 322 62 200 234 129 297 434 424 438 101 310 311 302 165 "
            "272 308 321 323 298 248 249 250 425 90 91 268 452 92 93 94 260"
        ),
    ),
    "aarch64": _Calls(
        0xC00000B7,
        220,
        435,
        _numbers(
            "198 203 202 242 200 201 221 281 129 130 131 138 240 434 424 438 117 270 271 261 40 97 "
            "268 280 282 241 217 218 219 425 52 53 452 54 55"
        ),
    ),
}


def restrict(readable: Iterable[str]) -> list[str]:
    """Apply what this kernel offers to the present process, for good.

    Args:
        readable: Files and directories that stay readable.

    Returns:
        The names of the limits that hold: `landlock`, `seccomp`.
    """
    if sys.platform != "linux":
        return []
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return []
    steps = {"landlock": _landlock(libc, readable), "seccomp": _seccomp(libc)}
    return [name for name, holds in steps.items() if holds]


def _landlock(libc: ctypes.CDLL, readable: Iterable[str]) -> bool:
    version = libc.syscall(_LANDLOCK_CREATE, None, 0, _LANDLOCK_VERSION_FLAG)
    if version < 1:
        return False
    handled = (1 << _RIGHTS.get(version, max(_RIGHTS.values()))) - 1
    attributes = struct.pack("Q", handled)
    ruleset = libc.syscall(_LANDLOCK_CREATE, attributes, len(attributes), 0)
    if ruleset < 0:
        return False
    try:
        for path in readable:
            _allow_reading(libc, ruleset, path)
        return bool(libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _allow_reading(libc: ctypes.CDLL, ruleset: int, path: str) -> None:
    if not os.path.exists(path):
        return
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rights = _READ if os.path.isdir(path) else _READ & _FILE_ONLY
        rule = struct.pack("=Qi", rights, descriptor)
        libc.syscall(_LANDLOCK_ADD, ruleset, _LANDLOCK_RULE_PATH, rule, 0)
    finally:
        os.close(descriptor)


def _seccomp(libc: ctypes.CDLL) -> bool:
    calls = _CALLS.get(platform.machine())
    if calls is None:
        return False
    code = b"".join(_filter(calls))
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    return bool(libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program, 0, 0) == 0)


def _filter(calls: _Calls) -> Iterable[bytes]:
    """The BPF program: foreign architectures die, denied calls fail, the rest is allowed."""

    def step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
        return struct.pack("HBBI", code, if_true, if_false, value)

    yield step(_LOAD, _ARCH)
    yield step(_JUMP_EQUAL, calls.arch, 1, 0)
    yield step(_RETURN, _KILL)
    yield step(_LOAD, _NUMBER)
    if calls.arch == _CALLS["x86_64"].arch:
        yield step(_JUMP_AT_LEAST, _X32_BIT, 0, 1)
        yield step(_RETURN, _ERRNO | _EPERM)
    for number in calls.denied:
        yield step(_JUMP_EQUAL, number, 0, 1)
        yield step(_RETURN, _ERRNO | _EPERM)
    yield step(_JUMP_EQUAL, calls.clone3, 0, 1)
    yield step(_RETURN, _ERRNO | _ENOSYS)
    yield step(_JUMP_EQUAL, calls.clone, 0, 3)
    yield step(_LOAD, _FIRST_ARGUMENT)
    yield step(_JUMP_SET, _CLONE_THREAD, 1, 0)
    yield step(_RETURN, _ERRNO | _EPERM)
    yield step(_RETURN, _ALLOW)
