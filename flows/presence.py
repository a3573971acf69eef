"""Whether the server answers, asked before anything is shown in the UI, and how long that may take.

Prefect's client tries for minutes before it gives a request up. A run that shows a dozen things
would stand still for as many minutes while its server is away, or while the server is there and its
database is not; here it waits once an outage. Prefect's own client asks, so what it is set to
(certificates, proxies, headers) holds.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import httpx
from prefect.client.orchestration import get_client
from prefect.context import SyncClientContext
from prefect.exceptions import PrefectException
from prefect.settings import (
    PREFECT_API_URL,
    PREFECT_CLIENT_MAX_RETRIES,
    PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED,
    temporary_settings,
)

from grpo_core.errors import ServiceError

PATIENCE_SECONDS = 30.0
"""A server that died is started again in less."""
REST_SECONDS = 30.0
"""How long a server that was given up is left alone."""
SHOW_SECONDS = 10.0
"""How long a server that works may take for an answer."""
SHOW_RETRIES = 1
"""With Prefect's pauses of 2 and 4 s that is less than `PATIENCE_SECONDS` in all."""
DOUBTFUL_SECONDS = 5.0
"""How long one that was given up may take."""
_KNOCK_SECONDS = 1.0
_ANSWER_SECONDS = 2.0
_GREETING = "👋"


class Presence:
    """Remembers that it waited for the server, or for its database, in vain.

    Args:
        knock: Whether the server answers now.
        patience: Seconds to wait in an outage, once.
    """

    def __init__(self, knock: Callable[[], bool], patience: float = PATIENCE_SECONDS) -> None:
        self._knock = knock
        self._patience = patience
        self._given_up_at: float | None = None

    @property
    def limits(self) -> tuple[float, int]:
        """Seconds that it gets for an answer, and how often it is asked again."""
        return (SHOW_SECONDS, SHOW_RETRIES) if self._given_up_at is None else (DOUBTFUL_SECONDS, 0)

    def is_there(self) -> bool:
        """Whether it is worth while to show something, if need be after a wait."""
        now = time.monotonic()
        if self._given_up_at is not None and now - self._given_up_at < REST_SECONDS:
            return False
        deadline = now + (self._patience if self._given_up_at is None else 0.0)
        while not (answers := self._knock()) and time.monotonic() < deadline:
            time.sleep(_KNOCK_SECONDS)
        if not answers:
            self.give_up()
        return answers

    def give_up(self) -> None:
        """It does not answer, or can record nothing."""
        self._given_up_at = time.monotonic()

    def has_recorded(self) -> None:
        """It took what it was told, so server and database are there."""
        self._given_up_at = None


_KNOWN: dict[str, Presence] = {}


def server_is_there() -> bool:
    """Whether the server of this process answers; one inside the process always does."""
    presence = _presence()
    return presence is None or presence.is_there()


@contextmanager
def telling() -> Iterator[None]:
    """What Prefect's client is asked for inside is given up after some `PATIENCE_SECONDS`.

    Once given up, it is one short try until something was recorded again.

    Raises:
        ServiceError: The server does not answer, refuses, or is another program.
    """
    presence = _presence()
    answers: list[httpx.Response] = []
    try:
        with nullcontext() if presence is None else _client(*presence.limits, answers.append):
            yield
    except (httpx.HTTPError, PrefectException, ValueError) as error:
        is_ours = isinstance(error, ValueError) and not answers  # it was never sent
        if presence is not None and not is_ours and not _is_refusal(error):
            presence.give_up()
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ServiceError(f"the Prefect server did not take it: {reason}") from error
    if presence is not None:
        presence.has_recorded()


def _presence() -> Presence | None:
    url = PREFECT_API_URL.value()
    return None if url is None else _KNOWN.setdefault(url, Presence(_knock))


def _knock() -> bool:
    try:
        with _client(_ANSWER_SECONDS, retries=0) as client:
            return bool(client.hello().json() == _GREETING)
    except (httpx.HTTPError, ValueError):
        return False


@contextmanager
def _client(
    seconds: float, retries: int, on_answer: Callable[[httpx.Response], None] | None = None
) -> Iterator[Any]:
    """A client of Prefect's that all of its functions use inside."""
    hooks = {"response": [] if on_answer is None else [on_answer]}
    settings: dict[Any, Any] = {PREFECT_CLIENT_MAX_RETRIES: retries}
    settings[PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED] = False
    client = get_client(sync_client=True, httpx_settings={"timeout": seconds, "event_hooks": hooks})
    with temporary_settings(settings), SyncClientContext.model_construct(client=client):
        yield client


def _is_refusal(error: Exception) -> bool:
    """Whether a server that works did not like what it was told."""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code < 500
    return isinstance(error, PrefectException)
