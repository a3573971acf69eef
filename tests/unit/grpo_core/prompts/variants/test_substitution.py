import ast
import json
import operator
import re
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest

from grpo_core.config.data import VariantsConfig
from grpo_core.errors import ConfigError
from grpo_core.prompts.normalise import problem_id
from grpo_core.prompts.variants import (
    Limits,
    Problem,
    RefusalError,
    Variant,
    attempt,
    build_variants,
    derive_variants,
    generate,
)
from grpo_core.prompts.variants.program import read_program
from grpo_core.seeds import generator
from grpo_core.store.schemas import VARIANTS

SHIPPED = Path(__file__).parents[5] / "data" / "prompts" / "train.jsonl"
KIND = "number_substitution"
CONFIG = VariantsConfig(max_number=10_000, max_result=10**6)


def problem(text: str, solution: str, gold: str) -> Problem:
    return Problem(problem_id(text), text, gold, solution, "number")


CLIPS = problem(
    "Natalia sold clips to 48 friends in April, and then she sold 13 more than in April in May. "
    "How many clips did Natalia sell altogether?",
    "Natalia sold 48 + 13 = <<48+13=61>>61 clips in May.\n"
    "Natalia sold 48 + 61 = <<48+61=109>>109 clips altogether.",
    "109",
)
PEARS = problem(
    "Mia has 13 boxes with 26 pears each. She shares them equally among 169 friends. "
    "How many pears does each friend get?",
    "<<13*26=338>>338\n<<338/169=2>>2 pears",
    "2",
)
COAT = problem(
    "A coat costs $80. Its price falls by 25%, then Ann pays with $97. How much does she get back?",
    "It falls by 80*.25=$<<80*.25=20>>20.\nShe pays 80-20=$<<80-20=60>>60.\n"
    "She gets 97-60=$<<97-60=37>>37 back.",
    "37",
)


def make(parent: Problem, index: int = 0, **limits: int) -> Variant:
    outcome = attempt(parent, KIND, generator(index), Limits(**limits))
    assert isinstance(outcome, Variant), outcome
    return outcome


def numbers(text: str) -> list[int]:
    return [int(item) for item in re.findall(r"\d+", text)]


@pytest.mark.parametrize("index", range(20))
def test_gold_follows_the_numbers_of_the_text(index):
    variant = make(CLIPS, index)
    april, more = numbers(variant.text)
    assert {april, more} != {48, 13}
    assert int(variant.gold) == april + april + more
    assert variant.solution == (
        f"Natalia sold {april} + {more} = <<{april}+{more}={april + more}>>{april + more} clips "
        f"in May.\nNatalia sold {april} + {april + more} = "
        f"<<{april}+{april + more}={variant.gold}>>{variant.gold} clips altogether."
    )


@pytest.mark.parametrize("index", range(20))
def test_percentages_round_numbers_and_size_are_kept(index):
    variant = make(COAT, index)
    price, percent, paid = numbers(variant.text)
    assert int(variant.gold) * 100 == paid * 100 - price * (100 - percent)
    assert price % 10 == 0
    assert percent % 5 == 0
    assert percent < 100
    assert all(10 <= number < 100 for number in (price, percent, paid))
    assert paid > price


def test_variant_keeps_parent_and_has_an_id_of_its_own():
    variant = make(CLIPS)
    assert variant.prompt_id == CLIPS.prompt_id
    assert variant.variant_id == problem_id(variant.text) != CLIPS.prompt_id
    assert variant.gold_origin == "recomputed from 2 calculator lines"
    assert variant.answer_type == "number"
    assert variant.complexity_before == 8.0
    assert "every number has one origin" in variant.checks


def test_limits_are_kept():
    for index in range(10):
        variant = make(CLIPS, index, max_number=60, max_result=100)
        assert max(numbers(variant.text)) <= 60
        assert int(variant.gold) <= 100


REFUSALS = [
    ("no solution", "x has 12 apples.", None, "12", "no calculator lines"),
    ("inexact", "10 shared by 3?", "<<10/3=3.33>>3.33", "3.33", "not exact"),
    ("not arithmetic", "Take 12.", "<<12**2=144>>144", "144", "not plain arithmetic"),
    ("hidden step", "13 a day for 17 days, 6 off", "<<221-6=215>>215", "215", "nothing"),
    ("unused", "13 cats, 17 dogs, 45 hens: pets?", "<<13+17=30>>30", "30", "not used"),
    ("gold elsewhere", "13 and 17?", "<<13+17=30>>30", "31", "not the last result"),
    ("gold in words", "13 and 17?", "<<13+17=30>>30", "30 cats", "not a plain number"),
    ("unknown constant", "A farm has 35 cars.", "<<35*4=140>>140", "140", "nothing"),
    ("glued", "the 5th of 13 and 17", "<<13+17=30>>30", "30", "part of a word"),
    ("rounding", "13 and 17, rounded?", "<<13+17=30>>30", "30", "depend on the numbers"),
    ("scaled", "13 and 17 hundred", "<<13+17=30>>30", "30", "a word scales"),
    ("stale word", "13 and 17?", "ninety <<13+17=30>>30", "30", "spells a number"),
    ("two places", "13 + 17, 30 off 90?", "<<13+17=30>>30\n<<90-30=60>>60", "60", "free input|two"),
    ("unused result", "13 + 17, x 45?", "<<13+17=30>>30\n<<17*45=765>>765", "765", "result is not"),
    ("below zero", "13 less 17, 45 more", "<<13-17+45=41>>41", "41", "below zero"),
]


@pytest.mark.parametrize(
    ("text", "solution", "gold", "reason"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS]
)
def test_doubt_is_refused(text, solution, gold, reason):
    outcome = attempt(Problem("p", text, gold, solution), KIND, generator(0), Limits())
    assert isinstance(outcome, str)
    assert re.search(reason, outcome), outcome


CHANGING = [
    ("one stays", "Each of 1 boxes has 45.", "<<1*45=45>>45", None),
    ("plain numbers", "8 bags of 45 and 90 more", "<<45*8=360>>360\n<<360+90=450>>450", [0]),
    ("nothing odd", "8 bags of 45 and 91 more", "<<45*8=360>>360\n<<360+91=451>>451", [0, 1, 2]),
    ("word of the same value", "2 bags twice over of 45", "<<45*2*2=180>>180", [1]),
    ("week", "7 cats eat 45 grams a week each", "<<7*45=315>>315", [1]),
    ("fact used twice", "4 dogs weigh 45 each", "<<4*45+4=184>>184", [1]),
    ("same number twice", "45 at 17 and 17", "<<17+17+45=79>>79", [0]),
    ("how many are listed", "3 tests: 80, 95 and 71", "<<(80+95+71)/3=82>>82", [1, 2, 3]),
    ("total given", "30 pupils: 13 boys, 17 girls; 57", "<<30+13+17+57=117>>117", [3]),
    ("place", "16 a week for 6 weeks. On the seventh", "<<16*6=96>>96", [0]),
    ("whole in percents", "40% and 60% of 85", "<<.4*85+.6*85=85>>85", None),
    ("parts of percents", "40% and 20% of 85", "<<.4*85+.2*85=51>>51", [2]),
]


@pytest.mark.parametrize(
    ("text", "solution", "changing"), [c[1:] for c in CHANGING], ids=[c[0] for c in CHANGING]
)
def test_only_numbers_with_one_meaning_change(text, solution, changing):
    parent = Problem("p", text, solution.rpartition(">>")[2], solution)
    if changing is None:
        with pytest.raises(RefusalError):
            read_program(parent)
    else:
        assert list(read_program(parent).changing) == changing


def evaluate(expression: str) -> Fraction:
    """The value by Python's own parser, to check ours against."""

    def value(node: ast.AST) -> Fraction:
        if isinstance(node, ast.Constant):
            return Fraction(ast.get_source_segment(expression, node))
        assert isinstance(node, ast.BinOp)
        apply = {
            ast.Add: operator.add,
            ast.Sub: operator.sub,
            ast.Mult: operator.mul,
            ast.Div: operator.truediv,
        }[type(node.op)]
        return apply(value(node.left), value(node.right))

    return value(ast.parse(expression, mode="eval").body)


@pytest.mark.slow
def test_shipped_problems():
    rows = [json.loads(line) for line in SHIPPED.read_text().splitlines()[:200]]
    parents = []
    for row in rows:
        solution, _, gold = row["answer"].rpartition("####")
        parents.append(problem(row["question"], solution.strip(), gold.strip()))
    variants = build_variants(as_table(parents), VariantsConfig(), 0).to_pylist()
    assert len(variants) > 100
    texts = {parent.prompt_id: parent.text for parent in parents}
    for variant in variants:
        lines = re.findall(r"<<(.*?)=(.*?)>>(\d+)", variant["solution"])
        assert all(evaluate(left) == Fraction(right) for left, right, _ in lines)
        assert all(right == shown for _, right, shown in lines)
        assert lines[-1][1] == variant["gold"]
        used = set(numbers(" ".join(left for left, _, _ in lines)))
        assert set(numbers(variant["text"])) <= used
        assert re.sub(r"\d+", "N", variant["text"]) == re.sub(
            r"\d+", "N", texts[variant["prompt_id"]]
        )


def test_no_other_number_fits():
    outcome = attempt(CLIPS, KIND, generator(0), Limits(max_number=5))
    assert outcome == "no other number of the same size is allowed"


def test_generate_leaves_out_what_it_refuses():
    refused = problem("A farm has 35 cars.", "<<35*4=140>>140", "140")
    assert generate(refused, [KIND], generator(0)) == []
    assert len(generate(CLIPS, [KIND], generator(0))) == 1
    with pytest.raises(ConfigError, match="got 'paraphrase'"):
        generate(CLIPS, ["paraphrase"], generator(0))


def as_table(problems: list[Problem]) -> pa.Table:
    names = ("prompt_id", "text", "gold", "solution", "answer_type")
    return pa.Table.from_pylist([{n: getattr(p, n) for n in names} for p in problems])


def test_table_does_not_depend_on_row_order():
    table = build_variants(as_table([CLIPS, PEARS, COAT]), CONFIG, 0)
    assert table.schema.equals(VARIANTS.schema)
    assert table.equals(build_variants(as_table([COAT, CLIPS, PEARS]), CONFIG, 0))
    assert not table.equals(build_variants(as_table([CLIPS, PEARS, COAT]), CONFIG, 1))
    alone = build_variants(as_table([CLIPS]), CONFIG, 0).to_pylist()
    assert alone == [row for row in table.to_pylist() if row["prompt_id"] == CLIPS.prompt_id]


def test_several_variants_differ():
    config = CONFIG.model_copy(update={"per_prompt": 5})
    ids = build_variants(as_table([CLIPS]), config, 0).column("variant_id").to_pylist()
    assert len(set(ids)) == 5


def test_a_variant_never_equals_another_problem():
    first = build_variants(as_table([CLIPS]), CONFIG, 0)
    taken = first.column("variant_id").to_pylist()
    second = build_variants(as_table([CLIPS]), CONFIG, 0, taken_ids=taken)
    assert second.num_rows == 1
    assert second.column("variant_id").to_pylist() != taken


def test_refusals_are_counted():
    empty = derive_variants(as_table([problem("x", "y", "1")]), CONFIG, 0)
    assert empty.table.schema.equals(VARIANTS.schema)
    assert empty.refused == {"the solution has no calculator lines": 1}
    none = derive_variants(as_table([CLIPS]), CONFIG.model_copy(update={"per_prompt": 0}), 0)
    assert (none.table.num_rows, none.refused) == (0, {})
