"""Instruction suffixes: changed instructions that share a prompt's group.

A suffix is appended to the rendered problem during training only; evaluation uses none. Every word
occurs in the tiny model's vocabulary, and its warm start has seen every suffix.
"""

SUFFIXES: dict[str, str] = {
    "steps": "Solve step by step.",
    "equations": "Write an equation for each step.",
    "brief": "Be brief.",
    "check": "Check your work.",
}
"""suffix_id -> instruction text in English."""
