"""Checks programs against tests: holds the tests, and has the programs run elsewhere."""

import ast
import math
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from grpo_core.rewards.code.plain import pack, same_output, same_result, unpack
from grpo_core.rewards.code.sandbox import OUTPUT_BYTES
from grpo_core.rewards.nursery import Nursery, Worker
from grpo_core.rewards.protocol import encode, receive

Handler = Callable[[dict[str, Any], socket.socket], dict[str, Any]]
_ESCAPED: Final = 6
"""Bytes that a byte of output takes in JSON at most."""
_BROKEN: Final = (OSError, ValueError, TypeError, LookupError, RecursionError, MemoryError)
"""What reading a reply of a stranger's process may raise."""


class ProgramFailedError(Exception):
    """A program that ran out of time, died, or sent what nobody can read."""


def make_handler(settings: Mapping[str, Any]) -> Handler:
    """Return a handler for {program, tests} → {results: why each test failed, empty if passed}."""
    seconds = float(settings["seconds"])
    limits = {
        "cpu_seconds": math.ceil(seconds) + 1,
        "growth_bytes": settings["growth_bytes"],
    }
    nursery = Nursery("program", limits)

    def handle(message: dict[str, Any], _: socket.socket) -> dict[str, Any]:
        if not nursery.started:  # what that takes is not the program's time
            nursery.kill(nursery.fork())
        checker = _Checker(nursery, time.monotonic() + seconds, message["program"])
        tests = message["tests"]
        check = {"stdio": checker.stdio, "calls": checker.calls, "asserts": checker.asserts}
        return {"results": check[tests["mode"]](tests)}

    return handle


@dataclass(frozen=True, slots=True)
class _Checker:
    """One program and the time until which its tests may run.

    Args:
        nursery: Forks the processes that programs run in; it never sees a test.
        deadline: Monotonic seconds.
        program: Source text.
    """

    nursery: Nursery
    deadline: float
    program: str

    def stdio(self, tests: Mapping[str, Any]) -> list[str]:
        """Run the program once for each input."""
        results = []
        for given, expected in tests["cases"]:
            try:
                with self._process() as process:
                    question = {"do": "run", "program": self.program, "stdin": given}
                    reply = self._ask(process, question, _ESCAPED * OUTPUT_BYTES + 4096)
                failed = str(reply["error"])
                is_same = same_output(str(reply["stdout"]), expected)
                results.append(failed or ("" if is_same else "another output"))
            except (ProgramFailedError, *_BROKEN) as error:
                results.append(_reason(error))
        return results

    def calls(self, tests: Mapping[str, Any]) -> list[str]:
        """Call the function with each list of arguments; all calls in one process."""
        results: list[str] = []
        cases: Sequence[Any] = tests["cases"]
        try:
            with self._process() as process:
                self._load(process)
                for arguments, expected in cases:
                    question = {"do": "call", "name": tests["function"]}
                    reply = self._ask(process, {**question, "args": list(map(pack, arguments))})
                    results.append(_compared(reply, expected))
        except (ProgramFailedError, *_BROKEN) as error:
            results += [_reason(error)] * (len(cases) - len(results))
        return results

    def asserts(self, tests: Mapping[str, Any]) -> list[str]:
        """Run the statements in a process of their own that calls the program's functions."""
        statements = [statement for statement, _ in tests["cases"]]
        try:
            with self._process() as process, self._process() as tester:
                names = set(self._load(process)) & _names([tests["setup"], *statements])
                question = {
                    "do": "assert",
                    "setup": tests["setup"],
                    "tests": statements,
                    "names": sorted(names),
                }
                reply = self._ask(tester, question)
                while "results" not in reply:
                    answer = self._ask(process, {"do": "call", **reply})
                    reply = self._ask(tester, answer)
                return [str(result) for result in reply["results"]]
        except (ProgramFailedError, *_BROKEN) as error:
            return [_reason(error)] * len(statements)

    @contextmanager
    def _process(self) -> Iterator[Worker]:
        """A fresh process for one program, killed afterwards."""
        process = self.nursery.fork()
        try:
            yield process
        finally:
            self.nursery.kill(process)

    def _load(self, process: Worker) -> list[str]:
        reply = self._ask(process, {"do": "load", "program": self.program})
        if reply["error"]:
            raise ProgramFailedError(str(reply["error"]))
        return [str(name) for name in reply["names"]]

    def _ask(
        self, process: Worker, message: dict[str, Any], max_bytes: int = OUTPUT_BYTES
    ) -> dict[str, Any]:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise ProgramFailedError("out of time")
        process.connection.settimeout(left)
        try:
            process.connection.sendall(encode(message))
            reply = receive(process.connection, process.buffer, max_bytes)
        except TimeoutError as error:
            raise ProgramFailedError("out of time") from error
        if reply is None:
            raise ProgramFailedError("the program's process ended")
        if not isinstance(reply, dict):
            raise ProgramFailedError("the program's process sent something else")
        return reply


def _compared(reply: Mapping[str, Any], expected: Any) -> str:
    if "error" in reply:
        return str(reply["error"])
    return "" if same_result(unpack(reply["value"]), expected) else "another result"


def _names(sources: Sequence[str]) -> set[str]:
    """Every name that the tests use."""
    return {
        node.id
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Name)
    }


def _reason(error: BaseException) -> str:
    return str(error)[:300] or type(error).__name__
