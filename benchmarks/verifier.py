"""Gradings a second: this verifier beside bare math-verify, in one run.

    python -m benchmarks.verifier [--plain 20000] [--symbolic 600] [--poisoned 200]

Three loads: worked solutions of word problems that end in `#### N`; symbolic LaTeX answers, every
pair different; the same with one poisonous answer in a hundred. math-verify gets two processes of
its own (parse both sides, verify, its default five-second alarm), this verifier its pool with two
workers. Both are warmed up. Rates are gradings / wall-clock seconds.
"""

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from grpo_core.rewards import Label, VerifierPool

PROBLEMS = Path(__file__).parents[1] / "data" / "prompts" / "train.jsonl"
PROCESSES = 2
POISON = (r"\sum_{k=1}^{10^9} \frac{1}{k^2+\sin k}", "3")
SHAPES = [
    (r"\frac{{{n}x^2-{n}}}{{x-1}}", r"{n}(x+1)"),
    (r"\sqrt{{{n}}}+\sqrt{{{m}}}", r"\sqrt{{{m}}}+\sqrt{{{n}}}"),
    (r"{n}\sin(2x)", r"{m}\sin x\cos x"),
    (r"(x+{n})^2", r"x^2+{m}x+{n}^2"),
    (r"\frac{{1}}{{{n}}}+\frac{{1}}{{x}}", r"\frac{{x+{n}}}{{{n}x}}"),
    (r"e^{{{n}\ln x}}", r"x^{{{n}}}"),
    (r"\log_2({n}x)", r"\log_2 {n}+\log_2 x"),
    (r"\frac{{{n}}}{{1+\sqrt{{2}}}}", r"{n}(\sqrt{{2}}-1)"),
]
Pair = tuple[str, str]


def worked_solutions(count: int) -> list[Pair]:
    """Completions of two to six lines with calculator marks; every third one is wrong."""
    rows = [json.loads(line) for line in PROBLEMS.read_text("utf-8").splitlines()]
    pairs = []
    for number in range(count):
        row = rows[number % len(rows)]
        steps, _, gold = row["answer"].rpartition("#### ")
        shown = str(int(gold) + (number % 3 == 0))
        opening = f"We are told this much: {row['question']} Let us go step by step.\n"
        pairs.append(
            (f"{opening}First we have {steps}So {number} words later:\n#### {shown}", gold)
        )
    return pairs


def symbolic_answers(count: int) -> list[Pair]:
    """Answers and golds that take algebra; no pair occurs twice, one in eight is wrong."""
    pairs = []
    for number in range(count):
        answer, gold = SHAPES[number % len(SHAPES)]
        n = 2 + number // len(SHAPES)
        m = 2 * n if number % 2 else 2 * n + 1
        pairs.append((answer.format(n=n, m=m), gold.format(n=n, m=m)))
    return pairs


def with_poison(pairs: Sequence[Pair]) -> list[Pair]:
    """One in a hundred is an answer that computer algebra never finishes."""
    return [POISON if number % 100 == 50 else pair for number, pair in enumerate(pairs)]


def boxed(pairs: Sequence[Pair]) -> list[tuple[str, str, None]]:
    return [(rf"Hence \boxed{{{answer}}}.", gold, None) for answer, gold in pairs]


def bare(pair: Pair) -> bool:
    from math_verify import parse, verify

    answer, gold = pair
    return verify(parse(f"${gold}$"), parse(rf"$\boxed{{{answer}}}$"))


def bare_text(pair: Pair) -> bool:
    from math_verify import parse, verify

    answer, gold = pair
    return verify(parse(gold), parse(answer))


def seconds_of(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compare(name: str, pairs: Sequence[Pair], rows: Sequence[tuple], rival: Callable) -> None:
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as processes:
        processes.map(rival, symbolic_answers(8) * 2, chunksize=1)
        theirs = seconds_of(lambda: processes.map(rival, pairs, chunksize=4))
    with VerifierPool(PROCESSES, timeout_seconds=1.0) as pool:
        pool.grade_batch(boxed(symbolic_answers(8)))
        pool.grade_batch(boxed([(r"\int_0^1 x dx", r"\frac12")]))
        graded = []
        ours = seconds_of(lambda: graded.extend(pool.grade_batch(rows)))
    count, right = len(pairs), sum(verdict.label is Label.CORRECT for verdict in graded)
    print(
        f"{name:34} {count:6} {count / theirs:10.0f} {count / ours:10.0f} {theirs / ours:8.1f}"
        f"   {right} correct, {sum(verdict.label is Label.TIMEOUT for verdict in graded)} timeout"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plain", type=int, default=20_000)
    parser.add_argument("--symbolic", type=int, default=600)
    parser.add_argument("--poisoned", type=int, default=200)
    options = parser.parse_args()
    print(f"{'load':34} {'rows':>6} {'math-verify':>10} {'this':>10} {'ratio':>8}   a second")
    plain = worked_solutions(options.plain)
    few = plain[: max(1, options.plain // 20)]
    compare("worked solutions, a twentieth", few, [(*pair, None) for pair in few], bare_text)
    with VerifierPool(PROCESSES) as pool:
        rows = [(text, gold, None) for text, gold in plain]
        seconds = seconds_of(lambda: pool.grade_batch(rows))
        processes = "one process" if not pool.started else f"{PROCESSES} workers"
    rate = len(rows) / seconds
    print(f"{'worked solutions, all':34} {len(rows):6} {'':10} {rate:10.0f}   in {processes}")
    symbolic = symbolic_answers(options.symbolic)
    compare("symbolic LaTeX", symbolic, boxed(symbolic), bare)
    poisoned = with_poison(symbolic_answers(options.poisoned))
    compare("symbolic, one in a hundred poison", poisoned, boxed(poisoned), bare)


if __name__ == "__main__":
    main()
