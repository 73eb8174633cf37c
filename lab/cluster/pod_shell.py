"""Runs the shell script of a probe's pod against the files that its container would see.

A probe's script looks for its RDMA devices and GIDs under /sys, checks its memlock limit and asks
for names before it calls the tool. That part is run for real, on a small tree made from the pod's
attachments and its node's cards; the tool itself only writes down how it was called, for the
physics to play.
"""

from __future__ import annotations

import ipaddress
import os
import re
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from components.core.record import field, record, replace
from lab.cluster.image_files import GpuAccess, lay_gpu_programs, lay_out, path_of
from lab.cluster.images import PROBE, Image

_TIMEOUT_S = 20
_GPU_TIMEOUT_S = 90
"""A look at GPUs before, during and after a load asks the lab daemon some twenty times."""
_SHELLS = {"sh", "bash"}
_SCRIPT_WORDS = 3
WRAPPER_WORDS = 4
"""`sh`, `-c`, the script, and the name that it is given."""
_NAMES = (
    "getent() {\n"
    '  [ "$1" = hosts ] || return 2\n'
    '  grep "^[^ ]* $2\\$" "$RAILYARD_LAB_NAMES" || return 2\n'
    "}\n"
)
"""`getent hosts NAME` from the names that the cluster's DNS would know; 2 where it knows none."""
_PATHS = re.compile(
    r"(?<![\w./])/(sys|tmp|job|root|opt|usr/sbin|usr/local|etc/mpi|etc/ssh|etc/nccl\.conf)(?=[/\s\"';]|$)"
)
_NOT_FOUND = 127
_LINK_LOCAL = "fe80::ff:fe00:1"
_INVALID = Path("/sys/class/net/lo/speed")
"""A file whose read fails with EINVAL: the loopback interface has no speed."""


@record
class Gid:
    """One address in a GID table, and the interface that it belongs to."""

    ip: str
    """IPv4; empty for the interface's own link-local address."""
    interface: str
    hidden: bool = False
    """The interface is in another network namespace, and the driver shows nothing of the entry."""


@record
class ShownDevice:
    """One RDMA device as a container sees it under /sys."""

    rdma: str
    interface: str
    """The interface in the container whose own device it is; empty where none is."""
    gids: tuple[Gid, ...] = ()
    link_layer: str = "Ethernet"
    state: str = "4: ACTIVE"
    rate: str = "100 Gb/sec (4X EDR)"
    folder: str = ""
    """Of its PCI function under /sys; empty where that is not known."""


@record
class Container:
    """What a script finds in its container."""

    env: Mapping[str, str]
    devices: Sequence[ShownDevice] = ()
    memlock_kib: int | None = None
    """What `ulimit -l` prints; None is unlimited."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Path to text."""
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """Host name to address."""
    image: Image = PROBE
    """What it is made of."""
    hostname: str = ""
    """What `hostname` prints; empty for the name of this machine, as in the host's network."""
    gpu_folders: Sequence[str] = ()
    """Of the machine's GPUs under /sys, which every container sees."""
    gpus: GpuAccess | None = None
    """Its programs run on GPUs as they are called; None: a call is written down, and ends."""


@record
class Called:
    """One call of a tool that is written down."""

    words: tuple[str, ...]
    """The tool and its arguments."""
    before: str
    """What the script printed before it, and after the call before."""


@record
class ScriptRun:
    """How a script ended: with a call of a tool, or before it."""

    call: tuple[str, ...]
    """The tool and its arguments; empty where the script ended without calling one."""
    output: str = ""
    """What the script printed itself."""
    exit_code: int = 0
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """NCCL's and UCX' variables at the call."""
    first_call: tuple[str, ...] = ()
    """The call before this one, where a script makes two; both begin with the same variables."""
    first_output: str = ""
    """What the script printed before that."""
    calls: tuple[Called, ...] = ()
    """All calls, of a script that makes several."""
    rest: str = ""
    """What the script printed after the last one."""
    conf: Mapping[str, str] = field(default_factory=dict[str, str])
    """What /etc/nccl.conf says, read as NCCL reads it (`setEnvFile` of its src/misc/param.cc)."""


def script_of(command: Sequence[str]) -> str:
    """The script of `sh -c SCRIPT`; empty for any other command."""
    is_script = len(command) >= _SCRIPT_WORDS and command[0].rpartition("/")[2] in _SHELLS
    return command[2] if is_script and command[1].endswith("c") else ""


def program_of(command: Sequence[str]) -> tuple[str, ...]:
    """The program behind the scripts that run before it: `sh -c SCRIPT NAME PROGRAM …`."""
    rest = tuple(command)
    while script_of(rest) and len(rest) > WRAPPER_WORDS:
        rest = rest[WRAPPER_WORDS:]
    return rest


def run_script(command: Sequence[str], container: Container) -> ScriptRun:
    """Run the script of a command up to its call of a tool.

    Args:
        command: what the container runs; anything but `sh -c SCRIPT …` is taken as the call.
        container: what the script finds around it.
    """
    script = script_of(command)
    if not script:
        return _start(command, container.image)
    with tempfile.TemporaryDirectory(prefix="railyard-pod-") as folder:
        root = Path(folder)
        _furnish(root, container)
        limit = container.memlock_kib
        prelude = f"ulimit() {{ echo {'unlimited' if limit is None else limit}; }}\n{_NAMES}"
        if container.hostname:
            prelude += f"hostname() {{ echo {shlex.quote(container.hostname)}; }}\n"
        text = prelude + _PATHS.sub(rf"{root}/\1", script)
        words = [_PATHS.sub(rf"{root}/\1", word) for word in command[_SCRIPT_WORDS:]]
        return _run([text, *words], container, root)


def _start(command: Sequence[str], image: Image) -> ScriptRun:
    """A program that is called without a shell; the words are runc's."""
    if command and not image.has(command[0]):
        text = f'exec: "{command[0]}": executable file not found in $PATH: unknown\n'
        return ScriptRun((), text, _NOT_FOUND)
    return ScriptRun(tuple(command), calls=(Called(tuple(command), ""),))


def _furnish(root: Path, container: Container) -> None:
    for folder in ("tmp", "sys/class/infiniband", "root/.ssh", "etc/mpi", "etc/ssh"):
        (root / folder).mkdir(parents=True)
    (root / "etc/ssh/ssh_config").write_text("Host *\n")
    lay_out(container.image, root)
    if container.gpus is not None:
        lay_gpu_programs(container.gpus, root)
    for device in container.devices:
        _show_device(root, device)
    for folder in container.gpu_folders:
        _show_function(root, folder, {"vendor": "0x10de", "class": "0x030200"})
    for path, text in container.files.items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    lines = [f"{address} {name}\n" for name, address in container.names.items()]
    (root / "names").write_text("".join(lines))


def _run(words: Sequence[str], container: Container, root: Path) -> ScriptRun:
    call = root / "call"
    ours = {
        "PATH": path_of(container.image, root),
        "RAILYARD_LAB_CALL": str(call),
        "RAILYARD_LAB_OUT": str(root / "out"),
        "RAILYARD_LAB_NAMES": str(root / "names"),
    }
    limit_s = _GPU_TIMEOUT_S if container.gpus else _TIMEOUT_S
    exit_code = _run_group(words, {**container.env, **ours}, root, limit_s)
    if exit_code is None:
        return ScriptRun((), f"the script called no tool within {limit_s} s\n", 124)
    printed = (root / "out").read_text()
    if not call.exists():
        return ScriptRun((), printed.replace(str(root), ""), exit_code)
    first = Path(f"{call}.first")
    before = _words(first, root) if first.exists() else ()
    at = int(Path(f"{call}.at").read_text()) if before else 0
    pairs = (line.partition("=") for line in Path(f"{call}.env").read_text().splitlines())
    env = {name: value for name, _, value in pairs}
    first_output, output = (part.replace(str(root), "") for part in (printed[:at], printed[at:]))
    conf = _nccl_conf(root / "etc/nccl.conf")
    calls, rest = _calls(Path(f"{call}.all"), printed, root)
    return ScriptRun(
        _words(call, root), output, 0, env, before, first_output, conf=conf, calls=calls, rest=rest
    )


def _calls(file: Path, printed: str, root: Path) -> tuple[tuple[Called, ...], str]:
    """Each call with what was printed before it, and what was printed after the last."""
    words = file.read_text().split("\0")[:-1]
    data, found, end = printed.encode(), list[Called](), 0
    while words:
        place, count = int(words[0]), int(words[1])
        text = data[end:place].decode(errors="replace").replace(str(root), "")
        called = tuple(word.replace(str(root), "") for word in words[2 : 2 + count])
        found.append(Called(called, text))
        words, end = words[2 + count :], place
    return tuple(found), data[end:].decode(errors="replace").replace(str(root), "")


def _run_group(
    words: Sequence[str], env: Mapping[str, str], root: Path, limit_s: int
) -> int | None:
    """Run a script until it ends; None if it did not, and then all that it started is ended."""
    with (
        (root / "out").open("ab") as out,
        subprocess.Popen(
            ["/bin/sh", "-c", *words],
            env=env,
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            process_group=0,
        ) as process,
    ):
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None


def _nccl_conf(file: Path) -> dict[str, str]:
    """The variables of the file; the first line that names one counts."""
    lines = file.read_text().splitlines() if file.exists() else []
    pairs = (line.partition("=") for line in reversed(lines) if "=" in line)
    return {name: value for name, _, value in pairs}


def _words(call: Path, root: Path) -> tuple[str, ...]:
    """A call as it was written down."""
    return tuple(call.read_text().replace(str(root), "").split("\0")[:-1])


def _show_device(root: Path, device: ShownDevice) -> None:
    if device.interface:
        own = root / "sys/class/net" / device.interface / "device/infiniband" / device.rdma
        own.mkdir(parents=True, exist_ok=True)
    if device.folder:
        shown = _show_function(root, device.folder, {"vendor": "0x15b3", "class": "0x020000"})
        (root / "sys/class/infiniband" / device.rdma).mkdir(parents=True, exist_ok=True)
        (root / "sys/class/infiniband" / device.rdma / "device").symlink_to(shown)
    port = root / "sys/class/infiniband" / device.rdma / "ports/1"
    for folder in ("gids", "gid_attrs/types", "gid_attrs/ndevs"):
        (port / folder).mkdir(parents=True)
    for name in ("link_layer", "state", "rate"):
        (port / name).write_text(f"{getattr(device, name)}\n")
    # mlx5's order: each address once for RoCE v1 and once for v2 (show_gids, sources.md#host-qos).
    entries = [(gid, kind) for gid in _gid_table(device) for kind in ("IB/RoCE v1", "RoCE v2")]
    for index, (gid, kind) in enumerate(entries):
        address = ipaddress.IPv6Address("::" if gid.hidden else gid.ip)
        (port / "gids" / str(index)).write_text(f"{address.exploded}\n")
        for attribute, text in (("types", kind), ("ndevs", gid.interface)):
            file = port / "gid_attrs" / attribute / str(index)
            if gid.hidden:
                file.symlink_to(_INVALID)
            else:
                file.write_text(f"{text}\n")


def _show_function(root: Path, folder: str, files: Mapping[str, str]) -> Path:
    """A PCI function where the machine has it, and in the list of all."""
    place = root / "sys" / folder
    place.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (place / name).write_text(f"{text}\n")
    entry = root / "sys/bus/pci/devices" / place.name
    if not entry.exists():
        entry.parent.mkdir(parents=True, exist_ok=True)
        entry.symlink_to(place)
    return place


def _gid_table(device: ShownDevice) -> Iterator[Gid]:
    """The entries of a device as IPv6 addresses, in their order."""
    if all(gid.ip for gid in device.gids):
        yield Gid(_LINK_LOCAL, device.interface)
    for gid in device.gids:
        yield replace(gid, ip=f"::ffff:{gid.ip}" if gid.ip else _LINK_LOCAL)
