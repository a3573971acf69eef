"""Commands of `grpo`, one module a family; each has `register(app)`."""
