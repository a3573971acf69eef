"""Length-prefixed JSON messages between the pool and its workers."""

import json
import socket
import struct
from typing import Any, Final

_HEADER: Final = struct.Struct("<I")
MAX_MESSAGE_BYTES: Final = 1 << 20


def encode(message: dict[str, Any]) -> bytes:
    """Return a message as bytes."""
    body = json.dumps(message).encode()
    return _HEADER.pack(len(body)) + body


def take(buffer: bytearray) -> dict[str, Any] | None:
    """Remove and return the first complete message of a buffer, None when there is none yet."""
    if len(buffer) < _HEADER.size:
        return None
    (length,) = _HEADER.unpack_from(buffer)
    end = _HEADER.size + length
    if len(buffer) < end:
        return None
    message: dict[str, Any] = json.loads(bytes(buffer[_HEADER.size : end]))
    del buffer[:end]
    return message


def receive(connection: socket.socket, buffer: bytearray) -> dict[str, Any] | None:
    """Block for the next message; None when the other side has closed."""
    while (message := take(buffer)) is None:
        chunk = connection.recv(65_536)
        if not chunk:
            return None
        buffer.extend(chunk)
    return message
