"""Periodic pass@1 on the validation split."""

from collections.abc import Sequence
from dataclasses import dataclass

from grpo_core.config import RunConfig
from grpo_core.policy.runtime import PolicyRuntime, sample_request
from grpo_core.rewards.grader import Grader
from grpo_core.rewards.rows import Problem, grade_rows
from grpo_core.rewards.verdict import Label


@dataclass(frozen=True)
class Validator:
    """Samples the validation problems and grades them.

    Args:
        config: The resolved configuration.
        problems: Validation problems.
        grader: Grades completions.
        max_completion_tokens: Budget, the phase's own.
    """

    config: RunConfig
    problems: Sequence[Problem]
    grader: Grader
    max_completion_tokens: int

    def pass_at_1(self, runtime: PolicyRuntime) -> tuple[float | None, int]:
        """Share of correct samples among decided ones, and the tokens generated for it.

        The share is None when validation is off. The seeds do not depend on the step, so that two
        validations differ by the policy alone.
        """
        count = self.config.train.validation_samples
        if not count or not self.problems:
            return None, 0
        requests = [
            sample_request(
                runtime.renderer.render(problem["text"]),
                (self.config.seed_of("train"), "validate", problem["prompt_id"]),
                num_samples=count,
                temperature=self.config.evaluate.temperature,
                max_completion_tokens=self.max_completion_tokens,
            )
            for problem in self.problems
        ]
        sampled = runtime.sampler.sample(requests)
        texts = [runtime.renderer.decode(c.token_ids) for group in sampled for c in group]
        problems = [problem for problem in self.problems for _ in range(count)]
        verdicts = grade_rows(self.grader, texts, problems)
        decided = [verdict for verdict in verdicts if verdict.reward_raw is not None]
        tokens = sum(len(completion.token_ids) for group in sampled for completion in group)
        passed = sum(verdict.label is Label.CORRECT for verdict in decided)
        share = passed / len(decided) if decided else None
        return share, tokens
