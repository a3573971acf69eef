"""The few calls to Prefect's REST API that the command line needs, without importing prefect.

`import prefect` takes seconds; a command that only triggers, watches or cancels need not wait.
What the server validates and records is the same as with `prefect deployment run`.
"""

import urllib.error
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from flows.replanning import is_of_schedule, made_anew, waiting_and_due
from flows.transport import ANSWER_SECONDS, JsonTransport
from grpo_core.errors import ServiceError

FINAL_STATES = frozenset({"COMPLETED", "FAILED", "CRASHED", "CANCELLED"})
BROKEN = frozenset({"CRASHED", "FAILED"})
"""What a run may count as that has completed and did not reach the server to say so."""
TAKEN_STATES = ("PENDING", "RUNNING", "CANCELLING")


@dataclass(frozen=True, slots=True)
class FlowRun:
    """A flow run as the server sees it now.

    Args:
        id: Its UUID.
        name: Its name in the UI.
        state_type: SCHEDULED, PENDING, RUNNING, COMPLETED, FAILED, CRASHED, CANCELLING, CANCELLED.
        message: Text of the state; the error of a failed run.
        parameters: What it was created with.
        work_pool: Name of the pool whose workers execute it; empty for the local runner.
        state_name: Name of the state where it says more than its type, such as `Stopped`.
        tags: By which the UI finds it.
        began_at: When it began, or was to begin if it has not; None when the server does not say.
        state_at: When it got this state; None when the server does not say.
    """

    id: str
    name: str
    state_type: str
    message: str
    parameters: dict[str, Any]
    work_pool: str = ""
    state_name: str = ""
    tags: tuple[str, ...] = ()
    began_at: datetime | None = None
    state_at: datetime | None = None

    @property
    def is_final(self) -> bool:
        """Whether the state can not change any more."""
        return self.state_type in FINAL_STATES


class ApiClient(JsonTransport):
    """Talks to one server."""

    def is_healthy(self, timeout: float = 10.0) -> bool:
        """Whether something answers the health check at this address."""
        try:
            return self._call("GET", "/health", timeout=timeout) is True
        except ServiceError:
            return False

    def home(self) -> str:
        """PREFECT_HOME of the server: tells our own server from anybody else's."""
        try:
            return str(self._call("GET", "/admin/settings")["home"])
        except (KeyError, TypeError) as error:
            raise _foreign(error) from error

    def create_flow_run(
        self, deployment: str, parameters: dict[str, Any], *, name: str, tags: list[str]
    ) -> FlowRun:
        """Schedule a run of `flow/deployment` for now.

        Raises:
            ConfigError: The server refuses the parameters; the message names the field.
        """
        found = self.deployment(deployment)
        body = {"parameters": parameters, "name": name, "tags": tags}
        body["idempotency_key"] = str(uuid.uuid4())  # asked twice it is the same run
        created = self._call("POST", f"/deployments/{found['id']}/create_flow_run", body)
        return _flow_run(created)

    def deployment(self, name: str) -> dict[str, Any]:
        """The deployment `flow/deployment` as the server has it."""
        return _record(self._call("GET", f"/deployments/name/{name}"), "id")

    def schedules(self, deployment_id: str) -> list[dict[str, Any]]:
        """The schedules of a deployment."""
        found: list[dict[str, Any]] = self._call("GET", f"/deployments/{deployment_id}/schedules")
        return found

    def save_schedule(
        self, deployment_id: str, body: dict[str, Any], schedule_id: str | None = None
    ) -> None:
        """Add a schedule to a deployment, or put `body` in the place of an existing one.

        What any schedule of the deployment starts from now on is planned when this returns.

        Raises:
            ConfigError: The server refuses the times; what there was stays.
        """
        path, began = f"/deployments/{deployment_id}/schedules", datetime.now(UTC)
        if schedule_id is None:
            self._call("POST", path, [body])
        else:
            self._call("PATCH", f"{path}/{schedule_id}", body)
        self.plan_runs(deployment_id, began)

    def remove_schedule(self, deployment_id: str, schedule_id: str) -> None:
        """Remove a schedule of a deployment and what it has waiting; that of others stays.

        The server drops what all schedules of the deployment have waiting, due or not.
        """
        began = datetime.now(UTC)
        due = self._due_runs(deployment_id, began)
        self._call("DELETE", f"/deployments/{deployment_id}/schedules/{schedule_id}")
        self.plan_runs(deployment_id, began)
        for run in due:
            is_of_others = schedule_id not in run["idempotency_key"]
            if is_of_others and run["auto_scheduled"]:
                path = f"/deployments/{deployment_id}/create_flow_run"
                self._call("POST", path, made_anew(run))  # one that is there stays
            elif not is_of_others and not run["auto_scheduled"]:
                self._cancel_waiting(run["id"])  # planned again when another one was removed

    def plan_runs(self, deployment_id: str, since: datetime) -> None:
        """Have the server make the flow runs that schedules start from `since` on, now.

        A change of a deployment or of its schedules drops those of all its schedules, and by itself
        the server makes them anew up to a minute later, without those that were due meanwhile. Each
        is made once, however often this is asked.
        """
        if not self._call("GET", f"/deployments/{deployment_id}")["paused"]:
            body = {"start_time": since.isoformat()}
            self._call("POST", f"/deployments/{deployment_id}/schedule", body)

    def _due_runs(self, deployment_id: str, moment: datetime) -> list[dict[str, Any]]:
        """Flow runs that schedules of the deployment made, and that wait although they are due."""
        body = waiting_and_due(deployment_id, moment)
        found: list[dict[str, Any]] = []
        while page := self._call("POST", "/flow_runs/filter", body | {"offset": len(found)}):
            found += page
        return [run for run in found if is_of_schedule(run["idempotency_key"])]

    def deployment_names(self, flow: str) -> list[str]:
        """Names of the deployments of `flow`, sorted."""
        return sorted(self.deployments(flow))

    def deployments(self, flow: str) -> dict[str, dict[str, Any]]:
        """The deployments of `flow` by name."""
        body = {"flows": {"name": {"any_": [flow]}}, "limit": 100}
        return _named(self._call("POST", "/deployments/filter", body), "id", "work_pool_name")

    def pools(self, flow: str) -> dict[str, str]:
        """Name → work pool of the deployments of `flow` that workers execute."""
        found = self.deployments(flow)
        return {n: item["work_pool_name"] for n, item in found.items() if item["work_pool_name"]}

    def leave_pool(self, deployment_id: str) -> None:
        """Take a deployment out of its work pool; id, schedules and what starts it all stay."""
        self._call("PATCH", f"/deployments/{deployment_id}", {"work_pool_name": None})

    def ensure_pool(self, name: str) -> None:
        """Make a work pool of type `process` unless it is there."""
        pools = self._call("POST", "/work_pools/filter", {"limit": 200})
        if name not in [pool["name"] for pool in pools]:
            self._call("POST", "/work_pools/", {"name": name, "type": "process"})

    def read_flow_run(self, flow_run_id: str) -> FlowRun:
        """The run as it is now."""
        return _flow_run(self._call("GET", f"/flow_runs/{flow_run_id}"))

    def find_flow_run(self, flow_run_id: str) -> FlowRun | None:
        """The run as it is now; None when the server says that it has no such run."""
        try:
            return self.read_flow_run(flow_run_id)
        except ServiceError as error:
            cause = error.__cause__
            if isinstance(cause, urllib.error.HTTPError) and cause.code == 404:
                return None
            raise

    def taken_at(self, flow_run_id: str) -> datetime | None:
        """When a runner or worker last took the run, for the first time or to try it again."""
        answer = self._call("GET", f"/flow_run_states/?flow_run_id={flow_run_id}")
        states = [_record(state, "type", "timestamp") for state in _listed(answer)]
        taken = [each["timestamp"] for each in states if each["type"] in ("SCHEDULED", "PENDING")]
        try:
            return max(map(_moment, taken), default=None)
        except (TypeError, ValueError) as error:
            raise _foreign(error) from error

    def active_flow_runs(self, flow: str) -> list[FlowRun]:
        """Runs of `flow` that are taken, then those that wait and are due; each the oldest first.

        One that is taken counts whenever it was to begin: it may have been started early.
        """
        taken = {"state": {"type": {"any_": list(TAKEN_STATES)}}}
        waiting = {
            "state": {"type": {"any_": ["SCHEDULED"]}},
            "expected_start_time": {"before_": _soon()},
        }
        found = {}
        for those in (waiting, taken):  # taken between the questions, it is seen twice, not never
            body = {
                "flows": {"name": {"any_": [flow]}},
                "flow_runs": those,
                "sort": "EXPECTED_START_TIME_ASC",
                "limit": 100,
            }
            for run in _flow_runs(self._call("POST", "/flow_runs/filter", body)):
                found[run.id] = run
        return sorted(found.values(), key=lambda run: run.state_type == "SCHEDULED")

    def latest_flow_runs(self, flow: str, *, timeout: float = ANSWER_SECONDS) -> list[FlowRun]:
        """The hundred latest runs of `flow` that are due, ended or not, the latest first."""
        body = {
            "flows": {"name": {"any_": [flow]}},
            "flow_runs": {"expected_start_time": {"before_": _soon()}},
            "sort": "EXPECTED_START_TIME_DESC",
            "limit": 100,
        }
        return _flow_runs(self._call("POST", "/flow_runs/filter", body, timeout=timeout))

    def cancel(self, flow_run_id: str) -> None:
        """Ask for cancellation: a running flow stops cleanly, a waiting one never starts."""
        flow_run = self.read_flow_run(flow_run_id)
        if not flow_run.is_final:
            waiting = flow_run.state_type == "SCHEDULED"
            self._set_state(flow_run_id, "CANCELLED" if waiting else "CANCELLING")

    def _cancel_waiting(self, flow_run_id: str) -> None:
        """Cancel a run that waits; one that somebody has taken meanwhile goes on."""
        if self.read_flow_run(flow_run_id).state_type == "SCHEDULED":
            self._set_state(flow_run_id, "CANCELLED")

    def mark_running(self, flow_run_id: str, message: str) -> None:
        """Record that the process of a run which was counted as crashed works on it."""
        self._set_state(flow_run_id, "RUNNING", message)

    def mark_crashed(self, flow_run_id: str, message: str) -> None:
        """Record that nobody works on the run any more."""
        self._set_state(flow_run_id, "CRASHED", message)

    def mark_cancelled(self, flow_run_id: str, message: str) -> None:
        """Record that a run which was asked to end has ended."""
        self._set_state(flow_run_id, "CANCELLED", message)

    def mark_ended(self, run: FlowRun, state_type: str, state_name: str, message: str) -> None:
        """Record how a run ended that could not say so itself, whatever it counts as now."""
        state = {"type": state_type, "name": state_name, "message": message}
        self._call("POST", f"/flow_runs/{run.id}/set_state", {"state": state, "force": True})

    def has_worker(self, pool: str) -> bool:
        """Whether a worker of the work pool is online."""
        workers = _listed(self._call("POST", f"/work_pools/{pool}/workers/filter", {}))
        return any(_record(worker, "status")["status"] == "ONLINE" for worker in workers)

    def automations(self) -> dict[str, dict[str, Any]]:
        """Every automation by its name."""
        return _named(self._call("POST", "/automations/filter", {"limit": 200}), "id")

    def save_automation(self, body: dict[str, Any], automation_id: str | None = None) -> None:
        """Make an automation, or put `body` in the place of an existing one."""
        if automation_id is None:
            self._call("POST", "/automations/", body)
        else:
            self._call("PUT", f"/automations/{automation_id}", body)

    def remove_automation(self, automation_id: str) -> None:
        """Delete an automation."""
        self._call("DELETE", f"/automations/{automation_id}")

    def _set_state(self, flow_run_id: str, state_type: str, message: str = "") -> None:
        state = {"type": state_type, "name": state_type.capitalize(), "message": message}
        self._call("POST", f"/flow_runs/{flow_run_id}/set_state", {"state": state})


def _soon() -> str:
    """When a run counts as due: what a schedule will start is further off than clocks differ."""
    return (datetime.now(UTC) + timedelta(seconds=30)).isoformat()


def _flow_runs(answer: Any) -> list[FlowRun]:
    return [_flow_run(record) for record in _listed(answer)]


def _flow_run(record: Any) -> FlowRun:
    """The run of an answer.

    Raises:
        ServiceError: The answer tells of no run: another program has taken the server's port.
    """
    try:
        state = record.get("state") or {}
        began = record.get("start_time") or record.get("expected_start_time")
        return FlowRun(
            id=record["id"],
            name=record["name"],
            state_type=state.get("type", "SCHEDULED"),
            message=state.get("message") or "",
            parameters=record.get("parameters") or {},
            work_pool=record.get("work_pool_name") or "",
            state_name=state.get("name") or "",
            tags=tuple(record.get("tags") or ()),
            began_at=_moment(began) if began else None,
            state_at=_moment(state["timestamp"]) if "timestamp" in state else None,
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _foreign(error) from error


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is not None:
        return moment
    raise ValueError(f"{text!r} names no time zone")


def _listed(answer: Any) -> list[Any]:
    if isinstance(answer, list):
        return answer
    raise _foreign(TypeError(f"a {type(answer).__name__} in the place of a list"))


def _record(answer: Any, *fields: str) -> dict[str, Any]:
    """An answer that is to have these fields."""
    if not isinstance(answer, dict):
        raise _foreign(TypeError(f"a {type(answer).__name__} in the place of a record"))
    if missing := [field for field in fields if field not in answer]:
        raise _foreign(KeyError(*missing))
    return answer


def _named(answer: Any, *fields: str) -> dict[str, dict[str, Any]]:
    """The records of an answer by name."""
    found = [_record(item, "name", *fields) for item in _listed(answer)]
    return {str(item["name"]): item for item in found}


def _foreign(error: Exception) -> ServiceError:
    return ServiceError(
        f"what answers is no Prefect server: {error!r}",
        hint="`grpo status` says where ours is; another program may have taken its port",
    )
