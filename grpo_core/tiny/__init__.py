"""The tiny profile: word problems and the warm start that made `data/models/tiny`.

`python -m grpo_core.tiny data` writes the problem sets, `python -m grpo_core.tiny model` trains the
model. Both are functions of their seed.
"""
