"""Length-prefixed JSON messages between the pool and its workers."""

import json
import socket
import struct
from collections.abc import Mapping
from typing import Any, Final

_HEADER: Final = struct.Struct("<I")
MAX_MESSAGE_BYTES: Final = (1 << 32) - 1


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message as bytes."""
    body = json.dumps(message).encode()
    return _HEADER.pack(len(body)) + body


def take(buffer: bytearray, max_bytes: int = MAX_MESSAGE_BYTES) -> dict[str, Any] | None:
    """Remove and return the first complete message of a buffer, None when there is none yet.

    Raises:
        ValueError: The message is longer than `max_bytes`, or no JSON.
    """
    if len(buffer) < _HEADER.size:
        return None
    (length,) = _HEADER.unpack_from(buffer)
    if length > max_bytes:
        raise ValueError(f"a message of {length} bytes")
    end = _HEADER.size + length
    if len(buffer) < end:
        return None
    message: dict[str, Any] = json.loads(bytes(buffer[_HEADER.size : end]))
    del buffer[:end]
    return message


def receive(
    connection: socket.socket, buffer: bytearray, max_bytes: int = MAX_MESSAGE_BYTES
) -> dict[str, Any] | None:
    """Block for the next message; None when the other side has closed.

    Raises:
        ValueError: As `take`.
    """
    while (message := take(buffer, max_bytes)) is None:
        chunk = connection.recv(65_536)
        if not chunk:
            return None
        buffer.extend(chunk)
    return message
