"""Loads the objective afresh, as it is or with one module's source changed."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import grpo_core.objective

SOURCE = Path(grpo_core.objective.__file__).parent

# In the order of their imports; configuration and presets are data and stay as they are.
MODULES = (
    "batch",
    "aggregation",
    "ratios",
    "kl",
    "kl_control",
    "metrics",
    "losses",
    "winsorise",
    "advantages",
    "spans",
    "masks",
    "projection",
    "logprobs",
)


def source_of(module: str) -> str:
    return (SOURCE / f"{module}.py").read_text()


def load_objective(
    changed: str | None = None, change: Callable[[str], str] = lambda source: source
) -> SimpleNamespace:
    """Returns the modules by name, executed from source; sys.modules is left as it was."""
    names = {module: f"grpo_core.objective.{module}" for module in MODULES}
    before = {name: sys.modules.pop(name, None) for name in names.values()}
    loaded = {}
    try:
        for module, name in names.items():
            text = source_of(module)
            loaded[module] = _execute(name, change(text) if module == changed else text)
    finally:
        for name, original in before.items():
            sys.modules.pop(name, None)
            if original is not None:
                sys.modules[name] = original
    return SimpleNamespace(**loaded)


def _execute(name: str, text: str) -> ModuleType:
    module = ModuleType(name)
    sys.modules[name] = module
    exec(compile(text, f"<{name}>", "exec"), module.__dict__)
    return module
