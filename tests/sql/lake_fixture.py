"""A small lake that keeps every contract: rows by node and table, written as Parquet on demand.

A test changes rows in place and writes the lake; each audit must then find what was changed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from grpo_core.store.catalog import Catalog, CatalogEntry, DamagedEntry, RunArtifact
from grpo_core.store.ref_parts import SCHEMA as REF_LOGPROBS
from grpo_core.store.schemas import TABLES

Row = dict[str, Any]

STAGES = {
    "prompts": "ingest",
    "samples": "prefilter",
    "verdicts": "prefilter",
    "bands": "prefilter",
    "variants": "variants",
    "ref_logp": "ref-logp",
    "train": "train",
    "eval_samples": "evaluate",
    "eval_verdicts": "evaluate",
}
WEIGHTS = {"unsolved": 0.1, "hard": 1.0, "medium": 0.5, "easy": 0.2, "solved": 0.0, "unknown": 0.5}
UNDECIDED = ("timeout", "error", "gold_unparseable")


def digest(*parts: object) -> str:
    return sha256("/".join(map(str, parts)).encode()).hexdigest()


@dataclass
class LakeFixture:
    """Node label -> table -> rows of one run."""

    run: str = "tiny"
    nodes: dict[str, dict[str, list[Row]]] = field(default_factory=dict)
    damaged: list[DamagedEntry] = field(default_factory=list)
    written: dict[tuple[str, str], tuple[Path, ...]] = field(default_factory=dict)
    ref_rows: list[Row] = field(default_factory=list)
    ref_fingerprint: str = "fingerprint"
    has_older_cache: bool = False

    def rows(self, label: str, table: str) -> list[Row]:
        return self.nodes[label][table]

    def all_rows(self, table: str) -> Iterator[Row]:
        for tables in self.nodes.values():
            yield from tables.get(table, [])

    def content(self, label: str) -> str:
        """Content digest of the artefact of a node."""
        return digest(self.run, label, "content")

    def key(self, label: str) -> str:
        return digest(self.run, label)

    def write(self, directory: Path, *, like: "LakeFixture | None" = None) -> Catalog:
        """Write every table as Parquet and return the catalog.

        Tables whose rows are those of `like`, which was written before, keep its files.
        """
        entries, used = [], []
        for label, tables in self.nodes.items():
            kind = label.split("/")[0]
            key, content = self.key(label), self.content(label)
            files = {}
            for name, rows in tables.items():
                if like is not None and rows == like.nodes[label][name]:
                    files[name] = like.written[label, name]
                else:
                    files[name] = tuple(write_parts(directory / label / name, name, rows))
            self.written |= {(label, name): paths for name, paths in files.items()}
            reference = self.ref_fingerprint if kind == "train" else ""
            older = self.has_older_cache and kind == "train"
            entries.append(
                CatalogEntry(kind, STAGES[kind], key, content, True, files, reference, older)
            )
            used.append(self._used(label, kind, key, content))
        return Catalog(
            tuple(entries), tuple(self.damaged), tuple(used), {}, (self._write_cache(directory),)
        )

    def _write_cache(self, directory: Path) -> Path:
        path = directory / "ref_logprobs" / "fingerprint" / "part-00000000-0.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(self.ref_rows, REF_LOGPROBS), path)
        return path

    def _used(self, label: str, kind: str, key: str, content: str) -> RunArtifact:
        timings = self.nodes[label]["timings"]
        return RunArtifact(
            run=self.run,
            attempt=1,
            stage=STAGES[kind],
            label=label,
            kind=kind,
            phase=phase_of(label),
            key=key,
            content=content,
            state="Computed",
            seconds=sum(row["seconds"] for row in timings),
            tokens=sum(row["tokens"] for row in timings),
            finished_at=f"2026-01-01T00:{len(label):02d}:00.000+00:00",
        )


def phase_of(label: str) -> int:
    _, _, suffix = label.partition("/")
    return 0 if suffix == "base" else int(suffix) if suffix else -1


def write_parts(
    directory: Path, table: str, rows: list[Row], rows_per_part: int = 10_000
) -> Iterator[Path]:
    directory.mkdir(parents=True, exist_ok=True)
    whole = pa.Table.from_pylist(rows, TABLES[table].schema)
    for part, start in enumerate(range(0, max(len(rows), 1), rows_per_part)):
        path = directory / f"part-{part:05d}.parquet"
        pq.write_table(whole.slice(start, rows_per_part), path)
        yield path


def make_lake(
    *,
    run: str = "tiny",
    num_train: int = 24,
    num_test: int = 10,
    samples_per_prompt: int = 8,
    group_size: int = 4,
    groups_per_batch: int = 6,
    budgets: tuple[int, ...] = (24, 40),
    batches_per_phase: int = 2,
    updates: int = 2,
    seed: int = 0,
    sample_tokens: int = 16,
    rollout_tokens: int = 16,
) -> LakeFixture:
    """A run with prompts, prefilter, variants, receipts, phases and evaluations."""
    maker = _Maker(np.random.default_rng(seed), group_size)
    maker.mean_tokens = sample_tokens
    lake = LakeFixture(run)
    prompts = maker.prompts(num_train, num_test)
    train = [row for row in prompts if row["split"] == "train" and not row["duplicate_of"]]
    test = [row for row in prompts if row["split"] == "test"]
    lake.nodes["prompts"] = {"prompts": prompts}
    samples, verdicts = maker.sampled(train, samples_per_prompt, budgets[0], 0.0)
    lake.nodes["samples"] = {"samples": samples}
    lake.nodes["verdicts"] = {"verdicts": verdicts}
    lake.nodes["bands/0"] = {"bands": maker.bands(samples, verdicts, 0)}
    lake.nodes["variants"] = {"variants": maker.variants(train)}
    lake.nodes["ref_logp"] = {"ref_receipts": maker.receipts(samples[:6])}
    step = 1
    maker.mean_tokens = rollout_tokens
    for phase, budget in enumerate(budgets, start=1):
        rollouts: list[Row] = []
        steps: list[Row] = []
        for batch in range(batches_per_phase):
            rows = maker.rollouts(train, phase, step, budget, groups_per_batch, updates)
            rollouts += rows
            steps += maker.steps(rows, phase, step, batch, budget, updates)
            step += updates
        steps[-1]["validation_pass_at_1"] = 0.2 + 0.02 * step
        event = {
            "phase": phase,
            "step": steps[0]["step"],
            "event_index": 0,
            "kind": "learning_rate_warm",
            "before": 0.0,
            "after": 1e-3,
            "reason": "warm-up finished",
        }
        lake.nodes[f"train/{phase}"] = {
            "rollouts": rollouts,
            "steps": steps,
            "events": [event],
            "ref_reads": maker.reads(steps),
        }
        lake.ref_rows += [maker.cached(row) for row in rollouts]
        before = lake.rows(f"bands/{phase - 1}", "bands")
        lake.nodes[f"bands/{phase}"] = {"bands": [{**row, "phase": phase} for row in before]}
    maker.mean_tokens = sample_tokens
    for phase in range(len(budgets) + 1):
        label = str(phase) if phase else "base"
        evaluated, graded = maker.sampled(test, samples_per_prompt, budgets[-1], 1.1 * phase)
        for row in (*evaluated, *graded):
            row["checkpoint"] = f"checkpoint-{label}"
        lake.nodes[f"eval_samples/{label}"] = {"eval_samples": evaluated}
        lake.nodes[f"eval_verdicts/{label}"] = {"eval_verdicts": graded}
    for tables in lake.nodes.values():
        tables["timings"] = [maker.timing(tables)]
    return lake


class _Maker:
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

    def reads(self, steps: list[Row]) -> list[Row]:
        return [
            {
                "phase": row["phase"],
                "step": row["step"],
                "origin": origin,
                "num_rows": row["num_rollouts"] // 2,
                "num_tokens": row["num_live_tokens"] // 2,
                "seconds": 0.25,
            }
            for row in steps
            for origin in ("scored", "prefilter")
        ]

    def cached(self, rollout: Row) -> Row:
        old = np.asarray(rollout["old_logprobs"], np.float32)
        values = (old.astype(np.float64) - 0.1 / max(old.size, 1)).astype(np.float32)
        fields = logprob_fields("ref", values)
        return {
            "row_key": rollout["ref_row_key"],
            "num_completion_tokens": old.size,
            "logprobs": fields["ref_logprobs"],
            "logprob_sum": fields["ref_logprob_sum"],
            "logprob_min": fields["ref_logprob_min"],
            "logprob_max": fields["ref_logprob_max"],
            "logprob_nonfinite": 0,
            "scored_by": "tiny 1 train/1 0",
        }

    def rollouts(
        self, train: list[Row], phase: int, step: int, budget: int, groups: int, updates: int
    ) -> list[Row]:
        chosen = self.rng.choice(len(train), size=groups, replace=False)
        rows = []
        for group, index in enumerate(chosen.tolist()):
            rows += self.group(train[index]["prompt_id"], phase, step, group, budget, updates)
        for update in range(updates):
            live = [row for row in rows if row["update_step"] == step + update]
            tokens = sum(row["num_completion_tokens"] for row in live)
            for row in live:
                row["loss_token_weight"] = 1 / tokens
        return rows

    def group(
        self, prompt_id: str, phase: int, step: int, group: int, budget: int, updates: int
    ) -> list[Row]:
        rows = []
        for index in range(self.group_size):
            completion, verdict = self.completion(prompt_id, budget, 0.15 * step)
            overlong = -0.5 if completion["finish_reason"] == "length" else 0.0
            raw = verdict["reward_raw"]
            old = np.asarray(completion["sampling_logprobs"], np.float32)
            rows.append(
                {
                    "phase": phase,
                    "step": step,
                    "group": group,
                    "sample_index": index,
                    "prompt_id": prompt_id,
                    "variant_id": None,
                    "suffix_id": None,
                    "origin": "sampled",
                    **completion,
                    **verdict,
                    **logprob_fields("old", old),
                    "ref_row_key": digest(prompt_id, step, index),
                    "ref_logprob_sum": float(old.sum()) - 0.1,
                    "reward_graded": None,
                    "reward_base": raw,
                    "reward_overlong": overlong,
                    "reward_repetition": 0.0,
                    "reward_format": 0.0,
                    "reward_language": 0.0,
                    "reward_length": 0.0,
                    "reward_kl": 0.0,
                    "reward": None if raw is None else raw + overlong,
                }
            )
        self.decide(rows, step + group % updates)
        return rows

    def decide(self, rows: list[Row], update_step: int) -> None:
        """Advantages with the sample standard deviation, and what is dropped."""
        raw = [row["reward_raw"] for row in rows if row["reward_raw"] is not None]
        shaped = np.array([row["reward"] for row in rows if row["reward"] is not None])
        is_live = len(raw) >= 2 and min(raw) < max(raw)
        deviation = shaped.std(ddof=1) if len(shaped) > 1 else 0.0
        for row in rows:
            is_null = row["reward_raw"] is None
            centred = 0.0 if is_null or len(raw) < 2 else row["reward"] - shaped.mean()
            reason = "null_reward" if is_null else None if is_live else "zero_variance"
            row |= {
                "advantage": float(centred / (deviation + 1e-6)),
                "drop_reason": reason,
                "update_step": None if reason else update_step,
                "loss_token_weight": 0.0,
            }

    def steps(
        self, rows: list[Row], phase: int, step: int, batch: int, budget: int, updates: int
    ) -> list[Row]:
        generated = sum(row["num_completion_tokens"] for row in rows)
        live = [row for row in rows if row["drop_reason"] is None]
        live_tokens = sum(row["num_completion_tokens"] for row in live)
        cut = sum(row["finish_reason"] == "length" for row in rows)
        raw = [row["reward_raw"] for row in rows if row["reward_raw"] is not None]
        shared = {
            "phase": phase,
            "rollout_batch": batch,
            "max_completion_tokens": budget,
            "beta": 0.04,
            "learning_rate": 1e-3,
            "temperature": 1.0,
            "reward_mean": float(np.mean([r["reward"] for r in rows if r["reward"] is not None])),
            "reward_raw_mean": float(np.mean(raw)),
            "zero_variance_fraction": 0.25,
            "solved_group_fraction": 0.15,
            "unsolved_group_fraction": 0.1,
            "truncation_rate": cut / len(rows),
            "completion_tokens_mean": generated / len(rows),
            "num_rollouts": len(rows),
            "num_live_rollouts": len(live),
            "num_live_tokens": live_tokens,
            "effective_token_fraction": live_tokens / generated,
            "ref_cache_hit_rate": 0.5,
            "validation_pass_at_1": None,
        }
        return [
            shared | self.update(step + update, generated if update == 0 else 0)
            for update in range(updates)
        ]

    def update(self, step: int, generated: int) -> Row:
        noise = float(self.rng.normal(0, 0.02))
        return {
            "step": step,
            "num_generated_tokens": generated,
            "loss": -0.01 + noise,
            "policy_loss": -0.011 + noise,
            "kl_loss": 0.001,
            "grad_norm": 0.6 + abs(noise),
            "clip_fraction": 0.06,
            "clip_fraction_low": 0.02,
            "clip_fraction_high": 0.04,
            "importance_ratio_mean": 1.0 + noise / 10,
            "importance_ratio_max": 1.9,
            "clip_fraction_dual": 0.0,
            "clip_fraction_positive": 0.04,
            "clip_fraction_negative": 0.02,
            "importance_ratio_min": 0.6,
            "ess": 0.95,
            "old_kl_k3": 0.001,
            "sampler_ess": 0.99,
            "sampler_kl_k3": 0.0005,
            "sampler_missing_token_fraction": 0.0,
            "corrected_away_token_fraction": 0.0,
            "advantage_token_fraction": 1.0,
            "tail_token_fraction": 0.0,
            "ref_kl_k1": 0.002 * step,
            "ref_kl_k3": 0.0021 * step,
            "policy_entropy_nats": 1.2 * 0.99**step,
            "sampling_entropy_nats": 1.2 * 0.99**step,
        }

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
