"""Properties of grading that hold for every text: no exception, no hang, one meaning."""

import json
import re
import time
from contextlib import suppress
from fractions import Fraction

from hypothesis import example, given, settings
from hypothesis import strategies as st

from grpo_core.errors import DataContractError
from grpo_core.rewards import Label, VerifierOptions, grade, overlong_penalty
from grpo_core.rewards.code.plain import pack, unpack
from grpo_core.rewards.code.program import find_program
from grpo_core.rewards.code.row_tests import read_tests
from grpo_core.rewards.equivalence import Comparison
from grpo_core.rewards.extract import extract
from grpo_core.rewards.grading import Pending, grade_exactly
from grpo_core.rewards.nodes import Node, Num, Op
from grpo_core.rewards.process import check_process
from grpo_core.rewards.reading import read_answer

OPTIONS = VerifierOptions()
PIECE_TEXT = r"""
    \boxed{ } \fbox{ { \{ \} $ $$ #### <answer> </answer> <think> </think> \frac \sqrt \pm \text{
    \left( \right] ( ) [ ] | , . ; : ! ? - + * / ^ _ = < > % \% \$ 1 2 42 3.5 1,234 007 x y e i pi
    the answer is final not or and wait actually wrong could be Answer: \pi \infty \cup \in \le \ne
    cm m/s dollars B (C) \begin{pmatrix} \end{pmatrix} & \\ \int \overline{3} (( )) }} {{ \binom
    \log_ \sin \degree \approx ' " ** `"""
UNICODE = (
    "\n \u00a0\u200b\x00\ud7ff\U0001d7d8\u00bd\u00b2\u2212\u0664\uff14"
    "\u3002\u221a\u221e\u7b54\u6848\u662f"
)
PIECES = st.sampled_from([*PIECE_TEXT.split(), *UNICODE])
SOUP = st.lists(PIECES, max_size=40).map(" ".join) | st.lists(PIECES, max_size=40).map("".join)
TEXT = SOUP | st.text(max_size=200)
NUMBERS = st.one_of(
    st.integers(-(10**30), 10**30).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=6).map(lambda d: f"{d:f}"),
    st.integers(0, 10**15).map(lambda n: f"{n:,}"),
)


@settings(max_examples=400, deadline=None)
@given(TEXT)
def test_extraction_never_fails_and_is_idempotent(text: str) -> None:
    start = time.process_time()
    found = extract(text, OPTIONS)
    assert time.process_time() - start < 1.0
    assert found.answer is None or found.answer in found.candidates
    if found.answer is not None and _is_balanced(found.answer):
        assert extract(rf"\boxed{{{found.answer}}}", OPTIONS).answer == found.answer


def _is_balanced(text: str) -> bool:
    """Whether a box around the text holds exactly the text."""
    depth = 0
    for mark in re.findall(r"\\.|[{}]|\\\Z|boxed|fbox|<|>", text, re.DOTALL):
        if mark in ("\\", "boxed", "fbox", "<", ">"):
            return False
        depth += {"{": 1, "}": -1}.get(mark, 0)
        if depth < 0:
            return False
    return depth == 0


@settings(max_examples=400, deadline=None)
@given(TEXT, TEXT)
def test_grading_never_fails(completion: str, gold: str) -> None:
    start = time.process_time()
    verdict = grade_exactly(completion, gold, None, OPTIONS)
    assert time.process_time() - start < 2.0
    assert isinstance(verdict, Pending) or verdict.label in Label


@settings(max_examples=25, deadline=None)
@given(SOUP, SOUP)
def test_grading_through_the_workers_never_fails(completion: str, gold: str) -> None:
    verdict = grade(rf"\boxed{{{completion}}}", gold)
    assert verdict.label in Label
    assert (verdict.reward_raw is None) == (
        verdict.label in (Label.TIMEOUT, Label.ERROR, Label.GOLD_UNPARSEABLE)
    )


@settings(max_examples=300, deadline=None)
@given(NUMBERS)
def test_a_gold_number_is_paid_in_every_wrapping(gold: str) -> None:
    for completion in (
        f"#### {gold}",
        rf"\boxed{{{gold}}}",
        f"The answer is {gold}.",
        f"**Answer:** {gold}",
        f"<answer>{gold}</answer>",
        f"Answer:\n\n{gold}",
        f"#### {gold}.",
    ):
        verdict = grade(completion, gold)
        assert verdict.label is Label.CORRECT, (completion, verdict)


def _exact(left: Node | str, right: Node | str) -> bool:
    """The slow way: evaluate both trees as exact fractions."""
    assert not isinstance(left, str)
    assert not isinstance(right, str)
    return _fraction(left) == _fraction(right)


def _fraction(node: Node) -> Fraction:
    if isinstance(node, Num):
        return node.value
    assert isinstance(node, Op)
    parts = [_fraction(part) for part in node.args]
    return {
        "neg": lambda: -parts[0],
        "add": lambda: sum(parts, Fraction(0)),
        "mul": lambda: parts[0] * parts[1],
        "div": lambda: parts[0] / parts[1],
    }[node.name]()


@settings(max_examples=300, deadline=None)
@given(NUMBERS, NUMBERS)
def test_the_fast_path_agrees_with_the_full_path(answer: str, gold: str) -> None:
    left, right = read_answer(answer, OPTIONS), read_answer(gold, OPTIONS)
    assert left is not None
    assert right is not None
    fast = Comparison(OPTIONS).same(left, right)
    full = Comparison(OPTIONS, _exact, force_symbolic=True).same(left, right)
    assert fast == full


@settings(max_examples=200, deadline=None)
@given(st.integers(-999, 999), st.integers(1, 999), st.integers(1, 50))
def test_equal_fractions_are_equal_in_every_notation(top: int, bottom: int, factor: int) -> None:
    gold = rf"\frac{{{top}}}{{{bottom}}}"
    for answer in (
        f"{top * factor}/{bottom * factor}",
        rf"\dfrac{{{top * factor}}}{{{bottom * factor}}}",
        rf"\frac{{{-top}}}{{{-bottom}}}",
        rf"-\frac{{{-top}}}{{{bottom}}}",
    ):
        assert grade(rf"\boxed{{{answer}}}", gold).label is Label.CORRECT, answer
    assert grade(rf"\boxed{{{top + bottom}/{bottom}}}", gold).label is Label.WRONG


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 5000), st.integers(0, 5000), st.integers(0, 5000))
def test_overlong_penalty_is_bounded_and_monotone(length: int, first: int, second: int) -> None:
    buffer, max_length = sorted((first, second))
    here = overlong_penalty(length, max_length=max_length, buffer=buffer)
    there = overlong_penalty(length + 1, max_length=max_length, buffer=buffer)
    assert -1.0 <= there <= here <= 0.0


@settings(max_examples=200, deadline=None)
@given(st.lists(SOUP, max_size=5).map(lambda parts: "".join(f"<<{part}>>" for part in parts)))
def test_process_checking_never_fails(text: str) -> None:
    check = check_process(text, "3 and 4")
    assert 0 <= check.grounded <= check.right <= check.lines


FENCES = st.lists(st.sampled_from(["```python", "```", "~~~", "x = 1", "<think>", "</think>", ""]))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.floats(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@settings(max_examples=200, deadline=None)
@given(FENCES.map("\n".join) | TEXT)
@example("x = 1\n<think>\n</think>")
def test_finding_a_program_never_fails_and_is_idempotent(text: str) -> None:
    program, how = find_program(text, OPTIONS)
    assert how
    if program is not None and "`" not in program and "~" not in program and "<" not in program:
        again = find_program(f"```\n{program}\n```", OPTIONS)[0]
        assert again is None or again.rstrip() == program.rstrip()


@settings(max_examples=200, deadline=None)
@given(PLAIN)
def test_plain_data_comes_out_as_it_went_in(value: object) -> None:
    there = unpack(json.loads(json.dumps(pack(value))))
    assert repr(there) == repr(value)


@settings(max_examples=200, deadline=None)
@given(TEXT | st.recursive(st.integers() | st.text(), st.lists).map(json.dumps))
def test_reading_tests_fails_only_by_contract(text: str) -> None:
    with suppress(DataContractError):
        assert read_tests(text).cases
