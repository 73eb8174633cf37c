"""A relay that adds a round-trip time to every connection, in a process of its own.

`python -m bench.relay SECONDS LISTEN:PORT=TARGET:PORT…` prints the ports it listens on. A port of 0
is any free one. It ends with its stdin.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, cast

from components.core.record import record

CHUNK_BYTES: Final = 1 << 18


@record
class Link:
    """Where the relay listens, and where it connects to."""

    address: str
    port: int
    target: str
    target_port: int

    def __str__(self) -> str:
        """As on the command line."""
        return f"{self.address}:{self.port}={self.target}:{self.target_port}"


def parse_link(text: str) -> Link:
    """Read a link of the command line."""
    ends = [end.rpartition(":") for end in text.split("=")]
    (address, _, port), (target, _, target_port) = ends
    return Link(address, int(port), target, int(target_port))


@contextmanager
def running_links(links: Sequence[Link], round_trip_s: float) -> Generator[list[int]]:
    """Run a relay for these links, and yield the ports it listens on."""
    command = [sys.executable, "-m", "bench.relay", str(round_trip_s), *map(str, links)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as relay:
        assert relay.stdin  # noqa: S101 - it has a pipe
        assert relay.stdout  # noqa: S101 - it has a pipe
        try:
            yield cast("list[int]", json.loads(relay.stdout.readline()))
        finally:
            relay.stdin.close()


@contextmanager
def running_relay(target: str, port: int, round_trip_s: float) -> Generator[int]:
    """A port that leads to a server with a round-trip time; the server's own port if that is 0."""
    if not round_trip_s:
        yield port
        return
    with running_links([Link("127.0.0.1", 0, target, port)], round_trip_s) as ports:
        yield ports[0]


async def _carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float
) -> None:
    """Pass on what comes, each chunk after the delay; then the end."""
    loop = asyncio.get_running_loop()
    with suppress(ConnectionError):
        while chunk := await reader.read(CHUNK_BYTES):
            loop.call_later(delay_s, writer.write, chunk)
    loop.call_later(delay_s, writer.close)


async def _serve(link: Link, delay_s: float) -> asyncio.Server:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, to_there = await asyncio.open_connection(link.target, link.target_port)
        except OSError:
            writer.close()
            return
        await asyncio.sleep(2 * delay_s)  # the handshake
        await asyncio.gather(_carry(reader, to_there, delay_s), _carry(there, writer, delay_s))

    return await asyncio.start_server(connected, link.address, link.port, backlog=1024)


async def main(round_trip_s: float, links: Sequence[Link]) -> None:
    """Listen until stdin ends."""
    servers = [await _serve(link, round_trip_s / 2) for link in links]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    sys.stdout.write(f"{json.dumps(ports)}\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)  # connections may be open, which asyncio would report one by one


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]), [parse_link(text) for text in sys.argv[2:]]))
