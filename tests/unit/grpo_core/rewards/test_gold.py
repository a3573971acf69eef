"""Golds at ingest: what can be graded against, quickly and without a process."""

import subprocess
import sys
import time

import pytest

from grpo_core.errors import DataContractError
from grpo_core.rewards import Label, check_gold, grade


@pytest.mark.parametrize(
    ("gold", "answer_type"),
    [
        ("42", None),
        ("1,234", "number"),
        ("12 * 3 = 36\n#### 36", None),
        (r"\boxed{\frac34}", None),
        (r"\{1,2,3\}", "set"),
        (r"(-\infty,2]", "interval"),
        ("B", "choice"),
        ("Tuesday", "text"),
        ("yes", "boolean"),
        (r"\pm 5", None),
        ("y = 2x", "equation"),
        ("2:30", "time"),
        ("2:3", "ratio"),
        ("2,1", "tuple"),
        (r"\frac{1}{2^{99}}", None),
        (r"\int_0^1 x^2 dx", None),
    ],
)
def test_good_golds(gold: str, answer_type: str | None) -> None:
    assert check_gold(gold, answer_type) is None


@pytest.mark.parametrize(
    ("gold", "answer_type", "word"),
    [
        ("", None, "blank"),
        (" \n", None, "blank"),
        ("####", None, "blank"),
        (r"\boxed{}", None, "blank"),
        ("???", None, "cannot be read"),
        ("many", "number", "as number"),
        ("perhaps", "choice", "as choice"),
        ("5", "equation", "as equation"),
        ("42", "nmber", "unknown answer_type"),
        (r"\int \frac{", None, "cannot be read"),
    ],
)
def test_bad_golds(gold: str, answer_type: str | None, word: str) -> None:
    reason = check_gold(gold, answer_type)
    assert reason is not None
    assert word in reason


def test_a_bad_gold_is_a_null_reward() -> None:
    verdict = grade("#### 5", "???")
    assert verdict.label is Label.GOLD_UNPARSEABLE
    assert verdict.reward_raw is None


def test_an_unknown_answer_type_is_an_error() -> None:
    with pytest.raises(DataContractError, match="nmber"):
        grade("#### 5", "5", answer_type="nmber")


def test_thousands_of_golds_take_no_time() -> None:
    start = time.process_time()
    assert all(check_gold(f"so {n}\n#### {n}") is None for n in range(8000))
    assert time.process_time() - start < 2.0


def test_reading_golds_starts_nothing() -> None:
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "from grpo_core.rewards import check_gold\n"
        "check_gold('42'); check_gold('1/2'); check_gold('x^2')\n"
        "print('sympy' in sys.modules, 'subprocess' in sys.modules and "
        "len(__import__('multiprocessing').active_children()))\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.split() == ["False", "0"], result.stderr
