"""Runs one program, or the statements that test one, in a process that has given up the rest."""

import builtins
import io
import os
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

from grpo_core.rewards.code import sandbox
from grpo_core.rewards.code.plain import pack, unpack
from grpo_core.rewards.protocol import encode, receive

Handler = Callable[[dict[str, Any], socket.socket], dict[str, Any]]
Namespace = dict[str, Any]
_FAILED: Final = (Exception, SystemExit, KeyboardInterrupt, GeneratorExit)


def make_handler(settings: Mapping[str, Any]) -> Handler:
    """Return a handler for `run` (stdin → stdout), `load` and `call`, and `assert`.

    The first message shuts the process in; a process serves one program.
    """
    loaded: Namespace = {}

    def handle(message: dict[str, Any], connection: socket.socket) -> dict[str, Any]:
        match message["do"]:
            case "run":
                return _run(message, connection, settings)
            case "load":
                _shut_in(connection, settings)
                return _load(message["program"], loaded)
            case "call":
                return _call(loaded, message)
            case "assert":
                _shut_in(connection, settings)
                return _check_statements(message, connection)
        raise ValueError(message["do"])

    return handle


def _shut_in(
    connection: socket.socket, settings: Mapping[str, Any], stdin: int = -1, stdout: int = -1
) -> None:
    sandbox.enter(
        cpu_seconds=settings["cpu_seconds"],
        growth_bytes=settings["growth_bytes"],
        keep=connection.fileno(),
        stdin=stdin,
        stdout=stdout,
    )
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, "r")), "utf-8")
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w")), "utf-8")


def _run(
    message: dict[str, Any], connection: socket.socket, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Run a program as a script; its input and output go through real descriptors."""
    given, printed = _nameless_file(), _nameless_file()
    _write(given, message["stdin"].encode())
    os.lseek(given, 0, os.SEEK_SET)
    _shut_in(connection, settings, given, printed)
    error = _executed(message["program"], _namespace("__main__"))
    sys.stdout.flush()
    os.lseek(1, 0, os.SEEK_SET)
    output = b"".join(iter(lambda: os.read(1, 1 << 16), b""))
    return {"error": error, "stdout": output.decode(errors="replace")}


def _nameless_file() -> int:
    """A descriptor of an empty file that has no name."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("tested")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _namespace(name: str) -> Namespace:
    """A module of its own, known by its name, so that classes and dataclasses in it work."""
    module = ModuleType(name)
    sys.modules[name] = module
    return vars(module)


def _executed(program: str, namespace: Namespace) -> str:
    """Execute a program; why it failed, empty when it ended well."""
    try:
        exec(compile(program, "<program>", "exec"), namespace)
    except SystemExit as error:
        return "" if error.code in (None, 0) else f"SystemExit: {error.code}"
    except _FAILED as error:
        return _described(error)
    return ""


def _described(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip()[-300:]


def _load(program: str, loaded: Namespace) -> dict[str, Any]:
    """Load a program as a module, for calls; a main guard in it does not run."""
    loaded |= {"": _namespace("program")}
    error = _executed(program, loaded[""])
    return {"error": error, "names": [name for name in loaded[""] if not name.startswith("__")]}


def _call(loaded: Namespace, message: dict[str, Any]) -> dict[str, Any]:
    """Call a function of the loaded program, or a method of its class Solution."""
    try:
        found = _find(loaded[""], message["name"])
        if not callable(found):
            return {"value": pack(found)}
        arguments = [unpack(item) for item in message["args"]]
        named = {name: unpack(item) for name, item in message.get("named", {}).items()}
        return {"value": pack(found(*arguments, **named))}
    except _FAILED as error:
        return {"error": _described(error), "type": type(error).__name__}


def _find(namespace: Namespace, name: str) -> Any:
    if name not in namespace and "Solution" in namespace:
        return getattr(namespace["Solution"](), name)
    return namespace[name]


def _check_statements(message: dict[str, Any], connection: socket.socket) -> dict[str, Any]:
    """Run the tests of a row; what they call of the program is asked for over the connection."""
    namespace = _namespace("tests")
    for name in message["names"]:
        namespace[name] = _stub(name, connection)
    failed = _executed(message["setup"], namespace)
    if failed:
        return {"results": [f"the setup of the tests failed: {failed}"] * len(message["tests"])}
    return {"results": [_executed(test, namespace) for test in message["tests"]]}


def _stub(name: str, connection: socket.socket) -> Callable[..., Any]:
    """A function that has the program's function called elsewhere and returns plain data."""

    def call(*args: Any, **named: Any) -> Any:
        question = {
            "name": name,
            "args": [pack(argument) for argument in args],
            "named": {key: pack(argument) for key, argument in named.items()},
        }
        connection.sendall(encode(question))
        reply = receive(connection, bytearray(), sandbox.OUTPUT_BYTES)
        if reply is None:
            raise RuntimeError("the checking process is gone")
        if "error" in reply:
            kind = getattr(builtins, str(reply.get("type")), RuntimeError)
            is_error = isinstance(kind, type) and issubclass(kind, Exception)
            raise (kind if is_error else RuntimeError)(reply["error"])
        return unpack(reply["value"])

    return call
