"""The shipped problem sets: three splits of JSON Lines in GSM8K format.

No two rows of all splits share a story skeleton with the same numbers, so they differ by more than
names and things.
"""

import json
import os
import random
import unicodedata
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType

from grpo_core.tiny.problems import Problem, draw_problem

SPLIT_SIZES: Mapping[str, int] = MappingProxyType({"train": 1200, "validation": 240, "test": 360})


def normalised(question: str) -> str:
    """A question by which texts are compared: NFC, case-folded, single spaces."""
    return " ".join(unicodedata.normalize("NFC", question).casefold().split())


def draw_splits(seed: int) -> dict[str, list[Problem]]:
    """The problems of each split; a function of the seed."""
    seen: set[object] = set()
    splits: dict[str, list[Problem]] = {}
    for split, size in SPLIT_SIZES.items():
        rng = random.Random(f"{seed}/{split}")
        splits[split] = []
        while len(splits[split]) < size:
            problem = draw_unseen(rng, seen)
            seen.add(problem.signature)
            splits[split].append(problem)
    return splits


def draw_unseen(rng: random.Random, seen: Collection[object]) -> Problem:
    """A problem whose signature is not in `seen`."""
    while True:
        problem = draw_problem(rng)
        if problem.signature not in seen:
            return problem


def to_jsonl(problems: list[Problem]) -> str:
    """The problems as JSON Lines with the columns `question` and `answer`."""
    rows = ({"question": problem.question, "answer": problem.answer} for problem in problems)
    return "".join(json.dumps(row) + "\n" for row in rows)


def write_splits(directory: Path, seed: int) -> dict[str, int]:
    """Write `{split}.jsonl` for every split; split -> number of rows."""
    directory.mkdir(parents=True, exist_ok=True)
    splits = draw_splits(seed)
    for split, problems in splits.items():
        unfinished = directory / f".{split}.jsonl"
        unfinished.write_text(to_jsonl(problems), encoding="utf-8")
        os.replace(unfinished, directory / f"{split}.jsonl")
    return {split: len(problems) for split, problems in splits.items()}
