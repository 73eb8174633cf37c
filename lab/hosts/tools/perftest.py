"""ib_write_bw and its kin in a container: a server waits for its client, the physics plays both."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from components.core.errors import UsageError
from components.core.record import record
from lab.hosts.containers import ContainerHost
from lab.hosts.daemon_request import ask_daemon
from lab.hosts.stream_tools import Streams
from lab.hosts.tools.call import ToolCall, ToolResult
from lab.hosts.tools.loopback import ADDRESSES, play_loopback

PORT: Final = 18515
SERVER_PATIENCE_S: Final = 120.0
VALUED: Final = frozenset({
    "-d", "-x", "-s", "-q", "-D", "-p", "-n", "-i", "-m", "-T", "-S", "-l", "-t", "--tclass",
    "--qp", "--size", "--duration", "--port", "--ib-dev", "--gid-index", "--use_cuda", "--iters",
    "--use_cuda_bus_id", "--out_json_file", "--mtu", "--tx-depth",
})  # fmt: skip


@record
class Waiting:
    """A server that waits for its client."""

    node: str
    hostname: str
    argv: tuple[str, ...]
    answer: asyncio.Future[ToolResult]


_SERVERS: Final[dict[tuple[Path, str, int], Waiting]] = {}
"""Lab, address and port to the server there, of all hosts that this process plays."""


def split_server(argv: tuple[str, ...]) -> tuple[str, int]:
    """The server that a command line names (empty on the server itself), and the port."""
    server, port = "", PORT
    words = list(argv)
    while words:
        word = words.pop(0)
        if word in ("-p", "--port") and words:
            port = int(words.pop(0))
        elif word in VALUED and words:
            words.pop(0)
        elif not word.startswith("-"):
            server = word
    return server, port


def _own(host: str) -> str:
    """The loopback address of one of the hosts that this process plays."""
    return f"127.0.0.1 of {host}"


class Perftest:
    """The perftest tools of one host."""

    def __init__(self, host: ContainerHost) -> None:
        """Act on `host`."""
        self._host = host

    async def run(self, call: ToolCall, _: Streams) -> ToolResult:
        """Serve one client, or be one."""
        server, port = split_server(call.argv)
        return await (self._connect(call, server, port) if server else self._serve(call, port))

    async def _serve(self, call: ToolCall, port: int) -> ToolResult:
        model = self._host.model
        future = asyncio.get_running_loop().create_future()
        waiting = Waiting(model.config.name, model.hostname, (call.tool, *call.argv), future)
        addresses = [cidr.partition("/")[0] for nic in model.nics for cidr in nic.addresses]
        names = (model.config.address, *addresses, _own(model.config.name))
        keys = [(self._host.lab, name, port) for name in names]
        if any(key in _SERVERS for key in keys):
            return ToolResult(1, err="Couldn't listen to port\n")
        try:
            _SERVERS.update(dict.fromkeys(keys, waiting))
            async with asyncio.timeout(SERVER_PATIENCE_S):
                return await future
        except TimeoutError:
            return ToolResult(1, err="Unable to init the socket connection\n")
        finally:
            for key in keys:
                _SERVERS.pop(key, None)

    async def _connect(self, call: ToolCall, server: str, port: int) -> ToolResult:
        model = self._host.model
        name = _own(model.config.name) if server in ADDRESSES else server
        waiting = _SERVERS.get((self._host.lab, name, port))
        if waiting is None:
            return ToolResult(1, err=(
                f"Couldn't connect to {server}:{port}\n"
                "Unable to open file descriptor for socket connection"
                "Unable to init the socket connection\n"
            ))  # fmt: skip
        if server in ADDRESSES:
            looped = play_loopback(model, call.argv)
            waiting.answer.set_result(looped)
            return looped
        pods: list[object] = [
            {"name": waiting.hostname, "node": waiting.node, "command": [*waiting.argv],
             "host_network": True},
            {"name": model.hostname, "node": model.config.name,
             "command": [call.tool, *call.argv], "host_network": True},
        ]  # fmt: skip
        body: dict[str, object] = {"op": "run_probe", "kind": "perftest", "pods": pods}
        try:
            answer = await ask_daemon(self._host.control, body)
        except UsageError as error:
            waiting.answer.set_result(ToolResult(1))
            return call.unmodelled(ToolResult(1, err=f"the lab cannot play this: {error}\n"))
        status = int(str(answer["exit_code"]))
        waiting.answer.set_result(ToolResult(status, str(answer["server_log"])))
        return ToolResult(status, str(answer["log"]))
