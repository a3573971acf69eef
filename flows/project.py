"""Where a project keeps its things, and the settings with which its Prefect runs.

Everything that Prefect writes lives in `.grpo/` inside the project, so nothing of a user's own
Prefect is read or changed. Processes that we start get these settings by environment; `prefect`
typed by hand in the project's root gets them from `prefect.toml` and, for the address of the
server, from the profile that `write_profile` keeps up to date.
"""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from flows.processes import write_whole
from flows.server_settings import ServerSettings, read_server_settings
from grpo_core.errors import DiskFullError
from grpo_core.paths import PROJECT_ROOT

PROFILE = "grpo"
FLOW_MARK = "GRPO_FLOW_PROCESS"
"""Variable by which processes that a flow started are known; services of the project have none."""

ROOM_BYTES = 8_000_000
"""Room that a start asks for: what a few runs write into Prefect's database and the logs."""

SETTINGS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_SERVER_LOGS_STREAM_OUT_ENABLED": "true",
    "PREFECT_SERVER_LOGS_STREAM_PUBLISHING_ENABLED": "true",
    "PREFECT_RUNNER_POLL_FREQUENCY": "2",
}
"""What prefect.toml says too; a test compares them."""

_QUIET = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
_FOREIGN_PREFIXES = ("PREFECT_", "PIP_")
_FOREIGN_NAMES = frozenset({"PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", FLOW_MARK})


@dataclass(frozen=True, slots=True)
class Project:
    """The paths of one project.

    Args:
        root: Directory that holds prefect.toml; server, runner and flows work in it.
    """

    root: Path

    @property
    def state(self) -> Path:
        """Directory of everything that is local and disposable."""
        return self.root / ".grpo"

    @property
    def home(self) -> Path:
        """Prefect's home: its database, storage and profiles."""
        return self.state / "prefect"

    @property
    def profiles(self) -> Path:
        """The profiles file that prefect.toml names."""
        return self.home / "profiles.toml"

    def log(self, name: str) -> Path:
        """Log file of the `server` or the `runner`."""
        return self.state / "logs" / f"{name}.log"

    def record(self, name: str) -> Path:
        """Record of the process that is the `server` or the `runner`."""
        return self.state / f"{name}.json"

    def flow_process(self, flow_run_id: str) -> Path:
        """Record of the process that executes a flow run on this machine, while it does."""
        return self.state / "flow-runs" / f"{flow_run_id}.json"

    def flow_processes(self) -> list[Path]:
        """The records of processes that execute flow runs, or did until they were killed."""
        return sorted(self.flow_process("any").parent.glob("*.json"))

    def prepare(self) -> None:
        """Make the directories."""
        self.home.mkdir(parents=True, exist_ok=True)
        self.log("server").parent.mkdir(parents=True, exist_ok=True)

    def check_room(self) -> None:
        """Refuse to start what writes here while the disk is full.

        Raises:
            DiskFullError: Prefect could not keep what it is told of runs.
        """
        free = shutil.disk_usage(self.state).free
        if free < ROOM_BYTES:
            is_elsewhere = bool(self.server_settings().database_url)
            kept = (
                "logs and records of processes lie" if is_elsewhere else "Prefect's database lies"
            )
            raise DiskFullError(  # rounded down, or 8.0 MB would be less than 8
                f"the disk is full: {self.state} has {free // 100_000 / 10:.1f} MB left",
                hint=f"{kept} there; {ROOM_BYTES / 1e6:.0f} MB must be free",
            )

    def environment(self, api_url: str | None = None) -> dict[str, str]:
        """Environment of the server, the runner and `prefect` as started by us."""
        environment = clean_environment() | SETTINGS | _QUIET
        # Spinning threads make two slower than one when something else runs on the machine.
        environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        environment["PWD"] = str(self.root)  # where they work; prefect.yaml reads it
        environment["PREFECT_HOME"] = str(self.home)
        environment["PREFECT_PROFILES_PATH"] = str(self.profiles)
        environment["PREFECT_SERVER_MEMO_STORE_PATH"] = str(self.home / "memo_store.toml")
        environment["PREFECT_RESULTS_LOCAL_STORAGE_PATH"] = str(self.home / "storage")
        environment |= self.server_settings().environment()
        if api_url is not None:
            environment["PREFECT_API_URL"] = api_url
            environment["PREFECT_SERVER_CORS_ALLOWED_ORIGINS"] = _own_pages(api_url)
        return environment

    @property
    def settings_file(self) -> Path:
        """What the user sets for the server; need not exist."""
        return self.state / "server.toml"

    def server_settings(self) -> ServerSettings:
        """What the user set for the server, or the defaults.

        Raises:
            ConfigError: The file says something that it can not.
        """
        return read_server_settings(self.settings_file)

    def write_profile(self, api_url: str | None) -> None:
        """Tell `prefect` commands typed in the root where the server is; None: nowhere."""
        line = f'PREFECT_API_URL = "{api_url}"\n' if api_url else ""
        password = self.server_settings().api_auth
        if api_url and password:
            line += f"PREFECT_API_AUTH_STRING = {json.dumps(password)}\n"
        text = f'active = "{PROFILE}"\n\n[profiles.{PROFILE}]\n{line}'
        if not self.profiles.exists() or self.profiles.read_text(encoding="utf-8") != text:
            write_whole(self.profiles, text)


def this_project() -> Project:
    """The project that this code belongs to."""
    return Project(PROJECT_ROOT)


def clean_environment() -> dict[str, str]:
    """This process's environment without what would bend our children.

    Settings of the user's own Prefect, pip and Python are left out, and loopback addresses are
    never asked for through a proxy.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in _FOREIGN_NAMES and not name.startswith(_FOREIGN_PREFIXES)
    }
    for name in ("NO_PROXY", "no_proxy"):
        hosts = [host for host in environment.get(name, "").split(",") if host]
        environment[name] = ",".join(dict.fromkeys([*hosts, "127.0.0.1", "localhost"]))
    return environment


def foreign_settings() -> list[str]:
    """Variables in the user's shell that send a hand-typed `prefect` somewhere else."""
    names = ("PREFECT_API_URL", "PREFECT_PROFILE", "PREFECT_HOME", "PREFECT_PROFILES_PATH")
    return [name for name in names if os.environ.get(name)]


def _own_pages(api_url: str) -> str:
    """Origins that may call the API from a browser: its own UI, no other web page."""
    page = api_url.removesuffix("/api")
    return f"{page},{page.replace('127.0.0.1', 'localhost')}"
