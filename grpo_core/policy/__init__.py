"""Policies at work: ready to sample and score, and the frozen reference behind its cache."""
