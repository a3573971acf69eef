"""`.grpo/server.toml`: what a user may set for the project's server; absent means the defaults.

```toml
database_url = "postgresql+asyncpg://user:password@host/prefect"   # default: SQLite in the project
api_auth = "admin:a long password"                                # default: nobody is asked
host = "0.0.0.0"                                                  # default: 127.0.0.1
port = 4300                                                       # default: the first free one
```
"""

import hashlib
import stat
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from urllib.parse import urlsplit

from grpo_core.errors import ConfigError

LOOPBACK = "127.0.0.1"
_LOCAL_HOSTS = frozenset({LOOPBACK, "localhost"})


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Settings of the server.

    Args:
        database_url: SQLAlchemy URL of a Postgres database; empty means SQLite in the project.
        api_auth: `user:password` that every client must give; empty asks nobody.
        host: Address to listen on.
        port: Port to listen on; 0 means the first free one.
    """

    database_url: str = ""
    api_auth: str = ""
    host: str = LOOPBACK
    port: int = 0

    def environment(self) -> dict[str, str]:
        """The settings as Prefect reads them."""
        values = {
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": self.database_url,
            "PREFECT_SERVER_API_AUTH_STRING": self.api_auth,
            "PREFECT_API_AUTH_STRING": self.api_auth,
        }
        return {name: value for name, value in values.items() if value}

    @property
    def client_host(self) -> str:
        """The host at which this machine reaches the server."""
        return LOOPBACK if self.host in ("0.0.0.0", "localhost") else self.host

    @property
    def digest(self) -> str:
        """Changes when a running server must be started anew to follow the settings."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:12]


def read_server_settings(path: Path) -> ServerSettings:
    """Read the file; it need not exist.

    Raises:
        ConfigError: An unknown or unfit setting, or a password that others can read.
    """
    if not path.exists():
        return ServerSettings()
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    types = {
        field.name: type(getattr(ServerSettings(), field.name)) for field in fields(ServerSettings)
    }
    for name, value in table.items():
        if name not in types:
            raise ConfigError(
                f"{path}: unknown setting {name!r}", hint=f"known: {', '.join(types)}"
            )
        if type(value) is not types[name]:
            raise ConfigError(f"{path}: {name} must be {types[name].__name__}, got {value!r}")
    settings = ServerSettings(**table)
    _check(settings, path)
    return settings


def _check(settings: ServerSettings, path: Path) -> None:
    try:
        address = urlsplit(settings.database_url)
        scheme, _ = address.scheme, address.port
    except ValueError:  # its text may hold a piece of the password
        raise ConfigError(
            f"{path}: database_url is no URL",
            hint="special characters of a password are written as %xx, a slash as %2F",
        ) from None
    if settings.database_url and scheme != "postgresql+asyncpg":
        raise ConfigError(
            f"{path}: database_url starts with {scheme or 'no scheme'}, not postgresql+asyncpg://",
            hint="leave it out for SQLite",
        )
    user, _, password = settings.api_auth.partition(":")
    if settings.api_auth and not (user.strip() and password.strip()):
        raise ConfigError(f'{path}: api_auth must be "user:password", neither of them empty')
    if not 0 <= settings.port < 65536:
        raise ConfigError(f"{path}: port must be 0 to 65535, got {settings.port}")
    if settings.host not in _LOCAL_HOSTS and not settings.api_auth:
        raise ConfigError(
            f"{path}: host {settings.host} is reached from other machines, and whoever reaches the "
            "server can start runs with parameters of their choice",
            hint="set api_auth as well, and put a proxy with TLS in front",
        )
    is_secret = settings.api_auth or settings.database_url
    if is_secret and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(
            f"{path} holds a password and others may read it", hint=f"chmod 600 {path}"
        )
