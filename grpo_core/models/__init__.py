"""Policies: loading, rendering prompts, scoring tokens. Importing this loads no torch."""
