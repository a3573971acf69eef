"""Whether the server answers, asked before anything is shown in the UI.

Prefect's client tries for a minute before it gives a request up. A run that shows a dozen things
would stand still for as many minutes while its server is away; here it waits once an outage.
"""

import time

from prefect.settings import PREFECT_API_URL

from flows.api import ApiClient

PATIENCE_SECONDS = 30.0
"""A server that died is started again in less."""
_KNOCK_SECONDS = 1.0


class Presence:
    """Remembers that it waited for the server in vain.

    Args:
        client: Of the server.
        patience: Seconds to wait in an outage, once.
    """

    def __init__(self, client: ApiClient, patience: float = PATIENCE_SECONDS) -> None:
        self._client = client
        self._patience = patience
        self._is_given_up = False

    def is_there(self) -> bool:
        """Whether the server answers, if need be after a wait."""
        deadline = time.monotonic() + (0.0 if self._is_given_up else self._patience)
        while not (answers := self._client.is_healthy()) and time.monotonic() < deadline:
            time.sleep(_KNOCK_SECONDS)
        self._is_given_up = not answers
        return answers


_KNOWN: dict[str, Presence] = {}


def server_is_there() -> bool:
    """Whether the server of this process answers; one inside the process always does."""
    url = PREFECT_API_URL.value()
    if url is None:
        return True
    return _KNOWN.setdefault(url, Presence(ApiClient(url))).is_there()
