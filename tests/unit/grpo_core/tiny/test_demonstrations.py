"""Demonstrations: careless as often as stated, and consistent with their own mistakes."""

import random
import re

from grpo_core.prompts.suffixes import SUFFIXES
from grpo_core.tiny.demonstrations import (
    SUFFIX_SHARE,
    Carelessness,
    careless_lines,
    demonstrate,
    render_prompt,
)
from grpo_core.tiny.problems import draw_problem

CAREFUL = Carelessness(easy=0.0, medium=0.0, hard=0.0)


def test_a_prompt_is_the_problem_the_suffix_and_a_cue() -> None:
    assert render_prompt("How many?") == "How many?\nAnswer:"
    assert render_prompt("How many?", "Be brief.") == "How many? Be brief.\nAnswer:"


def test_careful_demonstrations_are_the_gold_solution() -> None:
    rng = random.Random(0)
    for _ in range(50):
        problem = draw_problem(rng)
        assert careless_lines(rng, problem, CAREFUL) == problem.lines
        assert demonstrate(rng, problem, CAREFUL).correct


def test_a_share_of_the_demonstrations_is_wrong_and_says_so() -> None:
    rng = random.Random(1)
    problems = [draw_problem(rng) for _ in range(1500)]
    shown = [demonstrate(rng, problem, Carelessness()) for problem in problems]
    for problem, demonstration in zip(problems, shown, strict=True):
        final = int(demonstration.completion.rsplit("#### ")[-1])
        assert demonstration.correct == (final == problem.lines[-1].result)
    wrong = sum(not demonstration.correct for demonstration in shown) / len(shown)
    assert WRONG_SHARE[0] < wrong < WRONG_SHARE[1]


WRONG_SHARE = (0.25, 0.45)
"""The range that data/README.md states."""


def test_mistakes_are_carried_on() -> None:
    rng = random.Random(2)
    for _ in range(300):
        problem = draw_problem(rng)
        lines = careless_lines(rng, problem, Carelessness(1.0, 1.0, 1.0, skip=0.5, confuse=0.5))
        assert 1 <= len(lines) <= len(problem.lines)
        assert all(1 <= line.result <= 999 for line in lines)
        assert lines[-1].op in "+-*/"


def test_every_suffix_is_seen_and_most_prompts_have_none() -> None:
    rng = random.Random(3)
    shown = [demonstrate(rng, draw_problem(rng), Carelessness()).prompt for _ in range(1000)]
    share = {
        suffix: sum(f" {text}\n" in prompt for prompt in shown) / len(shown)
        for suffix, text in SUFFIXES.items()
    }
    assert all(0.05 < seen < 0.15 for seen in share.values()), share
    assert abs(sum(share.values()) - SUFFIX_SHARE) < 0.06


def test_brief_demonstrations_leave_the_unit_out() -> None:
    rng = random.Random(4)
    shown = [demonstrate(rng, draw_problem(rng), CAREFUL) for _ in range(400)]
    for demonstration in shown:
        brief = SUFFIXES["brief"] in demonstration.prompt
        assert bool(re.search("[a-z]", demonstration.completion)) != brief
