"""Rows of the small lake's training phases: rollouts, steps, reads of the reference cache."""

import numpy as np
from lake_rows import Row, SampleRows, digest, logprob_fields


class RowMaker(SampleRows):
    """All rows of a run."""

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
