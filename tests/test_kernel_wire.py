import asyncio
import json
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel import wire

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def read(data: bytes, limit: int = 1000) -> wire.Frame | None:
    async def main() -> wire.Frame | None:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        return await wire.read(reader, limit)

    return asyncio.run(main())


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_a_frame_round_trips(message):
    assert wire.decode(wire.encode(message)[wire.HEADER.size :]) == message


def test_a_frame_crosses_a_socket():
    left, right = socket.socketpair()
    with left, right:
        left.sendall(wire.encode({"text": "ü" * 50_000}))
        assert wire.receive(right, 2**20) == {"text": "ü" * 50_000}
        with pytest.raises(wire.FrameError, match="over the limit"):
            left.sendall(wire.encode({"text": "x" * 2000}))
            wire.receive(right, 1000)


@pytest.mark.parametrize(
    "payload",
    [
        b"not json",
        b"[1, 2]",
        b'"text"',
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": -1e999}',
        b'{"a": "\\ud800"}',
        b"\xff\xfe",
        b"{" * 100_000,
        b'{"a":' * 100_000,
        b"[" * 100_000,
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": ' + b"[" * 70 + b"]" * 70 + b"}",
    ],
)
def test_garbage_is_refused(payload):
    with pytest.raises(wire.FrameError):
        wire.decode(payload)


def test_surrogate_pairs_in_escapes_are_text():
    assert wire.decode(json.dumps({"a": "😀"}).encode()) == {"a": "😀"}


def test_lone_surrogates_never_leave_the_worker():
    assert wire.decode(wire.encode({"a": "x\ud800y"})[4:]) == {"a": "x?y"}


def test_the_stream_may_end_anywhere():
    frame = wire.encode({"a": 1})
    assert read(frame) == {"a": 1}
    for cut in range(len(frame)):
        assert read(frame[:cut]) is None


def test_a_huge_frame_is_refused_by_its_header():
    with pytest.raises(wire.FrameError, match="over the limit"):
        read(wire.HEADER.pack(2**32 - 1))
