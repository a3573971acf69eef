"""Automations that `grpo up` makes on the server, once; one that exists is left as it is.

A run whose machine lost power can not say so. Every flow process sends a heartbeat each 30 s; when
nothing at all is heard of a run for three of them, the server itself marks it as crashed.
"""

import hashlib
import json
from typing import Any

from flows.api import ApiClient

CRASH_AUTOMATION = "grpo: mark silent runs as crashed"
SILENT_SECONDS = 95
"""Three heartbeats and a little: a busy machine may be late with one."""


def crash_automation() -> dict[str, Any]:
    """Marks a run as crashed when its heartbeats end without a final state."""
    return {
        "name": CRASH_AUTOMATION,
        "enabled": True,
        "trigger": {
            "type": "event",
            "posture": "Proactive",
            "after": ["prefect.flow-run.heartbeat"],
            "expect": ["prefect.flow-run.*"],
            "match": {"prefect.resource.id": "prefect.flow-run.*"},
            "for_each": ["prefect.resource.id"],
            "threshold": 1,
            "within": SILENT_SECONDS,
        },
        "actions": [
            {
                "type": "change-flow-run-state",
                "state": "CRASHED",
                "message": f"nothing was heard of the run for {SILENT_SECONDS} s: its process or "
                "machine is gone; run it again to go on",
            }
        ],
    }


def ensure_automation(client: ApiClient, body: dict[str, Any]) -> bool:
    """Make the automation unless this very one exists; returns whether anything was changed.

    The description holds a digest of the body, so another release of ours replaces its own, and
    what the user changed in the UI besides (switched off, say) stays.
    """
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:12]
    described = body | {"description": f"Made by grpo up ({digest})."}
    found = client.automations().get(body["name"])
    if found is not None and found["description"] == described["description"]:
        return False
    client.save_automation(described, found["id"] if found else None)
    return True
