"""Prefect flows, the local server and runner, and the `grpo` command."""
