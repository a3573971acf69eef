"""How workers decide whether two answers are equal: by fifty digits, or by computer algebra."""

import socket
from collections.abc import Callable, Mapping
from typing import Any, Final

from grpo_core.rewards.grading import judge
from grpo_core.rewards.nodes import Node
from grpo_core.rewards.options import VerifierOptions
from grpo_core.rewards.precise import identical
from grpo_core.rewards.scalars import NeedsSymbolic, SymbolicEqual
from grpo_core.rewards.tokens import UnreadableError
from grpo_core.rewards.verdict import Label

_COMPARISON_ERRORS: Final = (
    ValueError,
    TypeError,
    ArithmeticError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RecursionError,
    AssertionError,
)
Comparer = Callable[[VerifierOptions], SymbolicEqual]
Handler = Callable[[dict[str, Any], socket.socket], dict[str, Any]]


def light_handler(_: Mapping[str, Any]) -> Handler:
    """Return a handler that compares by high-precision arithmetic and passes on the rest."""
    return lambda message, _: answer(message, light_comparer)


def full_handler(_: Mapping[str, Any]) -> Handler:
    """Return a handler that compares by computer algebra, with its tables built."""
    from grpo_core.rewards.symbolic import SymbolicComparison, warm_up

    warm_up()
    return lambda message, _: answer(message, SymbolicComparison)


def light_comparer(options: VerifierOptions) -> SymbolicEqual:
    """Return a comparison by high-precision arithmetic; what it cannot decide needs the full."""

    def same(answer: Node | str, gold: Node | str) -> bool:
        if isinstance(answer, str) or isinstance(gold, str):
            raise NeedsSymbolic(full=True)
        decided = identical(answer, gold, log_base_ten=options.log_base_ten)
        if decided is None:
            raise NeedsSymbolic(full=True)
        return decided

    return same


def answer(message: Mapping[str, Any], comparer: Comparer) -> dict[str, Any]:
    """Return the reply to one question: its label and reason, or that it is for the full worker."""
    fields = message["options"]
    options = VerifierOptions(**{**fields, "reasoning_tags": tuple(fields["reasoning_tags"])})
    try:
        label, reason = judge(
            message["answer"],
            message["gold"],
            message["answer_type"],
            options,
            comparer(options),
        )
    except NeedsSymbolic:
        return {"escalate": True, "label": Label.ERROR, "reason": "needs computer algebra"}
    except UnreadableError as error:
        label, reason = Label.UNPARSEABLE, f"the answer cannot be read: {error}"
    except _COMPARISON_ERRORS as error:
        label, reason = Label.WRONG, f"cannot be shown equal ({type(error).__name__})"
    return {"label": label, "reason": reason}
