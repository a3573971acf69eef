"""GRPO post-training without an orchestrator: data, rewards, objective, training, store, audits."""
