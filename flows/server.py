"""The project's own Prefect server: start it on a free port, recognise it, wait for its answer."""

import hashlib
import socket
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

from flows.api import ApiClient
from flows.processes import ProcessRecord, birth_of, read_record, stop_tree
from flows.project import Project
from grpo_core.errors import ServiceError

FIRST_PORT = 4200
PORTS_TO_TRY = 100
START_SECONDS = 180.0
STOP_SECONDS = 15.0
LOG_BYTES = 10_000_000
_POLL_SECONDS = 0.25


def find_server(project: Project) -> ProcessRecord | None:
    """Our server if its process lives, answering or not yet."""
    record = read_record(project.record("server"))
    return record if record is not None and record.is_alive() else None


def is_ours(project: Project, url: str) -> bool:
    """Whether the server that answers at `url` keeps its data in this project."""
    client = ApiClient(url, project.server_settings().api_auth)
    try:
        home = Path(client.home())
    except ServiceError:
        return False
    return (home if home.is_absolute() else project.root / home).resolve() == project.home.resolve()


def start_server(project: Project, *, at_old_port: bool = False) -> ProcessRecord:
    """Start the server and return once it answers.

    Args:
        project: Whose server.
        at_old_port: Start it where the last one was or not at all.

    Raises:
        ServiceError: It ended or did not answer in time; the message has its last log lines. Or
            its old port is taken by another program.
    """
    while True:
        last = read_record(project.record("server"))
        port = _port(project.server_settings().port, last)
        if at_old_port and last is not None and port != server_port(last):
            raise ServiceError(
                f"another program has taken port {server_port(last)} meanwhile",
                hint="`grpo up` starts it at another port and brings the runner along",
            )
        try:
            return _start_at(project, port)
        except ServiceError:
            if _can_bind(port):
                raise
            # Another server was as quick, and took the port while ours was importing.


def _start_at(project: Project, port: int) -> ProcessRecord:
    settings = project.server_settings()
    url = f"http://{settings.client_host}:{port}/api"
    command = [sys.executable, "-m", "flows.prefect_server", "server", "start"]
    command += ["--host", settings.host, "--port", str(port), "--analytics-off"]
    process = spawn(project, command, "server", url)
    record = record_process(project, "server", process, url, server_build(project))
    wait_healthy(project, record)
    return record


def client_of(project: Project, server: ProcessRecord) -> ApiClient:
    """A client of our server."""
    return ApiClient(server.address, project.server_settings().api_auth)


def server_build(project: Project) -> str:
    """What the server was started from: Prefect's release, what it mends, the user's settings."""
    mended = hashlib.sha256(Path(__file__).with_name("prefect_server.py").read_bytes()).hexdigest()
    return f"{version('prefect')} {mended[:8]} {project.server_settings().digest}"


def server_port(server: ProcessRecord) -> int:
    """The port that a server listens on."""
    return urlsplit(server.address).port or FIRST_PORT


def _database_hint(project: Project) -> str:
    """Where the database is that a server could not reach, without its password."""
    address = urlsplit(project.server_settings().database_url)
    if not address.hostname:
        return ""
    where = f"{address.hostname}:{address.port or 5432}{address.path}"
    return f"; its database is {where}, database_url in {project.settings_file}"


def _port(wanted: int, last: ProcessRecord | None) -> int:
    """The set port, else that of the server that died, where its runs still look, else a free one.

    Raises:
        ServiceError: Somebody else has the set port.
    """
    if wanted:
        if not _can_bind(wanted):
            raise ServiceError(
                f"port {wanted} is taken by another program",
                hint="set another port in .grpo/server.toml, or none for the first free one",
            )
        return wanted
    if last is not None and _can_bind(server_port(last)):
        return server_port(last)
    return free_port()


def wait_healthy(project: Project, record: ProcessRecord) -> None:
    """Wait until the server of `record` answers, and is the one that answers.

    Raises:
        ServiceError: It ended or did not answer in time.
    """
    deadline = time.monotonic() + START_SECONDS
    while not is_ours(project, record.address):
        if not record.is_alive():
            raise ServiceError(
                f"the Prefect server ended while starting:\n{log_tail(project, 'server')}",
                hint=f"the whole log is {project.log('server')}{_database_hint(project)}",
            )
        if time.monotonic() >= deadline:
            stop_tree(record, STOP_SECONDS)
            raise ServiceError(
                f"the Prefect server did not answer at {record.address} in {START_SECONDS:.0f} s",
                hint=f"its log is {project.log('server')}; is the machine very busy?",
            )
        time.sleep(_POLL_SECONDS)


def free_port(first: int = FIRST_PORT) -> int:
    """The first port from `first` on that nobody listens on.

    Raises:
        ServiceError: All of the ports are taken.
    """
    for port in range(first, first + PORTS_TO_TRY):
        if _can_bind(port):
            return port
    raise ServiceError(f"ports {first} to {first + PORTS_TO_TRY - 1} are all taken on 127.0.0.1")


def spawn(project: Project, command: list[str], name: str, url: str) -> subprocess.Popen[bytes]:
    """Start a service in its own session, its output appended to its log."""
    log = project.log(name)
    if log.exists() and log.stat().st_size > LOG_BYTES:
        log.replace(log.with_suffix(".old.log"))
    with log.open("ab") as stream:
        return subprocess.Popen(
            command,
            cwd=project.root,
            env=project.environment(url),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )


def call(project: Project, command: list[str], url: str, failure: str) -> None:
    """Run a command of the project to its end.

    Args:
        project: Where it works, with its settings.
        command: Program and arguments.
        url: The Prefect API that it talks to.
        failure: What it means when it fails.

    Raises:
        ServiceError: It ended with another status than 0; the message has its last output.
    """
    done = subprocess.run(
        command,
        cwd=project.root,
        env=project.environment(url),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ServiceError(f"{failure}:\n{done.stdout[-2000:]}")


def record_process(
    project: Project, name: str, process: subprocess.Popen[bytes], url: str, build: str
) -> ProcessRecord:
    """Write down a service that was just started; it ends when that fails, as nobody would know it.

    Raises:
        ServiceError: It ended at once.
        OSError: The record can not be written.
    """
    birth = birth_of(process.pid)
    if birth is None:
        raise ServiceError(
            f"the {name} ended at once:\n{log_tail(project, name)}",
            hint=f"the whole log is {project.log(name)}",
        )
    record = ProcessRecord(process.pid, birth, url, build)
    try:
        record.write(project.record(name))
    except OSError:
        stop_tree(record, STOP_SECONDS)
        raise
    return record


def log_tail(project: Project, name: str, lines: int = 15) -> str:
    """The last lines that a service wrote."""
    path = project.log(name)
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    return "\n".join(text.splitlines()[-lines:])


def _can_bind(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return not _answers(port)


def _answers(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0
