"""Runs inside an agent's sandbox: a loopback port that leads to the gateway's socket.

    python3 bridge.py SOCKET PORT COMMAND [ARGUMENT ...]

The sandbox has a network of its own with nothing but loopback in it. Bytes that a client sends to
127.0.0.1:PORT go to the mounted unix socket and back. COMMAND is started once the port is open; the
bridge ends with it, by its exit status (128 + N where signal N ended it, 127 where it can't start).

Needs nothing but the standard library, and no other file of this package.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys

_CHUNK = 65536


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on until there are none left, then say so."""
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


async def connect(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One client's connection, for as long as the gateway holds it."""
    try:
        inner_reader, inner_writer = await asyncio.open_unix_connection(path)
    except OSError as error:
        print(f"bridge: the gateway doesn't answer ({error})", file=sys.stderr)
        writer.close()
        return
    up = asyncio.ensure_future(pump(reader, inner_writer))
    try:
        await pump(inner_reader, writer)  # the gateway's end is the end: its cuts pass through
    finally:
        up.cancel()
        for side in (inner_writer, writer):
            side.close()


async def bridge(path: str, port: int, command: list[str]) -> int:
    """Serve while the command runs; returns its exit status."""
    server = await asyncio.start_server(lambda r, w: connect(path, r, w), "127.0.0.1", port)
    child: list[asyncio.subprocess.Process] = []
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, forward, child, number)
    try:
        child.append(await asyncio.create_subprocess_exec(*command))
    except OSError as error:
        print(f"bridge: {command[0]} can't be started ({error})", file=sys.stderr)
        return 127
    status = await child[0].wait()
    server.close()  # connections that are left end with this process
    return status if status >= 0 else 128 - status


def forward(child: list[asyncio.subprocess.Process], number: int) -> None:
    """A signal is the command's; before there is one, it ends the bridge."""
    if not child:
        sys.exit(128 + number)
    with contextlib.suppress(ProcessLookupError):
        child[0].send_signal(number)


def main() -> None:
    """``bridge.py SOCKET PORT COMMAND [ARGUMENT ...]``."""
    if len(sys.argv) < 4 or not sys.argv[2].isdigit():
        sys.exit("usage: bridge.py SOCKET PORT COMMAND [ARGUMENT ...]")
    sys.exit(asyncio.run(bridge(sys.argv[1], int(sys.argv[2]), sys.argv[3:])))


if __name__ == "__main__":
    main()
