"""What a refusal of the server means, in words that help."""

import http.client
import json
import urllib.error
from typing import Any

from grpo_core.errors import ConfigError, ServiceError


def refusal(error: urllib.error.HTTPError, path: str) -> ConfigError | ServiceError:
    """The error to raise when the server refuses a request to `path`."""
    try:
        answer = json.loads(error.read())
        detail = answer.get("detail") or answer.get("exception_detail") or answer
    except (ValueError, AttributeError, OSError, http.client.HTTPException):  # another program's
        detail = error.reason
    if error.code == 401:
        return ServiceError(
            "the Prefect server asks for a password",
            hint='write api_auth = "user:password" into .grpo/server.toml',
        )
    if error.code in (409, 422) and path.endswith("create_flow_run"):
        return ConfigError(f"the server refuses the parameters: {detail}")
    if error.code == 422 and "/schedules" in path:
        return ConfigError(f"the server refuses the schedule: {_reason(detail)}")
    hint = "its database is very busy: try again" if error.code == 503 else ""
    return ServiceError(f"the Prefect server answers {error.code} to {path}: {detail}", hint=hint)


def _reason(detail: Any) -> str:
    """What a validation error says of the value; a union complains of its other members too."""
    if not isinstance(detail, list):
        return str(detail)
    told = [str(item.get("msg")) for item in detail]
    values = [
        text for text in told if text not in ("Field required", "Extra inputs are not permitted")
    ]
    return (values or told)[0]
