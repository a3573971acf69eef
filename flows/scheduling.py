"""Runs that start by themselves: by the clock (schedules), or after another run (automations)."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from flows.api import ApiClient
from flows.automations import ensure_automation
from flows.console import say
from flows.deployment_names import FLOW_NAME
from flows.request import Request, run_name_of
from grpo_core.errors import ConfigError, ServiceError

AFTER_PREFIX = "grpo: "
_TRAINING = ("full", "train")


@dataclass(frozen=True, slots=True)
class Planned:
    """One thing that starts runs.

    Args:
        target: Deployment.
        run: Name of the run.
        when: In words.
        is_active: Whether it is switched on.
    """

    target: str
    run: str
    when: str
    is_active: bool


def schedule_by_clock(client: ApiClient, request: Request, cron: str, timezone: str) -> None:
    """Run the deployment by the clock; what was scheduled here for the same run is replaced.

    Raises:
        ConfigError: The server can not read the cron expression or the time zone.
    """
    deployment = client.deployment(f"{FLOW_NAME}/{request.target}")
    body = {
        "schedule": {"cron": cron, "timezone": timezone},
        "active": True,
        "parameters": request.parameters(),
        "slug": _slug(request.run_name),
    }
    schedules = client.schedules(deployment["id"])
    found = [item for item in schedules if _is_made_here(item, request.run_name)]
    client.save_schedule(deployment["id"], body, found[0]["id"] if found else None)


def schedule_after(client: ApiClient, request: Request, other: str) -> None:
    """Run the deployment each time that training of run `other` has completed.

    Raises:
        ConfigError: It would start itself.
    """
    if request.run_name == other and request.target in _TRAINING:
        raise ConfigError(
            f"{request.target} of run {other!r} after itself would never end",
            hint="give another --run, or schedule evaluate or audit",
        )
    deployment = client.deployment(f"{FLOW_NAME}/{request.target}")
    match = {"prefect.resource.id": f"grpo.run.{other}", "grpo.target": list(_TRAINING)}
    action = {"type": "run-deployment", "source": "selected", "deployment_id": deployment["id"]}
    ensure_automation(
        client,
        {
            "name": _after_name(request.target, request.run_name, other),
            "enabled": True,
            "trigger": {
                "type": "event",
                "posture": "Reactive",
                "expect": ["grpo.run.completed"],
                "match": match,
                "threshold": 1,
                "within": 0,
            },
            "actions": [action | {"parameters": request.parameters()}],
        },
    )


def unschedule(client: ApiClient, target: str, run: str) -> int:
    """Remove what starts `target` for `run` by itself; returns how many things that were."""
    deployment = client.deployment(f"{FLOW_NAME}/{target}")
    schedules = client.schedules(deployment["id"])
    found = [schedule for schedule in schedules if _run_of(schedule) == run]
    for schedule in found:
        client.remove_schedule(deployment["id"], schedule["id"])
    chained = [
        automation
        for name, automation in client.automations().items()
        if name.startswith(_after_name(target, run, ""))
    ]
    for automation in chained:
        client.remove_automation(automation["id"])
    return len(found) + len(chained)


@contextmanager
def kept_schedules(client: ApiClient) -> Iterator[None]:
    """Around a registration: what schedules of our deployments start goes on, before and after.

    Prefect keeps the schedules that a registration does not mention if every one of the deployment
    has a slug, else it drops all of them. The form in the UI asks for no slug, so they get one. The
    flow runs that Prefect drops at every registration are planned again at the end, also when it
    failed half-way.
    """
    began = datetime.now(UTC)
    try:
        _give_slugs(client)
        yield
    except BaseException:
        try:
            _plan_again(client, began)
        except ServiceError as error:  # the first error is the one to be shown
            say(f"what schedules start may be missing for a minute: {error.message}")
        raise
    _plan_again(client, began)


def _give_slugs(client: ApiClient) -> None:
    for deployment in client.deployments(FLOW_NAME).values():
        for schedule in deployment["schedules"]:
            if not schedule["slug"]:
                body = {"slug": f"schedule-{schedule['id'][:8]}"}
                body["parameters"] = schedule["parameters"]  # left out, they would be emptied
                client.save_schedule(deployment["id"], body, schedule["id"])


def _plan_again(client: ApiClient, since: datetime) -> None:
    for deployment in client.deployments(FLOW_NAME).values():
        if deployment["schedules"]:
            client.plan_runs(deployment["id"], since)


def planned(client: ApiClient) -> list[Planned]:
    """Everything that starts runs by itself."""
    found = []
    for target in client.deployment_names(FLOW_NAME):
        for schedule in client.schedules(client.deployment(f"{FLOW_NAME}/{target}")["id"]):
            found.append(_by_clock(target, schedule))
    for name, automation in client.automations().items():
        if name.startswith(AFTER_PREFIX) and " after " in name:
            what, _, other = name.removeprefix(AFTER_PREFIX).partition(" after ")
            target, _, run = what.partition(" of ")
            found.append(Planned(target, run, f"after run {other}", automation["enabled"]))
    return found


def _slug(run: str) -> str:
    """Slug of the schedule of a run; slugs have no capitals, run names may differ in them only."""
    return f"{run.lower()}-{hashlib.sha256(run.encode()).hexdigest()[:8]}"


def _is_made_here(schedule: dict[str, Any], run: str) -> bool:
    """Whether `grpo schedule` made it for the run; slugs were once the name without a digest."""
    slug = schedule["slug"]
    return slug == _slug(run) or (slug == run.lower() and _run_of(schedule) == run)


def _by_clock(target: str, schedule: dict[str, Any]) -> Planned:
    times = schedule["schedule"]
    when = f"{times.get('cron', times)} {times.get('timezone') or 'UTC'}"
    return Planned(target, _run_of(schedule), when, schedule["active"])


def _run_of(schedule: dict[str, Any]) -> str:
    """Run that a schedule works on, whoever made it."""
    return run_name_of(schedule["parameters"] or {})


def _after_name(target: str, run: str, other: str) -> str:
    return f"{AFTER_PREFIX}{target} of {run} after {other}"
