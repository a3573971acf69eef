"""The local server's settings, and what is left when its state is thrown away."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from flows.api import ApiClient
from flows.processes import read_record
from grpo_core.errors import ServiceError

if TYPE_CHECKING:
    from tests.e2e.conftest import Checkout

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]


def test_a_password_by_one_setting_and_a_fresh_start_that_keeps_the_lake(
    checkout: Checkout,
) -> None:
    words = [word for item in checkout.mini for word in ("--set", item)]
    first = checkout.grpo("run", "ingest", "--run", "guarded", *words)
    assert first.returncode == 0, first.stderr
    before = read_record(checkout.project.record("server"))
    settings = checkout.project.state / "server.toml"
    settings.touch(mode=0o600)
    settings.write_text('api_auth = "admin:a long password"\n', encoding="utf-8")

    up = checkout.grpo("up")
    assert up.returncode == 0, up.stderr
    assert "restarting the Prefect server" in up.stderr
    assert before is not None
    assert not before.is_alive()
    assert "full" in checkout.client.deployment_names("grpo")
    with pytest.raises(ServiceError, match="asks for a password"):
        ApiClient(checkout.client.url).deployment_names("grpo")
    typed = checkout.prefect("deployment", "ls")
    assert typed.returncode == 0, typed.stderr
    assert "grpo/full" in typed.stdout

    assert checkout.grpo("down").returncode == 0
    shutil.rmtree(checkout.project.state)
    again = checkout.grpo("run", "ingest", "--run", "guarded", *words)
    assert again.returncode == 0, again.stderr
    assert {n["state"] for n in checkout.latest_attempt("guarded")["nodes"]} == {"Reused"}
    assert "full" in ApiClient(checkout.client.url).deployment_names("grpo")


def test_a_database_of_an_older_release_is_upgraded_at_the_start(
    new_checkout: Callable[[], Checkout],
) -> None:
    checkout = new_checkout()
    words = ("ingest", "--set", "prompts.train_limit=16", "--run")
    with checkout.up():
        first = checkout.grpo("run", *words, "before")
        assert first.returncode == 0, first.stderr
        deployments = checkout.client.deployment_names("grpo")
    present = _revision(checkout)
    older = checkout.prefect("server", "database", "downgrade", "-r", "-1", "-y")
    assert older.returncode == 0, older.stdout + older.stderr
    assert _revision(checkout) != present
    with checkout.up():
        assert _revision(checkout) == present
        assert checkout.client.deployment_names("grpo") == deployments
        second = checkout.grpo("run", *words, "after")
        assert second.returncode == 0, second.stderr
        runs = {run.name: run.state_type for run in checkout.client.latest_flow_runs("grpo")}
    assert runs == {"before ingest": "COMPLETED", "after ingest": "COMPLETED"}
    assert [n["state"] for n in checkout.latest_attempt("after")["nodes"]] == ["Reused"]


def _revision(checkout: Checkout) -> str:
    """The migration that the project's SQLite database stands at."""
    with closing(sqlite3.connect(checkout.project.home / "prefect.db")) as database:
        ((revision,),) = database.execute("select version_num from alembic_version")
    return str(revision)
