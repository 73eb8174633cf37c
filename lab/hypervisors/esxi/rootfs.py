"""The file tree and the namespace of an ESXi host: little more than busybox, as on the real one.

There is no /proc, no /sys, no bash, no tr, no python and no sudo. /etc and /tmp are RAM disks, made
again at each boot; only /vmfs lasts.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from components.core.errors import UsageError
from lab.hosts.namespace import INNER_TMP, START_DEADLINE_S, Namespace
from lab.hosts.rootfs import CLIENT_NAME
from lab.hypervisors.config import EsxiConfig
from lab.hypervisors.esxi.release import parse_release

INNER_PATH = "/bin:/sbin"
TOOLS = ("esxcli", "vim-cmd", "vmware", "reboot", "lspci", "vsish", "esxcfg-nics", "localcli")
"""Programs that ask the lab; those without a model are refused and recorded."""
APPLETS = (
    "[", "[[", "awk", "basename", "cat", "chmod", "chown", "cksum", "clear", "cp", "cut",
    "date", "dd", "diff", "dirname", "du", "echo", "egrep", "env", "expr", "false", "fgrep",
    "find", "grep", "gunzip", "gzip", "head", "hexdump", "hostname", "kill", "ln", "ls",
    "md5sum", "mkdir", "mkfifo", "mktemp", "mv", "nohup", "od", "printf", "readlink", "rm",
    "rmdir", "sed", "seq", "setsid", "sha1sum", "sha256sum", "sha512sum", "sleep", "sort",
    "stat", "sync", "tail", "tar", "tee", "test", "time", "timeout", "touch", "true", "uname",
    "uniq", "usleep", "vi", "wc", "which", "xargs", "zcat",
)  # fmt: skip
"""Applets of ESXi's busybox. Reports of a real 8.0 U3 say what is missing (bash, tr, `command`);
a whole list has no capture, so this one holds what public scripts for ESXi use."""
BUSYBOX = ".busybox"
COMMAND_BUILTIN = re.compile(rb"(?<=\0[0-7])command(?=\0)")
"""The name of ash's builtin `command` in its table: a digit of flags, the name, a zero byte."""


def build_tools(folder: Path, client: Path) -> None:
    """Make the host's /bin, with busybox as ash and the tools that ask the lab.

    Args:
        folder: Where to build `bin`; made again.
        client: The program that passes a call on to the lab.

    Raises:
        UsageError: busybox is not installed.
    """
    busybox = shutil.which("busybox")
    if busybox is None:
        raise UsageError("the lab's ESXi hosts need busybox: run `apt-get install -y busybox`")
    shutil.rmtree(folder, ignore_errors=True)
    target = folder / "bin"
    target.mkdir(parents=True)
    # ESXi's ash has no `command`. Another name of the same length, at the same place in the
    # alphabet, leaves the program's sorted table of builtins as it is.
    program = COMMAND_BUILTIN.sub(b"comma~d", Path(busybox).read_bytes())
    (target / BUSYBOX).write_bytes(program)
    (target / BUSYBOX).chmod(0o755)
    for name in ("sh", "ash", *APPLETS):
        (target / name).symlink_to(BUSYBOX)
    shutil.copy2(client, target / CLIENT_NAME)
    for name in TOOLS:
        (target / name).symlink_to(CLIENT_NAME)


def make_ram_disks(folder: Path, config: EsxiConfig) -> None:
    """Lay out /etc, /tmp and /var as a boot does; what was in them is gone."""
    for name in ("etc", "tmp", "var"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir(parents=True)
    (folder / "tmp").chmod(0o1777)
    for name in ("var/log", "var/run", "var/lock", "var/tmp", "etc/vmware"):
        (folder / name).mkdir()
    keys = folder / "etc/ssh/keys-root"
    keys.mkdir(parents=True, mode=0o755)
    (keys / "authorized_keys").write_text(config.authorized_key.strip() + "\n")
    (keys / "authorized_keys").chmod(0o600)
    release = parse_release(config.release)
    (folder / "etc/passwd").write_text("root:x:0:0:Administrator:/:/bin/sh\n")
    (folder / "etc/group").write_text("root:x:0:root\n")
    (folder / "etc/profile").write_text(f"PATH={INNER_PATH}\n")
    (folder / "etc/hosts").write_text("127.0.0.1\tlocalhost.localdomain localhost\n")
    (folder / "etc/vmware/.buildInfo").write_text(f"BUILDNUMBER:{release.build}\n")


def start_namespace(folder: Path, config: EsxiConfig) -> Namespace:
    """Start the host's namespace with nothing in it but a sleeping process.

    Raises:
        UsageError: bubblewrap refused; its own text says why.
    """
    log = folder / "namespace.log"
    with log.open("wb") as errors:
        outer = subprocess.Popen(
            ["bwrap", *_arguments(folder, config.name),
             "--", "/bin/sh", "-c", "echo up; while :; do sleep 3600; done >/dev/null"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd="/",
            env={"PATH": INNER_PATH},
        )  # fmt: skip
    if outer.stdout is None or outer.stdout.readline() != b"up\n":
        outer.wait(timeout=START_DEADLINE_S)
        raise UsageError(f"{config.name}: bubblewrap refused to start: {log.read_text().strip()}")
    children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
    return Namespace(outer, int(children[0]))


def _arguments(folder: Path, hostname: str) -> list[str]:
    arguments = [
        "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts",
        "--hostname", hostname, "--cap-drop", "ALL", "--new-session", "--dev", "/dev",
        "--ro-bind", str(folder / "tools/bin"), "/bin", "--symlink", "bin", "/sbin",
        "--bind", str(folder / "tmp"), INNER_TMP,
        "--perms", "0755", "--dir", "/run/lab",
        "--bind", str(folder / "sockets"), "/run/lab/daemon",
    ]  # fmt: skip
    for name in ("etc", "var", "vmfs"):
        arguments += ["--bind", str(folder / name), f"/{name}"]
    return [*arguments, *_libraries()]


def _libraries() -> list[str]:
    """Libraries for busybox."""
    arguments: list[str] = []
    for name in ("lib", "lib32", "lib64"):
        if Path("/usr", name).exists():
            arguments += ["--ro-bind", f"/usr/{name}", f"/usr/{name}"]
        if Path("/", name).is_symlink():
            arguments += ["--symlink", f"usr/{name}", f"/{name}"]
        elif Path("/", name).exists():
            arguments += ["--ro-bind", f"/{name}", f"/{name}"]
    if Path("/etc/ld.so.cache").exists():
        arguments += ["--ro-bind", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    return arguments
