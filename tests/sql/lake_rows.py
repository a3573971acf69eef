"""Rows of the small lake: prompts, samples, verdicts, bands, variants, receipts."""

from hashlib import sha256
from typing import Any

import numpy as np

Row = dict[str, Any]

WEIGHTS = {"unsolved": 0.1, "hard": 1.0, "medium": 0.5, "easy": 0.2, "solved": 0.0, "unknown": 0.5}
UNDECIDED = ("timeout", "error", "gold_unparseable")


def digest(*parts: object) -> str:
    return sha256("/".join(map(str, parts)).encode()).hexdigest()


class SampleRows:
    """Prompts, samples and what is made of them before the first phase.

    Args:
        rng: Draws everything.
        group_size: Rollouts of a group.
    """

    def __init__(self, rng: np.random.Generator, group_size: int) -> None:
        self.rng = rng
        self.group_size = group_size
        self.difficulty: dict[str, float] = {}
        self.mean_tokens = 16

    def prompts(self, num_train: int, num_test: int) -> list[Row]:
        splits = ["train"] * num_train + ["validation"] * 4 + ["test"] * num_test
        rows = []
        for number, split in enumerate(splits):
            a, b = int(self.rng.integers(2, 90)), number + 3
            text = f"Ana has {a} apples & buys {b} more. How many <apples> are there?"
            prompt_id = digest(text)[:16]
            self.difficulty[prompt_id] = float(self.rng.normal(0.3, 2.2))
            rows.append(
                {
                    "prompt_id": prompt_id,
                    "source": f"{split}.jsonl",
                    "row_number": number,
                    "split": split,
                    "text": text,
                    "gold": str(a + b),
                    "solution": f"<<{a}+{b}={a + b}>>",
                    "answer_type": None,
                    "verifier": None,
                    "tests": None,
                    "data_source": None,
                    "quarantine_reason": None,
                    "duplicate_of": None,
                }
            )
        copy = {**rows[0], "row_number": 900, "duplicate_of": rows[0]["prompt_id"]}
        broken = dict.fromkeys(rows[0]) | {
            "source": "train.jsonl",
            "row_number": 901,
            "quarantine_reason": "missing_gold: field 'answer' is absent",
        }
        return [*rows, copy, broken]

    def variants(self, train: list[Row]) -> list[Row]:
        return [
            {
                "prompt_id": row["prompt_id"],
                "variant_id": digest(row["prompt_id"], "variant")[:16],
                "kind": "number_substitution",
                "text": row["text"].replace("Ana has", "Ana has 1"),
                "gold": row["gold"] + "1",
                "solution": "",
                "gold_origin": "calculator",
                "answer_type": None,
                "complexity_before": 2.0,
                "complexity_after": 2.0,
                "checks": ["positive", "integer"],
            }
            for row in train[::3]
        ]

    def completion(self, prompt_id: str, budget: int, skill: float) -> tuple[Row, Row]:
        """Sampling fields and verdict fields of one completion."""
        chance = 1 / (1 + np.exp(self.difficulty[prompt_id] - skill))
        centre = self.mean_tokens + 5 * self.difficulty[prompt_id]
        length = int(np.clip(self.rng.normal(centre, 7), 3, 5 * self.mean_tokens + 10))
        is_cut = length > budget
        length = min(length, budget)
        logprobs = -self.rng.exponential(0.4, length).astype(np.float32)
        label = "correct" if self.rng.random() < chance and not is_cut else "wrong"
        label = "unparseable" if is_cut else label
        label = "timeout" if self.rng.random() < 0.02 else label
        completion = {
            "policy": "base@0",
            "prompt_token_ids": [1, 2, 3],
            "num_prompt_tokens": 3,
            "completion_token_ids": self.rng.integers(5, 400, length).tolist(),
            "num_completion_tokens": length,
            "text": f"I add them <b>up</b> & get {'more ' * (length // 3)}#### {length}",
            "temperature": 1.0,
            "max_completion_tokens": budget,
            "finish_reason": "length" if is_cut else "stop",
            **logprob_fields("sampling", logprobs),
        }
        verdict = {
            "label": label,
            "extracted": None if is_cut else str(length),
            "candidates": [] if is_cut else [str(length)],
            "reason": "truncated" if is_cut else "compared as numbers",
            "reward_raw": None if label in UNDECIDED else float(label == "correct"),
            "verifier_version": 1,
            "verifier": "math",
            "confidence": None,
            "share_passed": None,
            "grading_seconds": 1e-4,
        }
        return completion, verdict

    def sampled(
        self, problems: list[Row], num_samples: int, budget: int, skill: float
    ) -> tuple[list[Row], list[Row]]:
        samples, verdicts = [], []
        for row in problems:
            for index in range(num_samples):
                identity = {"prompt_id": row["prompt_id"], "sample_index": index}
                completion, verdict = self.completion(row["prompt_id"], budget, skill)
                samples.append(identity | completion)
                verdicts.append(identity | verdict)
        return samples, verdicts

    def bands(self, samples: list[Row], verdicts: list[Row], phase: int) -> list[Row]:
        by_prompt: dict[str, list[tuple[Row, Row]]] = {}
        for sample, verdict in zip(samples, verdicts, strict=True):
            by_prompt.setdefault(sample["prompt_id"], []).append((sample, verdict))
        rows = []
        for prompt_id, pairs in by_prompt.items():
            labels = [verdict["label"] for _, verdict in pairs]
            correct, null = labels.count("correct"), sum(name in UNDECIDED for name in labels)
            decided = len(labels) - null
            band = band_of(correct, decided)
            rows.append(
                {
                    "prompt_id": prompt_id,
                    "phase": phase,
                    "n": len(labels),
                    "num_correct": correct,
                    "num_wrong": labels.count("wrong"),
                    "num_unparseable": labels.count("unparseable"),
                    "num_hedged": labels.count("hedged"),
                    "num_null": null,
                    "num_truncated": sum(s["finish_reason"] == "length" for s, _ in pairs),
                    "pass_rate": correct / decided if decided else None,
                    "pass_rate_low": 0.0 if decided else None,
                    "pass_rate_high": 1.0 if decided else None,
                    "band": band,
                    "weight": WEIGHTS[band],
                    "informative_group_rate": 0.5 if decided else None,
                    "group_size": self.group_size,
                }
            )
        return rows

    def receipts(self, samples: list[Row]) -> list[Row]:
        return [
            {
                "row_key": digest(row["prompt_id"], row["sample_index"]),
                "prompt_id": row["prompt_id"],
                "sample_index": row["sample_index"],
                "fingerprint": "reference",
                "num_completion_tokens": row["num_completion_tokens"],
                "ref_logprob_sum": row["sampling_logprob_sum"],
            }
            for row in samples
        ]

    def timing(self, tables: dict[str, list[Row]]) -> Row:
        rows = [row for table in tables.values() for row in table]
        return {
            "part": "sample",
            "seconds": 0.5 + 0.01 * len(rows),
            "tokens": sum(row.get("num_completion_tokens", 0) for row in rows),
            "recorded_at": np.datetime64("2026-01-01T00:00:00", "us").item(),
            "host": "box",
        }


def band_of(correct: int, decided: int) -> str:
    if decided == 0:
        return "unknown"
    if correct in (0, decided):
        return "solved" if correct else "unsolved"
    rate = correct / decided
    return "hard" if rate <= 0.3 else "medium" if rate <= 0.5 else "easy"


def logprob_fields(prefix: str, values: np.ndarray) -> Row:
    """The list and its scalars, as the schemas want them."""
    values = values.astype(np.float32)
    finite = np.isfinite(values)
    return {
        f"{prefix}_logprobs": values.tolist(),
        f"{prefix}_logprob_sum": float(values.astype(np.float64).sum()),
        f"{prefix}_logprob_min": float(values.min()),
        f"{prefix}_logprob_max": float(values.max()),
        f"{prefix}_logprob_nonfinite": int((~finite).sum()),
    }
