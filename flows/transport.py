"""Requests to a server in JSON, without importing prefect, and what it means when they fail."""

import base64
import http.client
import json
import time
import urllib.error
import urllib.request
from typing import Any, Self

from flows.refusals import refusal
from grpo_core.errors import ServiceError

ANSWER_SECONDS = 15.0
_KNOCK_SECONDS = 0.25


class JsonTransport:
    """Sends requests to one server.

    Args:
        url: Address of the API, for example http://127.0.0.1:4200/api.
        password: `user:password` of a server that asks for it, else empty.
        patience: Seconds to go on knocking while nobody listens, and that an answer may take.
    """

    def __init__(self, url: str, password: str = "", *, patience: float = 0.0) -> None:
        self.url = url
        self._password = password
        self._patience = patience
        self._headers = {"Content-Type": "application/json"}
        if password:
            token = base64.b64encode(password.encode()).decode("ascii")
            self._headers["Authorization"] = f"Basic {token}"
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def patient(self, seconds: float) -> Self:
        """A client for what must not fail because the machine is busy or the server comes back."""
        return type(self)(self.url, self._password, patience=seconds)

    def _call(
        self, method: str, path: str, body: Any = None, *, timeout: float = ANSWER_SECONDS
    ) -> Any:
        """What the server answers.

        Raises:
            ServiceError: It refuses, nobody answers, or something that is no such server does.
        """
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, self._headers, method=method)
        begun = time.monotonic()
        try:
            while True:
                try:
                    return self._open(request, max(timeout, self._patience))
                except urllib.error.URLError as error:
                    if time.monotonic() - begun >= self._worth_trying(error, timeout):
                        raise
                time.sleep(_KNOCK_SECONDS)
        except urllib.error.HTTPError as error:
            raise refusal(error, path) from error
        except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: no JSON
            raise ServiceError(
                f"the Prefect server at {self.url} does not answer: {error}",
                hint="`grpo status` says what runs; `grpo up` starts what does not",
            ) from error

    def _worth_trying(self, error: urllib.error.URLError, timeout: float) -> float:
        """Seconds for which a request that failed so is sent again; it has changed nothing."""
        if isinstance(error, urllib.error.HTTPError):  # 503: the database is locked just now
            return max(self._patience, timeout) if error.code == 503 else 0.0
        return self._patience if isinstance(error.reason, ConnectionRefusedError) else 0.0

    def _open(self, request: urllib.request.Request, timeout: float) -> Any:
        with self._opener.open(request, timeout=timeout) as response:
            return json.loads(response.read() or b"null")
