"""Prefect's server does not stand still when an automation is saved while it looks at them."""

import os
import subprocess
import sys
from pathlib import Path

from flows.project import Project

SAVE_WHILE_LOCKED = """
import asyncio
from unittest.mock import AsyncMock

from prefect.server.database import provide_database_interface
from prefect.server.events import triggers
from prefect.server.events.models import automations
from prefect.server.events.schemas.automations import Automation, AutomationCreate

from flows.automations import crash_automation
from flows.prefect_server import update_automations_in_turn


async def look_through(looking, is_saved):
    async with triggers._automations_lock():
        looking.set()
        await is_saved.wait()


async def main():
    database = provide_database_interface()
    await database.create_db()
    looking, is_saved = asyncio.Event(), asyncio.Event()
    looker = asyncio.create_task(look_through(looking, is_saved))
    await looking.wait()
    wanted = AutomationCreate.model_validate(crash_automation())
    automation = Automation(**wanted.model_dump(exclude={"owner_resource"}))
    async with database.session_context(begin_transaction=True) as session:
        saved = await automations.create_automation(session, automation)
    is_saved.set()
    await looker
    async with asyncio.timeout(20):
        while saved.id not in triggers.automations_by_id:
            await asyncio.sleep(0.05)


automations.emit_automation_created_event = AsyncMock()  # nobody is there to hear of it
update_automations_in_turn()
asyncio.run(main())
print("saved and taken up")
"""


def test_an_automation_saved_while_the_server_reads_them_does_not_block_it(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.prepare()
    database = f"sqlite+aiosqlite:///{tmp_path / 'prefect.db'}"
    environment = project.environment() | {"PREFECT_SERVER_DATABASE_CONNECTION_URL": database}
    done = subprocess.run(
        [sys.executable, "-c", SAVE_WHILE_LOCKED],
        env=environment | {"PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["saved and taken up"]), done
