"""Answers the emulated tools of one host on a unix socket that its namespace sees."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Awaitable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from lab.hosts.fuse_server import FORGOTTEN_S
from lab.hosts.model import HostModel
from lab.hosts.stream_tools import Relay, RunOnStreams, Streams
from lab.hosts.tools import (
    dcb,
    devices,
    dkms,
    firmware,
    gpus,
    ip_tool,
    modules,
    mst,
    names,
    nft,
    nmcli,
    package_state,
    packages,
    pci,
    qos,
    registers,
    subnet_tools,
)
from lab.hosts.tools.call import AsyncTool, InputWanted, Tool, ToolCall, ToolResult

HEADER = struct.Struct("!I")
PEER_CREDENTIALS = struct.Struct("3i")
MAX_REQUEST_BYTES = 1 << 20
SOCKET_NAME = "tool.sock"

SYNC_TOOLS: Mapping[str, Tool] = {
    "ip": ip_tool.ip,
    "modprobe": modules.modprobe,
    "rmmod": modules.rmmod,
    "lsmod": modules.lsmod,
    "modinfo": modules.modinfo,
    "sysctl": modules.sysctl,
    "depmod": modules.quiet_success,
    "update-initramfs": modules.quiet_success,
    "update-grub": modules.update_grub,
    "udevadm": modules.quiet_success,
    "devlink": devices.devlink,
    "dcb": dcb.dcb,
    "rdma": devices.rdma,
    "dpkg": package_state.dpkg,
    "dpkg-query": package_state.dpkg_query,
    "df": package_state.df,
    "mokutil": dkms.mokutil,
    "hostname": names.hostname,
    "hostnamectl": names.hostnamectl,
    "uname": names.uname,
    "date": names.date,
    "nft": nft.nft,
}
PACKAGE_TOOLS: Mapping[str, Tool] = {
    "nmcli": nmcli.nmcli,
    "ethtool": qos.ethtool,
    "mlnx_qos": qos.mlnx_qos,
    "cma_roce_mode": qos.cma_roce_mode,
    "cma_roce_tos": qos.cma_roce_tos,
    "mlxreg": registers.mlxreg,
    "mstreg": registers.mlxreg,
    "setpci": pci.setpci,
    "lspci": devices.lspci,
    "mlxconfig": firmware.mlxconfig,
    "mstconfig": firmware.mlxconfig,
    "mlxfwreset": firmware.mlxfwreset,
    "mstfwreset": firmware.mlxfwreset,
    "flint": firmware.flint,
    "mstflint": firmware.flint,
    "mst": mst.mst,
    "ibdev2netdev": devices.ibdev2netdev,
    "ibstat": devices.ibstat,
    "ibv_devinfo": devices.ibv_devinfo,
    "nvidia-smi": gpus.nvidia_smi,
    "dkms": dkms.dkms,
    "ofed_info": dkms.ofed_info,
    "ofed_uninstall.sh": dkms.ofed_uninstall,
    "openibd": dkms.openibd,
    "mlnxofedinstall.lab": dkms.mlnxofedinstall,
    "doca-kernel-support": dkms.doca_kernel_support,
}
"""Programs that a package brings: not on a host without it."""
SUBNET_TOOLS = subnet_tools.REAL_TOOLS | {"ibdiagnet"}
"""Programs of packages that ask the InfiniBand subnet, and wait for its answer."""
ASYNC_TOOL_NAMES = ("systemctl", "systemd-run", "journalctl", "reboot", "shutdown", "sudo",
                    "apt-get")  # fmt: skip
TOOL_NAMES = frozenset((*SYNC_TOOLS, *ASYNC_TOOL_NAMES))
"""Tools of every host; those of packages and containers have folders of their own."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the client in the namespace sends."""

    tool: str
    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    umask: int


REQUEST = TypeAdapter(Request)


class ToolServer:
    """The socket of one host, and which tool answers what."""

    def __init__(
        self,
        folder: Path,
        model: HostModel,
        root: Path,
        async_tools: Mapping[str, AsyncTool],
        streamed: Mapping[str, RunOnStreams],
    ) -> None:
        """Serve the tools on a socket in `folder`."""
        self._path = folder / SOCKET_NAME
        self._model = model
        self._root = root
        self._async = async_tools
        self._streamed = streamed
        self._listener: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Listen; needs a running event loop."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.settimeout(0)
        # A path of the lab may be longer than the 108 bytes of a socket address.
        folder = os.open(self._path.parent, os.O_PATH | os.O_DIRECTORY)
        try:
            listener.bind(f"/proc/self/fd/{folder}/{SOCKET_NAME}")
        finally:
            os.close(folder)
        self._path.chmod(0o666)
        listener.listen(64)
        self._listener = listener
        self._spawn(self._accept(listener))

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        """Stop listening and drop every call."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for task in list(self._tasks):
            task.cancel()
        self._path.unlink(missing_ok=True)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            connection, _ = await loop.sock_accept(listener)
            self._spawn(self._serve(connection))

    async def _serve(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        streams = Streams([], Relay(connection))
        try:
            connection.settimeout(None)
            request = await asyncio.to_thread(_receive, connection, streams)
            connection.settimeout(0)
            raw = connection.getsockopt(
                socket.SOL_SOCKET, socket.SO_PEERCRED, PEER_CREDENTIALS.size
            )
            _, uid, gid = PEER_CREDENTIALS.unpack(raw)
            before = self._model.shape()
            result = await self._answer(request, (uid, gid), streams)
            if self._model.shape() != before:
                await asyncio.sleep(FORGOTTEN_S)
            await loop.sock_sendall(connection, render_answer(result))
        except (OSError, EOFError, ValueError):
            # The client went away, as a killed process does; nobody waits for the answer.
            return
        finally:
            streams.close()
            connection.close()

    async def _answer(self, request: Request, who: tuple[int, int], streams: Streams) -> ToolResult:
        call = ToolCall(
            request.tool,
            request.argv,
            *who,
            request.cwd,
            self._model,
            self._root,
            env=request.env,
            umask=request.umask,
            stdin_text=lambda: _read_line(streams),
        )
        if request.tool in self._streamed:
            return await self._streamed[request.tool](call, streams)
        if request.tool in self._async:
            return await self._async[request.tool](call)
        if request.tool in SUBNET_TOOLS:
            return await subnet_tools.run_tool(call, streams)
        tool = SYNC_TOOLS.get(request.tool) or PACKAGE_TOOLS.get(request.tool)
        if tool is None:
            return ToolResult(127, err=f"{request.tool}: command not found\n")
        given: list[str] = []
        while True:
            lines = iter(given)
            with self._model.lock, contextlib.suppress(InputWanted):
                return tool(replace(call, stdin_text=lambda: _next(lines)))  # noqa: B023 - called now
            # Without the lock and beside the loop: who writes it may need this daemon's answer.
            given.append(await asyncio.to_thread(_read_line, streams))


def render_answer(result: ToolResult) -> bytes:
    """What the client reads: status, output, errors, path and text of each file, and an end."""
    files = (part for pair in result.files.items() for part in pair)
    parts = (str(result.rc), result.out, result.err, *files, "")
    raw = (part.encode("utf-8", "surrogateescape") for part in parts)
    return b"".join(HEADER.pack(len(part)) + part for part in raw)


def _receive(connection: socket.socket, streams: Streams) -> Request:
    data, descriptors, _, _ = socket.recv_fds(connection, MAX_REQUEST_BYTES, 3)
    streams.descriptors = list(descriptors)
    while len(data) < HEADER.size or len(data) < HEADER.size + HEADER.unpack_from(data)[0]:
        part = connection.recv(MAX_REQUEST_BYTES)
        if not part:
            raise EOFError
        data += part
    return REQUEST.validate_json(data[HEADER.size :])


def _next(lines: Iterator[str]) -> str:
    for line in lines:
        return line
    raise InputWanted


def _read_line(streams: Streams) -> str:
    text = b""
    while not text.endswith(b"\n"):
        byte = os.read(streams.descriptors[0], 1)
        if not byte:
            break
        text += byte
    return text.decode(errors="replace")


def _is_absent(root: Path, path: Path) -> bool:
    """The command is a program of a package that this host does not have."""
    if not path.is_symlink() or not str(path.readlink()).startswith(f"/{packages.PROGRAMS}"):
        return False
    return not os.path.lexists(root / str(path.readlink()).lstrip("/"))


def find_command(root: Path, tools: Path, name: str) -> str | None:
    """Absolute path inside of the host of a command, by secure_path."""
    if name.startswith("/"):
        return name
    for folder in ("usr/local/sbin", "usr/local/bin"):
        if os.access(root / folder / name, os.X_OK):
            return f"/{folder}/{name}"
    for folder in ("sbin", "bin"):
        path = tools / folder / name
        if os.path.lexists(path) and not _is_absent(root, path):
            return f"/usr/{folder}/{name}"
    return None
