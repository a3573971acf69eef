"""What is asked of Prefect to keep flow runs of schedules that it drops at every change of one."""

from datetime import datetime
from typing import Any

_KEY = "scheduled "
"""How Prefect's key of a flow run that a schedule made begins; a copy made in the UI has none."""


def is_of_schedule(idempotency_key: str | None) -> bool:
    """Whether a schedule made the flow run with this key, planned again or not."""
    return (idempotency_key or "").startswith(_KEY)


def waiting_and_due(deployment_id: str, moment: datetime) -> dict[str, Any]:
    """The question for flow runs of a deployment that wait although they are due."""
    return {
        "flow_runs": {
            "deployment_id": {"any_": [deployment_id]},
            "state": {"type": {"any_": ["SCHEDULED"]}},
            "next_scheduled_start_time": {"before_": moment.isoformat()},
        },
        "sort": "ID_DESC",
        "limit": 200,
    }


def made_anew(run: dict[str, Any]) -> dict[str, Any]:
    """The request that makes a dropped flow run of a schedule anew, under its own key."""
    body = {name: run[name] for name in ("name", "parameters", "tags", "idempotency_key")}
    when = {"scheduled_time": run["next_scheduled_start_time"]}
    body["state"] = {"type": "SCHEDULED", "state_details": when}
    body["enforce_parameter_schema"] = False  # what is wrong with them, the run will say
    return body
