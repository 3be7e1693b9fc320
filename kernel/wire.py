"""Frames between host and worker: four bytes of length, then one JSON object in UTF-8.

The host reads frames that hostile code may have written, so decoding refuses whatever could hurt
later: frames over a limit, values that aren't JSON objects, NaN, lone surrogates, deep nesting.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import socket
import struct
from typing import Any, NoReturn

MAX_DEPTH = 64
HEADER = struct.Struct(">I")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")

Frame = dict[str, Any]


class FrameError(Exception):
    """The other side sent something that is no frame."""


def encode(message: Frame) -> bytes:
    """One frame. Lone surrogates become "?"; raises TypeError or ValueError for other non-JSON."""
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    payload = text.encode("utf-8", "replace")
    return HEADER.pack(len(payload)) + payload


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits[:20]} is out of range")
    return number


def decode(payload: bytes) -> Frame:
    """The object in a frame's payload. Raises FrameError."""
    try:
        text = payload.decode("utf-8")
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
        if _SURROGATE.search(payload):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise FrameError(f"not a JSON frame: {str(error)[:200]}") from None
    if not shallow(value):
        raise FrameError(f"a frame nested deeper than {MAX_DEPTH}")
    if not isinstance(value, dict):
        raise FrameError(f"a frame holds a {type(value).__name__}, not an object")
    return value


def shallow(value: object) -> bool:
    """Whether a JSON value is nested no deeper than MAX_DEPTH: whoever handles it next recurses."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        below = [part.values() if isinstance(part, dict) else part for part in level]
        level = [part for parts in below for part in parts if isinstance(part, dict | list)]
        if not level:
            return True
    return False


def _checked(header: bytes, limit: int) -> int:
    length: int = HEADER.unpack(header)[0]
    if length > limit:
        raise FrameError(f"a frame of {length} bytes is over the limit of {limit}")
    return length


async def read(reader: asyncio.StreamReader, limit: int) -> Frame | None:
    """The next frame, None when the stream ends (also inside a frame). Raises FrameError."""
    try:
        length = _checked(await reader.readexactly(HEADER.size), limit)
        return decode(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def receive(sock: socket.socket, limit: int) -> Frame:
    """The next frame from a blocking socket. Raises FrameError, also at the end of the stream."""
    return decode(_exactly(sock, _checked(_exactly(sock, HEADER.size), limit)))


def _exactly(sock: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = sock.recv(min(count - len(parts), 1 << 20))
        if not part:
            raise FrameError("the stream ended inside a frame")
        parts += part
    return bytes(parts)
