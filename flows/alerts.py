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

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from prefect.events import emit_event

from grpo_core.errors import AuditFailedError, GrpoError, NonFiniteError, StalledError

ALERT_SECONDS = 30.0
"""How often Prefect hears of one kind of alert in one phase."""

_FATAL: dict[type[GrpoError], str] = {
    NonFiniteError: "non-finite",
    AuditFailedError: "audit-failed",
    StalledError: "stalled",
}


class AlertThrottle:
    """Which alerts Prefect hears of: fast steps would flood its database.

    The first of a kind and phase passes at once, then the latest one every `ALERT_SECONDS`, and at
    the end the last one.

    Args:
        clock: Seconds of a clock that never goes back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._passed: dict[tuple[str, str], float] = {}
        self._held: dict[tuple[str, str], dict[str, Any]] = {}

    def offer(self, event: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Take an `alert` event; returns it if it is to be passed on now, else holds it.

        `left_out` of an event that is passed on counts those of its kind that nobody was told of.
        """
        what = event["label"], event["kind"]
        earlier = self._held.get(what)
        self._held[what] = {**event, "left_out": earlier["left_out"] + 1 if earlier else 0}
        return self._take([what])

    def due(self, *, is_end: bool = False) -> list[dict[str, Any]]:
        """The latest of each kind that was held and is to be passed on now; at the end all are."""
        return self._take(list(self._held), is_end=is_end)

    def _take(self, those: list[tuple[str, str]], *, is_end: bool = False) -> list[dict[str, Any]]:
        now = self._clock()
        taken = [
            what
            for what in those
            if is_end or now - self._passed.get(what, -math.inf) >= ALERT_SECONDS
        ]
        self._passed |= dict.fromkeys(taken, now)
        return [self._held.pop(what) for what in taken]


def emit_alert(run: str, event: Mapping[str, Any]) -> None:
    """Pass on an `alert` event of a run's progress file."""
    payload = {name: event[name] for name in ("label", "step", "value", "threshold", "left_out")}
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
