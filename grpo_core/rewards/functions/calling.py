"""The worker's side of reward functions: import one, call it, say what it gave."""

import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from grpo_core.rewards.limits import limit_growth
from grpo_core.rewards.verdict import Verdict

Function = Callable[..., Any]
Handler = Callable[[dict[str, Any], socket.socket], dict[str, Any]]


def sample_handler(settings: Mapping[str, Any]) -> Handler:
    """Return a handler for one sample a message; the function is imported once, before forking."""
    function = load_function(settings)
    limited: list[int] = []

    def handle(message: dict[str, Any], _: socket.socket) -> dict[str, Any]:
        if not limited:
            limited.append(limit_growth(settings["growth_bytes"]))
        return _called(lambda: as_plain(function(**message)))

    return handle


def batch_handler(settings: Mapping[str, Any]) -> Handler:
    """Return a handler for a batch a message.

    The function is imported in the worker itself, which is forked from a process without threads
    or device: a reward model may take a GPU.
    """
    loaded: list[Function] = []

    def handle(message: dict[str, Any], _: socket.socket) -> dict[str, Any]:
        return _called(lambda: _batch(message))

    def _batch(message: dict[str, Any]) -> dict[str, Any]:
        if not loaded:
            loaded.append(load_function(settings))
        values = list(loaded[0](**message))
        wanted = len(message["completions"])
        if len(values) != wanted:
            return {"error": f"it returned {len(values)} values for {wanted} completions"}
        return {"batch": [as_plain(value) for value in values]}

    return handle


def load_function(settings: Mapping[str, Any]) -> Function:
    """Import a function from its module, or from its file; its neighbours can be imported too."""
    sys.path.insert(0, settings["root"])
    if settings["module"]:
        module = import_module(settings["module"])
    else:
        module = _from_file(Path(settings["file"]))
    function: Function = getattr(module, settings["name"])
    return function


def _from_file(path: Path) -> ModuleType:
    """Load a file under a name of its own, whatever else is called like it."""
    name = f"reward_function_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def as_plain(value: Any) -> dict[str, Any]:
    """What a function returned, as plain JSON; `error` when it is nothing that counts."""
    if value is None:
        return {"value": None}
    if isinstance(value, Verdict):
        return {
            "verdict": {
                "label": str(value.label),
                "reward_raw": _number(value.reward_raw),
                "extracted": None if value.extracted is None else str(value.extracted),
                "candidates": [str(candidate) for candidate in value.candidates],
                "reason": str(value.reason),
                "confidence": _number(value.confidence),
                "share_passed": _number(value.share_passed),
            }
        }
    if isinstance(value, str | bytes) or not hasattr(value, "__float__"):
        kind = type(value).__name__
        return {"error": f"it returned a {kind}, expected a Verdict, a number or None"}
    return {"value": float(value)}


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _called(call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return call()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - reported as the sample's verdict
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name} line {last.lineno}"
        return {"error": f"it raised {type(error).__name__}: {error} ({place})"[:500]}
