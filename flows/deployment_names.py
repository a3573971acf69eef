"""What the command line must know of the deployments without importing prefect."""

FLOW_NAME = "grpo"
WORK_POOL = "grpo"
"""The work pool of prefect.yaml."""
RUNS_AT_A_TIME = 4
"""Flow runs that one runner executes at the same time."""
SKIPPED = "Skipped"
"""State of a flow run that a schedule started while its run's name was in use: it did nothing."""
