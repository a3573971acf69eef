"""Prefect events that automations can act on.

```
grpo.alert.entropy        a step's policy entropy is below execution.alerts.entropy_below_nats
grpo.alert.kl             a step's KL to the reference is above execution.alerts.kl_above_nats
grpo.alert.non-finite     NaN or infinity in loss or gradient; the run has failed
grpo.alert.audit-failed   a blocking audit found rows; the run has failed
grpo.alert.stalled        no unit of work was finished in time; the run has failed
grpo.run.completed        a run has completed
```

The resource of each is `grpo.run.<name>`; the flow run is a related resource, so that actions such
as cancelling find it.
"""

from collections.abc import Mapping
from typing import Any

from prefect.events import emit_event

from grpo_core.errors import AuditFailedError, GrpoError, NonFiniteError, StalledError

_FATAL: dict[type[GrpoError], str] = {
    NonFiniteError: "non-finite",
    AuditFailedError: "audit-failed",
    StalledError: "stalled",
}


def emit_alert(run: str, event: Mapping[str, Any]) -> None:
    """Pass on an `alert` event of a run's progress file."""
    payload = {name: event[name] for name in ("label", "step", "value", "threshold")}
    emit_event(f"grpo.alert.{event['kind']}", resource=run_resource(run), payload=payload)


def emit_fatal(run: str, error: GrpoError) -> None:
    """Tell of an error that somebody should look at; other errors are no alerts."""
    for kind, name in _FATAL.items():
        if isinstance(error, kind):
            payload = {"message": error.message, "hint": error.hint}
            emit_event(f"grpo.alert.{name}", resource=run_resource(run), payload=payload)


def emit_completed(run: str, target: str) -> None:
    """Tell that a run has completed, for runs that follow it.

    Args:
        run: Run name.
        target: `full`, or the stages that it covered.
    """
    emit_event("grpo.run.completed", resource=run_resource(run) | {"grpo.target": target})


def run_resource(run: str) -> dict[str, str]:
    """The resource that events of a run are about."""
    return {"prefect.resource.id": f"grpo.run.{run}", "prefect.resource.name": run}
