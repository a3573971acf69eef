"""Agreement with labelled completions of real models.

    python -m benchmarks.agreement example_model_solutions.jsonl

The file is grade_school_math/data/example_model_solutions.jsonl of
https://github.com/openai/grade-school-math (MIT licence): the 1,319 test questions of GSM8K, with
the completions of four models and a flag each. Their marker `A:` is taken as `####`. Prints the
agreement and every disagreement with the verifier's reason.
"""

import json
import sys
from pathlib import Path

from grpo_core.rewards import VerifierPool

MODELS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")


def main() -> None:
    rows = [json.loads(line) for line in Path(sys.argv[1]).read_text("utf-8").splitlines()]
    cases = [
        (row[model]["solution"].replace("A:", "####"), row["ground_truth"].replace("A:", "####"))
        for row in rows
        for model in MODELS
    ]
    flags = [bool(row[model]["is_correct"]) for row in rows for model in MODELS]
    with VerifierPool() as pool:
        verdicts = pool.grade_batch([(text, gold, None) for text, gold in cases])
    wrong = 0
    for (text, gold), flag, verdict in zip(cases, flags, verdicts, strict=True):
        if (verdict.reward_raw == 1.0) is not flag:
            wrong += 1
            ends = text[-60:], gold[-20:]
            print(f"flag {flag}, verdict {verdict.label} ({verdict.reason}): {ends}")
    print(f"{len(cases):,} completions, {sum(flags):,} flagged correct, {wrong} disagreements")


if __name__ == "__main__":
    main()
