"""The socket of emulated tools: one that waits for its input holds up no other."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from lab.hosts.model import HostModel
from lab.hosts.tool_server import HEADER, SOCKET_NAME, ToolServer
from tests.lab_hosts.conftest import make_host

DEADLINE_S = 20.0
RULES = "table inet mine\n"


@pytest.fixture
def model(tmp_path: Path) -> HostModel:
    made = HostModel(make_host("gpu01", "127.0.0.1"), tmp_path / "nvram.json")
    made.boot("gpu01")
    return made


@contextmanager
def serving(model: HostModel, folder: Path) -> Generator[Path]:
    server = ToolServer(folder, model, folder, {}, {})
    server.start()
    try:
        yield folder / SOCKET_NAME
    finally:
        server.stop()


def call(place: Path, stdin: int, *words: str) -> socket.socket:
    """The connection of a client that asked, and did not read its answer yet."""
    request: dict[str, object] = {"tool": words[0], "argv": words[1:], "cwd": "/", "env": {}}
    raw = json.dumps(request | {"umask": 0o022}).encode()
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(str(place))
    socket.send_fds(connection, [HEADER.pack(len(raw)) + raw], [stdin, stdin, stdin])
    connection.setblocking(False)  # noqa: FBT003 - the library's own
    return connection


async def status_of(connection: socket.socket) -> str:
    """The first part of an answer."""
    answer = await asyncio.get_running_loop().sock_recv(connection, 1 << 16)
    size = HEADER.unpack_from(answer)[0]
    return answer[HEADER.size : HEADER.size + size].decode()


async def _play(model: HostModel, folder: Path) -> None:
    with ExitStack() as stack:
        place = stack.enter_context(serving(model, folder))
        rules, writer = os.pipe()
        stack.callback(os.close, rules)
        waiting = stack.enter_context(call(place, rules, "nft", "-f", "-"))
        for _ in range(2):  # the second one is read after all that the first one let begin
            other = stack.enter_context(call(place, rules, "hostname"))
            assert await status_of(other) == "0"
        assert model.lock.acquire(blocking=False)  # what serves /sys takes it too
        model.lock.release()
        os.write(writer, RULES.encode())
        os.close(writer)
        assert await status_of(waiting) == "0"
        assert list(model.platform.nft) == ["mine"]


@pytest.mark.timeout(60)  # the fault that this is for blocks the whole process
def test_a_tool_that_waits_for_its_input_holds_up_no_other(
    model: HostModel, tmp_path: Path
) -> None:
    """`sed … | nft -f -`: sed itself looks at /sys, which the same daemon serves."""
    asyncio.run(asyncio.wait_for(_play(model, tmp_path), DEADLINE_S))


def test_a_question_is_answered_from_the_callers_input(model: HostModel, tmp_path: Path) -> None:
    async def play() -> None:
        with ExitStack() as stack:
            place = stack.enter_context(serving(model, tmp_path))
            answer, writer = os.pipe()
            stack.callback(os.close, answer)
            words = ("mlxconfig", "-d", "0000:05:00.0", "set", "NUM_OF_VFS=4")
            asked = stack.enter_context(call(place, answer, *words))
            os.write(writer, b"y\nfor the next command\n")
            os.close(writer)
            assert await status_of(asked) == "0"
            assert os.read(answer, 99) == b"for the next command\n"

    asyncio.run(asyncio.wait_for(play(), DEADLINE_S))
