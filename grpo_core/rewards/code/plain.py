"""Plain data between processes: what a program gives is copied, so that it cannot pretend.

An object with an `__eq__` of its own would be equal to everything; here only numbers, texts and
containers of them pass.
"""

import math
from typing import Any

_TOLERANCE = 1e-9


def pack(value: Any) -> Any:
    """Return plain JSON for a value.

    Raises:
        TypeError: It is no number, text or container of them.
    """
    if value is None or isinstance(value, bool):
        return value
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, bytes):
        return {"bytes": bytes(value).hex()}
    if isinstance(value, dict):
        return {"dict": [[pack(key), pack(item)] for key, item in dict.items(value)]}
    if isinstance(value, list):
        return {"list": [pack(item) for item in list.__iter__(value)]}
    if isinstance(value, tuple):
        return {"tuple": [pack(item) for item in tuple.__iter__(value)]}
    if isinstance(value, set | frozenset):
        return {"set": [pack(item) for item in frozenset(value)]}
    raise TypeError(f"a {type(value).__name__} is not plain data")


def unpack(value: Any) -> Any:
    """The value that `pack` was given.

    Raises:
        ValueError: Not what `pack` makes.
    """
    if not isinstance(value, dict):
        return value
    ((kind, items),) = value.items()
    if kind == "bytes":
        return bytes.fromhex(items)
    if kind == "dict":
        return {unpack(key): unpack(item) for key, item in items}
    containers = {"list": list, "tuple": tuple, "set": set}
    if kind not in containers:
        raise ValueError(f"unknown kind {kind!r}")
    return containers[kind](map(unpack, items))


def same_result(given: Any, expected: Any) -> bool:
    """Whether a result is the one that JSON tests expect.

    Tuples equal lists and keys equal their texts, because JSON has only these; floats may differ by
    1e-9, relative or absolute.
    """
    if isinstance(expected, float) or isinstance(given, float):
        is_number = isinstance(given, int | float) and isinstance(expected, int | float)
        return is_number and math.isclose(given, expected, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    if isinstance(expected, list):
        return (
            isinstance(given, list | tuple)
            and len(given) == len(expected)
            and all(map(same_result, given, expected))
        )
    if isinstance(expected, dict):
        keyed = {str(key): item for key, item in given.items()} if isinstance(given, dict) else {}
        return keyed.keys() == expected.keys() and all(
            same_result(keyed[key], item) for key, item in expected.items()
        )
    return bool(given == expected)


def same_output(given: str, expected: str) -> bool:
    """Whether a program printed what is expected; blanks at the ends of lines do not count."""
    return _lines(given) == _lines(expected)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]
