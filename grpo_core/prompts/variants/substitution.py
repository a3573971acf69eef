"""Number substitution: other numbers of the same size in a problem, every line solved again."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from grpo_core.prompts.normalise import problem_id
from grpo_core.prompts.variants.arithmetic import (
    complexity,
    literals,
    number_value,
    values,
    write,
)
from grpo_core.prompts.variants.draws import Limits, domains, draw_inputs
from grpo_core.prompts.variants.lines import Line, Origin, parse_lines
from grpo_core.prompts.variants.numerals import find_numerals, format_like, rewrite
from grpo_core.prompts.variants.problem import Problem, RefusalError, Variant
from grpo_core.prompts.variants.program import Program, read_program

KIND = "number_substitution"

_DRAWS = 400
"""Draws of a whole set of numbers before a problem is given up."""
_CHECKS = (
    "parent lines exact and end in its gold",
    "every number has one origin",
    "every number and result is used",
    "order of numbers kept",
    "whole and positive values kept",
    "read back from text: lines exact, inputs equal, last result is gold",
)


def substitute_numbers(problem: Problem, rng: np.random.Generator, limits: Limits) -> Variant:
    """Return the problem with other numbers, its solution and gold recomputed.

    New numbers have the digits, decimals, roundness and order of size of the old ones. Every value
    in every line stays a whole number, above zero, below or above one, where it was.

    Raises:
        RefusalError: The problem is ambiguous, or no numbers were found that keep its properties.
    """
    program = read_program(problem)
    choices = domains(program, limits)
    if not choices:
        raise RefusalError("no other number of the same size is allowed")
    for _ in range(_DRAWS):
        inputs = draw_inputs(program, choices, rng)
        variant = _solve(program, inputs, limits) if inputs else None
        if variant is not None:
            return variant
    raise RefusalError("no numbers were found that keep the problem's properties")


def _solve(program: Program, inputs: Mapping[int, Fraction], limits: Limits) -> Variant | None:
    """The variant for these inputs, None when a value loses a property that it had."""
    results: list[Fraction] = []
    traces: list[list[Fraction]] = []
    for line in program.lines:
        trace = values(line.node, _new_literals(line, inputs, results))
        if not _keeps_properties(line.trace, trace):
            return None
        if limits.max_result is not None and trace[-1] > limits.max_result:
            return None
        traces.append(trace)
        results.append(trace[-1])
    written = _write_problem(program, inputs, results)
    if written is None or not _reads_back(program, inputs, written):
        return None
    return _describe(program, traces, written)


def _new_literals(
    line: Line, inputs: Mapping[int, Fraction], results: Sequence[Fraction]
) -> dict[int, Fraction]:
    return {index: _value(origin, inputs, results) for index, origin in line.origins.items()}


def _value(origin: Origin, inputs: Mapping[int, Fraction], results: Sequence[Fraction]) -> Fraction:
    known = inputs[origin.index] if origin.source == "input" else results[origin.index]
    return known * origin.scale


def _keeps_properties(old: Sequence[Fraction], new: Sequence[Fraction]) -> bool:
    """Whether whole stays whole, zero stays zero, and each value on its side of zero and one."""
    return all(
        (a.denominator != 1 or b.denominator == 1)
        and b >= 0
        and (a > 0) == (b > 0)
        and (a < 1) == (b < 1)
        and (a == 1 or b != 1)
        for a, b in zip(old, new, strict=True)
    )


def _write_problem(
    program: Program, inputs: Mapping[int, Fraction], results: Sequence[Fraction]
) -> Problem | None:
    """The problem in its new numbers, None when one does not fit the way it was written."""
    parent = program.problem
    text_edits = [
        (item.start, item.end, format_like(item.text, inputs[index]))
        for index, item in enumerate(program.numerals)
        if index in inputs
    ]
    solution_edits = [
        (item.start, item.end, format_like(item.text, _value(item.origin, inputs, results)))
        for item in program.mentions
        if item.origin is not None
    ]
    for line, result in zip(program.lines, results, strict=True):
        written = _write_line(line, _new_literals(line, inputs, results), result)
        solution_edits.append((line.start, line.end, written))
    text, solution = (
        rewrite(parent.text, text_edits),
        rewrite(parent.solution or "", solution_edits),
    )
    gold = format_like(parent.gold, results[-1])
    if text is None or solution is None or gold is None:
        return None
    return Problem(parent.prompt_id, text, gold, solution, parent.answer_type)


def _write_line(line: Line, new: Mapping[int, Fraction], result: Fraction) -> str | None:
    texts = {
        literal.index: format_like(literal.text, new[literal.index])
        for literal in literals(line.node)
        if literal.index in new
    }
    written = format_like(line.result_text, result)
    known = {index: text for index, text in texts.items() if text is not None}
    if written is None or len(known) < len(texts):
        return None
    return f"<<{write(line.node, known)}={written}>>"


def _reads_back(program: Program, inputs: Mapping[int, Fraction], new: Problem) -> bool:
    """Whether the written variant, read from its text alone, is the program in its new numbers."""
    numerals = find_numerals(new.text)
    expected = [inputs.get(index, item.value) for index, item in enumerate(program.numerals)]
    if numerals is None or [item.value for item in numerals] != expected:
        return False
    lines = parse_lines(new.solution or "")
    results = [line.result for line in lines]
    for old, line in zip(program.lines, lines, strict=True):
        wanted = _new_literals(old, inputs, results)
        for before, after in zip(literals(old.node), literals(line.node), strict=True):
            if after.value != wanted.get(before.index, before.value):
                return False
    return number_value(new.gold) == results[-1]


def _describe(program: Program, traces: Sequence[Sequence[Fraction]], new: Problem) -> Variant:
    nodes = [line.node for line in program.lines]
    return Variant(
        prompt_id=new.prompt_id,
        variant_id=problem_id(new.text),
        kind=KIND,
        text=new.text,
        gold=new.gold,
        solution=new.solution or "",
        gold_origin=f"recomputed from {len(nodes)} calculator lines",
        answer_type=new.answer_type,
        complexity_before=complexity(nodes, [line.trace for line in program.lines]),
        complexity_after=complexity(nodes, traces),
        checks=_CHECKS,
    )
