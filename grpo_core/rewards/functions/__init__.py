"""Reward functions of the user's, named by import path and run in processes that can be killed.

A function takes one completion and its problem, or a batch of both; the names of its parameters
say which:

```python
def reward(completion: str, problem: dict) -> Verdict | float | None: ...
def reward(completions: list[str], problems: list[dict]) -> list[Verdict | float | None]: ...
```
"""
