"""The GRPO loop: rollout batches, updates, checkpoints, resume, fork."""
