import shutil
import tomllib
from pathlib import Path

import pytest

from flows.processes import write_whole
from flows.project import SETTINGS, Project, clean_environment, foreign_settings
from grpo_core.errors import DiskFullError

ROOT = Path(__file__).resolve().parents[2]


def _flat(table: dict[str, object], prefix: str = "PREFECT") -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in table.items():
        key = f"{prefix}_{name.upper()}"
        if isinstance(value, dict):
            found |= _flat(value, key)
        else:
            found[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def test_prefect_toml_says_what_our_own_processes_get() -> None:
    table = tomllib.loads((ROOT / "prefect.toml").read_text(encoding="utf-8"))
    project = Project(ROOT)
    assert ROOT / table.pop("home") == project.home
    assert ROOT / table.pop("profiles_path") == project.profiles
    flat = _flat(table)
    own = project.environment()
    for name in ("PREFECT_SERVER_MEMO_STORE_PATH", "PREFECT_RESULTS_LOCAL_STORAGE_PATH"):
        assert str(ROOT / flat.pop(name)) == own[name]
        assert Path(own[name]).is_relative_to(project.home)
    assert flat == SETTINGS


def test_nothing_of_the_users_own_settings_leaks_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "https://elsewhere/api")
    monkeypatch.setenv("PIP_TARGET", "/elsewhere")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("NO_PROXY", "intranet")
    monkeypatch.delenv("no_proxy", raising=False)
    environment = clean_environment()
    assert not {"PREFECT_API_URL", "PIP_TARGET", "PYTHONPATH"} & environment.keys()
    assert environment["NO_PROXY"] == "intranet,127.0.0.1,localhost"
    assert environment["no_proxy"] == "127.0.0.1,localhost"
    assert "PREFECT_API_URL" in foreign_settings()


def test_our_processes_are_quiet_and_at_home(tmp_path: Path) -> None:
    environment = Project(tmp_path).environment("http://127.0.0.1:4200/api")
    assert environment["DO_NOT_TRACK"] == "1"
    assert environment["PWD"] == str(tmp_path)  # not the shell's: prefect.yaml takes it for paths
    assert environment["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"
    assert environment["PREFECT_HOME"] == str(tmp_path / ".grpo" / "prefect")
    assert environment["PREFECT_API_URL"] == "http://127.0.0.1:4200/api"
    origins = environment["PREFECT_SERVER_CORS_ALLOWED_ORIGINS"]
    assert origins == "http://127.0.0.1:4200,http://localhost:4200"


def test_the_profile_names_the_server_while_there_is_one(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.prepare()
    project.write_profile("http://127.0.0.1:4207/api")
    profiles = tomllib.loads(project.profiles.read_text(encoding="utf-8"))
    active = profiles["profiles"][profiles["active"]]
    assert active == {"PREFECT_API_URL": "http://127.0.0.1:4207/api"}
    project.write_profile(None)
    profiles = tomllib.loads(project.profiles.read_text(encoding="utf-8"))
    assert profiles["profiles"][profiles["active"]] == {}


def test_a_start_asks_for_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project(tmp_path)
    project.prepare()
    project.check_room()
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1_200_000))
    with pytest.raises(DiskFullError, match=r"has 1\.2 MB left") as failure:
        project.check_room()
    assert failure.value.hint == "Prefect's database lies there; 8 MB must be free"


def test_what_is_short_of_the_room_is_not_rounded_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(tmp_path)
    project.prepare()
    project.settings_file.touch(0o600)
    project.settings_file.write_text('database_url = "postgresql+asyncpg://a@b/c"', "utf-8")
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=7_960_000))
    with pytest.raises(DiskFullError, match=r"has 7\.9 MB left") as failure:
        project.check_room()
    assert failure.value.hint == "logs and records of processes lie there; 8 MB must be free"


def test_what_can_not_be_written_whole_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "server.json"
    write_whole(path, "first")
    path.with_suffix(".tmp").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as failure:
        write_whole(path, "second")
    assert failure.value.filename == str(path)
    assert [found.name for found in tmp_path.iterdir()] == ["server.json"]
    assert path.read_text() == "first"
