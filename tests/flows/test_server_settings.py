from importlib.metadata import version
from pathlib import Path

import pytest

import flows.server
from flows.processes import ProcessRecord
from flows.project import Project
from flows.server import free_port, server_build, start_server
from flows.server_keeper import has_died
from flows.server_settings import ServerSettings, read_server_settings
from grpo_core.errors import ConfigError, ServiceError


def _written(tmp_path: Path, text: str, mode: int = 0o600) -> Path:
    path = tmp_path / ".grpo" / "server.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def test_without_a_file_it_is_sqlite_on_loopback_without_a_password(tmp_path: Path) -> None:
    settings = read_server_settings(tmp_path / "server.toml")
    assert (settings.host, settings.port, settings.environment()) == ("127.0.0.1", 0, {})


def test_each_setting_reaches_prefect(tmp_path: Path) -> None:
    url = "postgresql+asyncpg://me:secret@db/prefect"
    _written(tmp_path, f'database_url = "{url}"\napi_auth = "admin:pass word"\nhost = "0.0.0.0"\n')
    project = Project(tmp_path)
    environment = project.environment("http://127.0.0.1:4200/api")
    assert environment["PREFECT_SERVER_DATABASE_CONNECTION_URL"] == url
    assert environment["PREFECT_SERVER_API_AUTH_STRING"] == "admin:pass word"
    assert environment["PREFECT_API_AUTH_STRING"] == "admin:pass word"
    assert project.server_settings().client_host == "127.0.0.1"
    project.prepare()
    project.write_profile("http://127.0.0.1:4200/api")
    assert 'PREFECT_API_AUTH_STRING = "admin:pass word"' in project.profiles.read_text()
    assert project.profiles.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        ("databse_url = ''", 0o600, "unknown setting 'databse_url'"),
        ("port = '4200'", 0o600, "port must be int"),
        ("port = 70000", 0o600, "0 to 65535"),
        ("database_url = 'mysql://x'", 0o600, "starts with mysql"),
        ("database_url = 'postgresql+asyncpg://h:x/d'", 0o600, "database_url is no URL"),
        ("api_auth = 'secret'", 0o600, "user:password"),
        ("api_auth = ':'\nhost = '0.0.0.0'", 0o600, "neither of them empty"),
        ("api_auth = 'admin: '", 0o600, "neither of them empty"),
        ("host = '0.0.0.0'", 0o600, "reached from other machines"),
        ("api_auth = 'a:b'", 0o644, "others may read it"),
        ("port = ", 0o600, "is not TOML"),
    ],
)
def test_what_can_not_be_meant_is_refused(
    tmp_path: Path, text: str, mode: int, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        read_server_settings(_written(tmp_path, text, mode))


def test_a_change_or_another_release_restarts_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, mended, settings = server_build(Project(tmp_path)).split()
    assert (release, settings) == (version("prefect"), ServerSettings().digest)
    (tmp_path / "prefect_server.py").write_text("# mends something else\n")
    monkeypatch.setattr(flows.server, "__file__", str(tmp_path / "server.py"))
    assert server_build(Project(tmp_path)).split()[1] != mended
    assert ServerSettings(port=1).digest != ServerSettings(port=2).digest
    assert "secret" not in ServerSettings(api_auth="a:secret").digest


def test_a_set_port_that_is_taken_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _written(tmp_path, "port = 4999\n")
    monkeypatch.setattr("flows.server._can_bind", lambda port: False)
    with pytest.raises(ServiceError, match="port 4999 is taken"):
        start_server(Project(tmp_path))


def test_a_server_that_died_is_told_from_one_that_was_stopped(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.prepare()
    assert not has_died(project)
    ProcessRecord(1, "another boot:1", f"http://127.0.0.1:{free_port()}/api", "").write(
        project.record("server")
    )
    assert has_died(project)
