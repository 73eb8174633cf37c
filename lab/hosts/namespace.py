"""One long-lived bubblewrap namespace per lab host, entered by `enter.c`.

Inside, root is the machine's root with next to no power: every capability is dropped but those
that let it own, read and hand over the host's own files and processes. What it can see of the
outer machine is read-only, /sys and /proc/sys are the lab's.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from components.core.errors import UsageError
from components.core.record import record
from lab.hosts.compiled import ENTER, compiled
from lab.hosts.platform import CMDLINE, CPUINFO, SWAPS
from lab.hosts.rootfs import (
    CONTAINER_TOOLS,
    INNER_PYTHON,
    OUTER_BIN,
    OUTER_SBIN,
    OWN_FOLDERS,
    SHARED_ETC,
)

KEPT_CAPABILITIES: Final = {
    "chown": 0, "dac_override": 1, "fowner": 3, "kill": 5, "setgid": 6, "setuid": 7,
}  # fmt: skip
"""By the numbers of linux/capability.h."""
INNER_CONTROL = Path("/run/lab/daemon/control.sock")
CONTROL_VARIABLES = {"RAILYARD_LAB_CONTROL": str(INNER_CONTROL)}
"""How lab processes inside of a host (the node agent) find the lab's control socket."""
START_DEADLINE_S = 10.0
INNER_TMP = "/tmp"  # noqa: S108 - the tmpfs of the host itself
INNER_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@record
class HostPaths:
    """Where the parts of one host's file tree lie on the outer machine."""

    root: Path
    """The host's own folders."""
    files: Path
    """Its folder in the FUSE mount: `sys` and `procsys`."""
    tools: Path
    """The built `bin` and `sbin` of all hosts."""
    sockets: Path
    """Folder of the socket on which the emulated tools ask."""
    read_only: tuple[Path, ...]
    python_prefix: Path | None = None
    """The interpreter's prefix when every user of the host needs a way of their own to it."""
    trust: Path | None = None
    """The authorities that its image trusts; None for those of the outer machine."""


@record
class Who:
    """The user and groups of a process."""

    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = ()


ROOT: Final = Who()


@cache
def _enter() -> str:
    return str(compiled(ENTER))


@dataclass(slots=True)
class Namespace:
    """A running namespace: bubblewrap outside and the pid 1 inside."""

    outer: subprocess.Popen[bytes]
    init_pid: int
    program: str = field(default_factory=_enter)
    """What enters it; made before the first command needs it."""

    def argv(
        self, command: Sequence[str], who: Who = ROOT, *, cwd: str = "/", memlock: str = "-"
    ) -> list[str]:
        """The command line that runs `command` inside of the host.

        Args:
            command: Program and arguments.
            who: As whom it runs.
            cwd: Where, by the path inside.
            memlock: Bytes of memory that it may lock, or `unlimited`; `-` leaves the limit.
        """
        kept = sum(1 << number for number in KEPT_CAPABILITIES.values())
        groups = ",".join(map(str, who.groups)) or "-"
        ids = (str(who.uid), str(who.gid), groups)
        return [self.program, str(self.init_pid), cwd, *ids, memlock, f"{kept:x}", *command]

    def argv_after(self, prepare: Sequence[str], command: Sequence[str]) -> list[str]:
        """The same for root, with a command before it that may do everything.

        Args:
            prepare: Program and arguments; the rest of the command line follows.
            command: What runs at the end, with no more power than all others.
        """
        kept = ",".join(f"+{name}" for name in KEPT_CAPABILITIES)
        return [
            "/usr/bin/nsenter", "--target", str(self.init_pid),
            "--mount", "--pid", "--uts", "--ipc", "--wdns=/",
            *prepare,
            f"{OUTER_BIN}/setpriv", f"--bounding-set=-all,{kept}", "--inh-caps=-all",
            "--no-new-privs", "--reuid=0", "--regid=0", "--clear-groups", "--",
            *command,
        ]  # fmt: skip

    def set_hostname(self, name: str) -> None:
        """Change the host's own UTS name."""
        subprocess.run(
            ["/usr/bin/nsenter", "--target", str(self.init_pid), "--uts", "hostname", name],
            check=True,
            timeout=START_DEADLINE_S,
            stdin=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        """End everything inside, as a power cut does."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.init_pid, signal.SIGKILL)
        self.outer.kill()
        self.outer.wait(timeout=START_DEADLINE_S)


def check_prerequisites() -> None:
    """Say what is missing before the first host is started.

    Raises:
        UsageError: Not root, or a needed program or device is not there.
    """
    if os.geteuid() != 0:
        raise UsageError(
            "the lab's hosts are namespaces with a file tree of their own and need root: "
            "run the same command with sudo, for example `sudo make up`"
        )
    for tool, package in (("bwrap", "bubblewrap"), ("nsenter", "util-linux"),
                          ("setpriv", "util-linux"), ("umount", "mount")):  # fmt: skip
        if shutil.which(tool) is None:
            raise UsageError(f"{tool} is not installed: run `apt-get install -y {package}`")
    if not Path("/dev/fuse").exists():
        raise UsageError("/dev/fuse does not exist: run `modprobe fuse` on this machine")


def start_namespace(hostname: str, paths: HostPaths) -> Namespace:
    """Start a host's namespace with nothing in it but a sleeping process.

    Raises:
        UsageError: bubblewrap refused; its own text says why.
    """
    read_end, write_end = os.pipe()
    os.set_inheritable(write_end, True)  # noqa: FBT003 - the os module's own signature
    log = (paths.root / "log/namespace.log").open("wb")
    with log:
        outer = subprocess.Popen(
            ["bwrap", *_arguments(hostname, paths), "--info-fd", str(write_end),
             "--", "/bin/sh", "-c", "echo up; exec sleep infinity >/dev/null"],
            pass_fds=(write_end,),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd="/",
            env={"PATH": INNER_PATH, "LANG": "C.UTF-8"},
        )  # fmt: skip
    os.close(write_end)
    with os.fdopen(read_end, "rb") as info:
        text = info.read()
    # bubblewrap names the pid before it has mounted anything; the first line comes after that.
    if not text or outer.stdout is None or outer.stdout.readline() != b"up\n":
        outer.wait(timeout=START_DEADLINE_S)
        reason = (paths.root / "log/namespace.log").read_text().strip()
        raise UsageError(f"lab host {hostname}: bubblewrap refused to start: {reason}")
    return Namespace(outer, int(json.loads(text)["child-pid"]))


def _arguments(hostname: str, paths: HostPaths) -> list[str]:
    return [
        "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts",
        "--hostname", hostname, "--cap-drop", "ALL", "--new-session",
        "--ro-bind", "/usr", "/usr",
        "--proc", "/proc", "--bind", str(paths.files / "procsys"), "/proc/sys",
        "--ro-bind", str(paths.root / CMDLINE), "/proc/cmdline",
        "--ro-bind", str(paths.root / CPUINFO), "/proc/cpuinfo",
        "--ro-bind", str(paths.root / SWAPS), "/proc/swaps",
        "--bind", str(paths.files / "sys"), "/sys",
        "--dev", "/dev", "--tmpfs", "/run", "--tmpfs", INNER_TMP, "--chmod", "1777", INNER_TMP,
        *_usr_links(),
        *_tools(paths),
        *_own_folders(paths),
    ]  # fmt: skip


def _usr_links() -> list[str]:
    arguments: list[str] = []
    for link in ("bin", "sbin", "lib", "lib32", "lib64"):
        if Path("/", link).is_symlink():
            arguments += ["--symlink", f"usr/{link}", f"/{link}"]
        elif Path("/", link).exists():
            arguments += ["--ro-bind", f"/{link}", f"/{link}"]
    return arguments


def _tools(paths: HostPaths) -> list[str]:
    arguments: list[str] = []
    inner = ("/run/lab", OUTER_BIN, OUTER_SBIN, INNER_PYTHON, CONTAINER_TOOLS, "/run/lab/daemon")
    for folder in inner:
        arguments += ["--perms", "0755", "--dir", folder]
    if paths.python_prefix is not None:
        arguments += ["--ro-bind", str(paths.python_prefix), INNER_PYTHON]
    return [
        *arguments,
        "--ro-bind", "/usr/bin", OUTER_BIN, "--ro-bind", "/usr/sbin", OUTER_SBIN,
        "--ro-bind", str(paths.tools / "bin"), "/usr/bin",
        "--ro-bind", str(paths.tools / "sbin"), "/usr/sbin",
        "--ro-bind", str(paths.tools / "container"), CONTAINER_TOOLS,
        "--bind", str(paths.sockets), "/run/lab/daemon",
        "--dir", "/run/lock", "--dir", "/run/systemd/system", "--dir", "/run/sshd",
    ]  # fmt: skip


def _own_folders(paths: HostPaths) -> list[str]:
    arguments: list[str] = []
    for folder in OWN_FOLDERS:
        arguments += ["--bind", str(paths.root / folder), f"/{folder}"]
    for name in SHARED_ETC:
        if Path("/etc", name).exists():
            arguments += ["--ro-bind", f"/etc/{name}", f"/etc/{name}"]
    if paths.trust is not None:
        arguments += ["--ro-bind", str(paths.trust), "/etc/ssl/certs/ca-certificates.crt"]
    for path in paths.read_only:
        arguments += ["--ro-bind", str(path), str(path)]
    return arguments
