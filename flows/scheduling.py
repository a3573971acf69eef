"""Runs that start by themselves: by the clock (schedules), or after another run (automations)."""

from dataclasses import dataclass
from typing import Any

from flows.api import ApiClient
from flows.automations import ensure_automation
from flows.deployment_names import FLOW_NAME
from flows.request import Request
from grpo_core.errors import ConfigError

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
    """Run the deployment by the clock; a schedule of the same run name is replaced.

    Raises:
        ConfigError: The server can not read the cron expression or the time zone.
    """
    deployment = client.deployment(f"{FLOW_NAME}/{request.target}")
    body = {
        "schedule": {"cron": cron, "timezone": timezone},
        "active": True,
        "parameters": request.parameters(),
        "slug": request.run_name.lower(),
    }
    found = _schedules_of(client, deployment["id"], request.run_name)
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
    found = _schedules_of(client, deployment["id"], run)
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


def keep_schedules(client: ApiClient) -> None:
    """Give a slug to the schedules that have none; to be called before registering.

    Prefect keeps the schedules that a registration does not mention if every one of the deployment
    has a slug, else it drops all of them. The form in the UI asks for no slug.
    """
    for deployment in client.deployments(FLOW_NAME).values():
        for schedule in deployment["schedules"]:
            if not schedule["slug"]:
                body = {"slug": f"schedule-{schedule['id'][:8]}"}
                body["parameters"] = schedule["parameters"]  # left out, they would be emptied
                client.save_schedule(deployment["id"], body, schedule["id"])


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


def _schedules_of(client: ApiClient, deployment_id: str, run: str) -> list[dict[str, Any]]:
    return [s for s in client.schedules(deployment_id) if s["slug"] == run.lower()]


def _by_clock(target: str, schedule: dict[str, Any]) -> Planned:
    times = schedule["schedule"]
    when = f"{times.get('cron', times)} {times.get('timezone') or 'UTC'}"
    parameters = schedule["parameters"] or {}
    return Planned(target, parameters.get("run", ""), when, schedule["active"])


def _after_name(target: str, run: str, other: str) -> str:
    return f"{AFTER_PREFIX}{target} of {run} after {other}"
