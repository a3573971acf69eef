r"""The tests of a row: pairs of input and output, calls of a function, or statements.

| JSON of the tests | meaning |
|---|---|
| `{"inputs": ["1 2\n"], "outputs": ["3\n"]}` | stdin and the expected stdout, a program each |
| `{"fn_name": "add", "inputs": [[1, 2]], "outputs": [3]}` | arguments and the expected result |
| `["assert add(1, 2) == 3"]` | statements that must not raise |
| `{"setup": "import math", "asserts": [...]}` | the same after a setup |
| `{"test": "def check(f): ...", "entry_point": "add"}` | one call of `check` with the function |
"""

import ast
import json
from dataclasses import dataclass
from typing import Any, Literal

from grpo_core.errors import DataContractError

Mode = Literal["stdio", "calls", "asserts"]
_HINT = (
    'tests are {"inputs": [...], "outputs": [...]}, with "fn_name" for calls of a function, '
    'or ["assert ...", ...]'
)
MAX_TESTS = 1000


@dataclass(frozen=True, slots=True)
class RowTests:
    """What a program is tested for.

    Args:
        mode: `stdio`, `calls` or `asserts`.
        cases: (stdin, stdout), (arguments, result) or (statement, None).
        function: Function that is called; empty unless `mode` is `calls`.
        setup: Statements before the tests; empty unless `mode` is `asserts`.
    """

    mode: Mode
    cases: tuple[tuple[Any, Any], ...]
    function: str = ""
    setup: str = ""

    def message(self) -> dict[str, Any]:
        """The tests as plain JSON."""
        return {
            "mode": self.mode,
            "cases": [list(case) for case in self.cases],
            "function": self.function,
            "setup": self.setup,
        }


def read_tests(text: str) -> RowTests:
    """Read the tests of a row.

    Args:
        text: JSON, see the table above.

    Raises:
        DataContractError: It is none of these; says what was expected and what came.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataContractError(f"tests: expected JSON, got {text[:60]!r} ({error})", _HINT) from (
            error
        )
    if isinstance(value, list):
        value = {"asserts": value}
    if not isinstance(value, dict):
        raise DataContractError(f"tests: expected an object or a list, got {value!r:.60}", _HINT)
    if "asserts" in value:
        tests = _read_asserts(value)
    elif "test" in value:
        tests = _read_check(value)
    else:
        tests = _read_pairs(value)
    if not 0 < len(tests.cases) <= MAX_TESTS:
        raise DataContractError(f"tests: expected 1 to {MAX_TESTS}, got {len(tests.cases)}", _HINT)
    return tests


def _read_asserts(value: dict[str, Any]) -> RowTests:
    statements, setup = value["asserts"], value.get("setup", "")
    if not isinstance(statements, list) or not isinstance(setup, str):
        raise DataContractError("tests: expected a list of statements and a text as setup", _HINT)
    for statement in [*statements, setup]:
        _require_python(statement)
    return RowTests("asserts", tuple((statement, None) for statement in statements), setup=setup)


def _read_check(value: dict[str, Any]) -> RowTests:
    entry = value.get("entry_point")
    if not isinstance(entry, str) or not entry.isidentifier():
        raise DataContractError(f"tests: entry_point {entry!r} is not a function's name", _HINT)
    _require_python(value["test"])
    return RowTests("asserts", ((f"check({entry})", None),), setup=value["test"])


def _read_pairs(value: dict[str, Any]) -> RowTests:
    inputs, outputs = value.get("inputs"), value.get("outputs")
    if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
        raise DataContractError("tests: inputs and outputs must be lists of one length", _HINT)
    name = value.get("fn_name")
    pairs = tuple(zip(inputs, outputs, strict=True))
    if name:
        if not str(name).isidentifier() or not all(isinstance(item, list) for item in inputs):
            raise DataContractError(
                f"tests: calls of {name!r} need a list of arguments each", _HINT
            )
        return RowTests("calls", pairs, function=str(name))
    if not all(isinstance(item, str) for pair in pairs for item in pair):
        raise DataContractError("tests: stdin and stdout must be texts", _HINT)
    return RowTests("stdio", pairs)


def _require_python(statement: object) -> None:
    if not isinstance(statement, str):
        raise DataContractError(f"tests: expected a statement, got {statement!r:.60}", _HINT)
    try:
        ast.parse(statement)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise DataContractError(f"tests: {statement[:60]!r} is not Python: {error}", _HINT) from (
            error
        )
