"""Unit-test rewards: what passes, what does not, and what a program cannot do to be paid."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grpo_core.errors import DataContractError
from grpo_core.rewards import Label, Verdict, VerifierOptions
from grpo_core.rewards.code.plain import pack, same_output, same_result, unpack
from grpo_core.rewards.code.program import find_program
from grpo_core.rewards.code.row_tests import read_tests
from grpo_core.rewards.grader import Grader, GraderRules

ADD = "def add(a, b):\n    return a + b\n"
CALLS = json.dumps({"fn_name": "add", "inputs": [[1, 2], [3, 4]], "outputs": [3, 7]})
PRINTS = json.dumps({"inputs": ["1 2\n", "3 4\n"], "outputs": ["3\n", "7"]})
ASSERTS = json.dumps(["assert add(1, 2) == 3", "assert add(3, 4) == 7"])
CHECK = json.dumps(
    {
        "test": "def check(f):\n    assert f(1, 2) == 3\n    try:\n        f(None, 1)\n"
        "    except TypeError:\n        return\n    raise AssertionError\n",
        "entry_point": "add",
    }
)


RULES = GraderRules(function="code", workers=1, code_seconds=10.0, memory_bytes=512 << 20)


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(RULES) as grader:
        yield grader


@pytest.fixture(scope="module")
def impatient() -> Iterator[Grader]:
    with Grader(replace(RULES, code_seconds=1.0)) as grader:
        yield grader


def _grade(grader: Grader, program: str, tests: str) -> Verdict:
    return grader.grade([f"```python\n{program}\n```"], [{"tests": tests}])[0]


@pytest.mark.parametrize(
    ("program", "tests"),
    [
        (ADD, CALLS),
        (ADD, ASSERTS),
        (ADD, CHECK),
        ("class Solution:\n    def add(self, a, b):\n        return a + b", CALLS),
        ("from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n" + ADD, CALLS),
        ("import numpy\ndef add(a, b):\n    return int(numpy.add(a, b))", CALLS),
        ("a, b = map(int, input().split())\nprint(a + b)", PRINTS),
        ("import sys\nprint(sum(map(int, sys.stdin.buffer.read().split())))", PRINTS),
        ("print(sum(map(int, open(0).read().split())))", PRINTS),
        ("import os\nos.write(1, b'%d' % sum(map(int, os.read(0, 99).split())))", PRINTS),
        ("if __name__ == '__main__':\n    print(sum(map(int, input().split())))", PRINTS),
        ("def add(a, b):\n    return (a, {b: [True]})", '["assert add(1, 2) == (1, {2: [True]})"]'),
    ],
)
def test_right_programs_are_paid(grader: Grader, program: str, tests: str) -> None:
    verdict = _grade(grader, program, tests)
    assert verdict.label is Label.CORRECT, verdict
    assert (verdict.reward_raw, verdict.share_passed) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("program", "tests", "share", "words"),
    [
        ("def add(a, b):\n    return 3", CALLS, 0.5, "another result"),
        ("def add(a, b):\n    return 3", ASSERTS, 0.5, "AssertionError"),
        ("print(3)", PRINTS, 0.5, "another output"),
        ("print(3)\nraise ValueError('late')", PRINTS, 0.0, "late"),
        ("def plus(a, b): ...", ASSERTS, 0.0, "add"),
        ("def add(a, b) return", CALLS, 0.0, "SyntaxError"),
        ("def add(a, b):\n    return [0] * 10**9", CALLS, 0.0, "MemoryError"),
        ("def add(a, b):\n    return add(b, a)", CALLS, 0.0, "RecursionError"),
        ("for _ in range(40):\n    print('x' * 10**6)", PRINTS, 0.0, "File too large"),
    ],
)
def test_wrong_programs_are_not(
    grader: Grader, program: str, tests: str, share: float, words: str
) -> None:
    verdict = _grade(grader, program, tests)
    assert (verdict.label, verdict.reward_raw) == (Label.WRONG, 0.0)
    assert verdict.share_passed == share
    assert words in verdict.reason


EQUAL = "    def __eq__(self, other):\n        return True\n\ndef add(a, b):\n    return X()"


@pytest.mark.parametrize(
    "program",
    [
        f"class X:\n{EQUAL}",
        f"class X(int):\n{EQUAL}",
        f"class X(str):\n{EQUAL}",
        f"class X(list):\n    def __len__(self):\n        return 1\n{EQUAL}",
        "import os\nos._exit(0)",
        "raise SystemExit(0)",
        "import builtins\nbuiltins.AssertionError = Exception\ndef add(a, b): ...",
        "import sys\nsys.modules['tests'] = None\ndef add(a, b): ...",
        "import sys\ndef add(a, b):\n    sys._getframe(1).f_globals.clear()",
        "import gc\ndef add(a, b):\n"
        "    return [o['outputs'] for o in gc.get_objects() if 'outputs' in o][0]",
        "import os\nfor n in range(3, 64):\n    try:\n"
        '        os.write(n, b\'\\x10\\0\\0\\0{\\"results\\":[\\"\\"]}\')\n'
        "    except OSError:\n        pass",
        "import os\nfor n in range(3, 64):\n    try:\n        os.write(n, b'\\xff' * 64)\n"
        "    except OSError:\n        pass",
    ],
)
def test_a_program_cannot_pretend(grader: Grader, program: str) -> None:
    for tests in (ASSERTS, CALLS):
        verdict = _grade(grader, program, tests)
        assert (verdict.label, verdict.share_passed) == (Label.WRONG, 0.0), verdict
    assert _grade(grader, ADD, ASSERTS).label is Label.CORRECT


@pytest.mark.parametrize(
    "attempt",
    [
        "import socket\nsocket.socket().connect(('127.0.0.1', 9))",
        "import socket\nsocket.getaddrinfo('localhost', 80)",
        "import os\nos.fork()",
        "import subprocess\nsubprocess.run(['true'])",
        "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)",
        "open({path!r}, 'w').write('x')",
        "import os\nos.open({path!r}, os.O_CREAT | os.O_WRONLY)",
        "import os\nos.mkdir({path!r})",
        "print(open({secret!r}).read())",
        "import os\nos.listdir({folder!r})",
        "import ctypes\nctypes.CDLL(None)",
    ],
)
def test_a_program_has_no_network_files_or_processes(
    grader: Grader, attempt: str, tmp_path: Path
) -> None:
    path, secret = tmp_path / "made", tmp_path / "secret"
    secret.write_text("7")
    places = {"path": str(path), "secret": str(secret), "folder": str(tmp_path)}
    for name, value in places.items():
        attempt = attempt.replace(f"{{{name}!r}}", repr(value))
    verdict = _grade(grader, f"{attempt}\nprint(sum(map(int, input().split())))", PRINTS)
    assert (verdict.label, verdict.share_passed) == (Label.WRONG, 0.0)
    assert "Error" in verdict.reason
    assert not path.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="Landlock and seccomp are Linux's")
def test_the_kernel_alone_holds_a_program_back(tmp_path: Path) -> None:
    """Without Python's audit events: what native code would meet."""
    (tmp_path / "secret").write_text("7")
    code = f"""
import os, signal, socket, sys, sysconfig
sys.path[:0] = {sys.path!r}
from grpo_core.rewards.code.kernel import restrict
held = restrict([sysconfig.get_paths()["stdlib"], "/usr/lib", "/lib"])
print(*held)
def attempt(name, call):
    try:
        call()
    except OSError as error:
        print(name, type(error).__name__)
    else:
        print(name, "done")
if "landlock" in held:
    attempt("read", lambda: open({str(tmp_path / "secret")!r}))
    attempt("write", lambda: open({str(tmp_path / "made")!r}, "w"))
    attempt("remove", lambda: os.remove({str(tmp_path / "secret")!r}))
if "seccomp" in held:
    attempt("socket", lambda: socket.socket())
    attempt("fork", os.fork)
    attempt("exec", lambda: os.execv("/bin/true", ["true"]))
    attempt("kill", lambda: os.kill(os.getppid(), 0))
import threading
thread = threading.Thread(target=lambda: print("thread", "runs"))
thread.start(), thread.join()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    held, *rest = done.stdout.splitlines()
    assert held, done.stderr
    assert rest[-1] == "thread runs"
    assert {line.split()[1] for line in rest[:-1]} == {"PermissionError"}, done.stdout


@pytest.mark.slow
def test_a_program_that_never_ends_is_wrong_and_stalls_no_other(impatient: Grader) -> None:
    forever = "while True:\n    pass"
    texts = [f"```python\n{program}\n```" for program in (forever, ADD)]
    verdicts = impatient.grade(texts, [{"tests": CALLS}] * 2)
    assert [verdict.label for verdict in verdicts] == [Label.WRONG, Label.CORRECT]
    assert "out of time" in verdicts[0].reason
    verdict = _grade(impatient, "import time\ntime.sleep(60)", PRINTS)
    assert (verdict.label, verdict.share_passed) == (Label.WRONG, 0.0)


@pytest.mark.parametrize(
    ("completion", "program"),
    [
        ("```python\nx = 1\n```", "x = 1\n"),
        ("First\n```py\nx = 1\n```\nbetter\n```python\nx = 2\n```\ndone", "x = 2\n"),
        ("```\nx = 1\n```\nrun it:\n```bash\npython x.py\n```", "x = 1\n"),
        ("~~~python\nx = '```'\n~~~", "x = '```'\n"),
        ("x = '\uff11\uff12'", "x = '\uff11\uff12'"),
        ("<think>```python\nx = 1\n```</think>\n```python\nx = 2\n```", "x = 2\n"),
        ("<think>```python\nx = 1\n```</think> I give up", None),
        ("```python\nx = 1", None),
        ("Add the numbers.", None),
        ("42", None),
        ("", None),
    ],
)
def test_the_program_of_a_completion(completion: str, program: str | None) -> None:
    assert find_program(completion, VerifierOptions())[0] == program


def test_a_cut_off_program_by_option() -> None:
    options = VerifierOptions(accept_unterminated=True)
    assert find_program("```python\nx = 1", options)[0] == "x = 1"


def test_no_program_is_unparseable_and_bad_tests_are_the_datas_fault(grader: Grader) -> None:
    verdicts = grader.grade(["I give up", "```\nx = 1\n```"], [{"tests": CALLS}, {"tests": None}])
    assert [v.label for v in verdicts] == [Label.UNPARSEABLE, Label.GOLD_UNPARSEABLE]
    assert [v.reward_raw for v in verdicts] == [0.0, None]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected JSON"),
        ("7", "an object or a list"),
        ("[]", "got 0"),
        ("[7]", "expected a statement"),
        ('["assert ("]', "is not Python"),
        ('{"inputs": ["1"], "outputs": []}', "one length"),
        ('{"inputs": [1], "outputs": [2]}', "must be texts"),
        ('{"fn_name": "f", "inputs": [1], "outputs": [2]}', "list of arguments"),
        ('{"test": "x = 1", "entry_point": "f()"}', "entry_point"),
    ],
)
def test_bad_tests_are_named(text: str, words: str) -> None:
    with pytest.raises(DataContractError, match="tests: ") as caught:
        read_tests(text)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "value", [None, True, 7, 10**400, 0.1, "x", b"\xff", [1, (2, {3})], {1: {"a": (None,)}}, set()]
)
def test_plain_data_survives_the_way(value: Any) -> None:
    assert unpack(json.loads(json.dumps(pack(value)))) == value
    assert type(unpack(pack(value))) is type(value)


def test_nothing_else_is_plain_data() -> None:
    for value in (object(), len, [lambda: 1], 1j):
        with pytest.raises(TypeError, match="not plain data"):
            pack(value)


def test_results_are_compared_as_json_means_them() -> None:
    assert same_result((1, (2, 3)), [1, [2, 3]])
    assert same_result({1: 2}, {"1": 2})
    assert same_result(0.1 + 0.2, 0.3)
    assert same_result(3.0, 3)
    assert not same_result("3", 3)
    assert not same_result([1, 2], [1, 2, 3])
    assert not same_result(float("nan"), 1.0)
    assert same_output("1 \n2\n\n", "1\n2")
    assert not same_output("1\n\n2", "1\n2")
