"""A network namespace of the lab in which unpacked programs of Debian run as on a machine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from components.core.errors import UsageError
from lab.hosts.namespace import INNER_TMP

START_DEADLINE_S: Final = 120.0
"""Daemons start within half a second; ten switches on two shared cores took ten."""
RUN_DEADLINE_S: Final = 60.0
UP: Final = b"up\n"
LOG_FILE: Final = "start.log"
_USERS: Final = "root:x:0:0:root:/:/usr/bin/sh\n_lldpd:x:101:101::/run/lldpd:/usr/bin/sh\n"
_GROUP: Final = "root:x:0:\n_lldpd:x:101:\nfrrvty:x:0:\n"
_PAM: Final = "auth sufficient pam_permit.so\naccount sufficient pam_permit.so\n"
"""Without an account line vtysh of Debian 13 ends before it has asked anything."""
_FILES: Final = {
    "passwd": _USERS,
    "group": _GROUP,
    "pam.d/frr": _PAM,
    "frr/vtysh.conf": "no service integrated-vtysh-config\n",
}
_TEST: Final = "link add name railyard0 type veth peer name railyard1\n"


def why_no_namespaces() -> str | None:
    """Why this machine makes no network namespaces with cables; None: it does."""
    words = ["unshare", "--net", "ip", "-batch", "-"]
    if shutil.which(words[2]) is None:
        return "`ip` is not installed (`apt-get install -y iproute2`)"
    done = subprocess.run(
        words, input=_TEST, capture_output=True, text=True, timeout=RUN_DEADLINE_S, check=False
    )
    return (done.stderr.strip().splitlines() or ["no reason given"])[0] if done.returncode else None


def wire(lines: Sequence[str]) -> None:
    """Give lines to `ip -batch` where the lab runs: cables have their ends in two namespaces.

    Raises:
        UsageError: The kernel refused one.
    """
    if lines:
        _batch(["ip", "-batch", "-"], lines)


class Space:
    """A running namespace; what runs in it ends with it, and it with the process that made it."""

    def __init__(self, name: str, unpacked: Path, folder: Path) -> None:
        """Nothing runs yet.

        Args:
            name: Its host name.
            unpacked: Folder of Debian's packages.
            folder: Its own `/etc` and `/run`.
        """
        self.name = name
        self.run_folder = folder / "run"
        self.etc = folder / "etc"
        self._unpacked = unpacked
        self._folder = folder
        self._outer: subprocess.Popen[bytes] | None = None
        self._pid = 0

    @property
    def pid(self) -> int:
        """A process in it, by its number outside; 0 while it does not run."""
        return self._pid

    def prepare(self, files: dict[str, str]) -> None:
        """Make its folders again, with more files in `/etc`."""
        shutil.rmtree(self._folder, ignore_errors=True)
        for each in ("frr", "lldpd"):
            (self.run_folder / each).mkdir(parents=True)
        for name, text in {**_FILES, **files}.items():
            path = self.etc / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    async def start(self, script: str) -> None:
        """Run a script that prints `up` once its daemons run, and then waits for its input's end.

        Raises:
            UsageError: bubblewrap or a daemon did not start; their own text says why.
        """
        text = self._spawn(script)
        said = await asyncio.wait_for(asyncio.to_thread(self._first_line), START_DEADLINE_S)
        if not text or said != UP:
            self.kill()
            log = (self._folder / LOG_FILE).read_text().strip()
            raise UsageError(f"{self.name}: its daemons did not start: {log}")
        self._pid = int(json.loads(text)["child-pid"])

    def _spawn(self, script: str) -> bytes:
        """Start bubblewrap, and give what it says of the namespace."""
        read_end, write_end = os.pipe()
        os.set_inheritable(write_end, True)  # noqa: FBT003 - the os module's own signature
        with (self._folder / LOG_FILE).open("wb") as output:
            self._outer = subprocess.Popen(
                ["bwrap", *self._arguments(), "--info-fd", str(write_end),
                 "--", "/usr/bin/dash", "-ec", f"{script}\necho up\nread _ || true"],
                pass_fds=(write_end,), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=output, cwd="/", env={"PATH": "/usr/bin:/usr/sbin", "LC_ALL": "C.UTF-8"},
            )  # fmt: skip
        os.close(write_end)
        with os.fdopen(read_end, "rb") as info:
            return info.read()

    def _first_line(self) -> bytes:
        output = self._outer.stdout if self._outer is not None else None
        return output.readline() if output is not None else b""

    def _arguments(self) -> list[str]:
        return [
            "--die-with-parent", "--unshare-pid", "--unshare-net", "--unshare-uts",
            "--hostname", self.name, "--cap-add", "ALL", "--new-session",
            "--ro-bind", str(self._unpacked / "usr"), "/usr", "--symlink", "usr/bin", "/bin",
            "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
            "--bind", str(self.etc), "/etc", "--bind", str(self.run_folder), "/run",
            "--proc", "/proc", "--dev", "/dev", "--tmpfs", INNER_TMP, "--tmpfs", "/var",
            "--dir", f"/var{INNER_TMP}/frr", "--dir", "/var/lib/frr",
            "--symlink", "/run", "/var/run",
        ]  # fmt: skip

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the packages in it."""
        return subprocess.run(
            [*self._enter(), *words],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=RUN_DEADLINE_S, check=False, env={"PATH": "/usr/bin:/usr/sbin"},
        )  # fmt: skip

    def ip(self, lines: Sequence[str]) -> None:
        """Give lines to its `ip -batch`.

        Raises:
            UsageError: The kernel refused one.
        """
        if lines:
            _batch([*self._enter(), "/usr/bin/ip", "-batch", "-"], lines)

    def _enter(self) -> list[str]:
        own = ("--mount", "--pid", "--net", "--uts")
        return ["/usr/bin/nsenter", "--target", str(self._pid), *own, "--"]

    def kill(self) -> None:
        """End everything inside."""
        outer, pid, self._outer, self._pid = self._outer, self._pid, None, 0
        if outer is None:
            return
        if pid:  # its first process: with it the kernel ends all others, and then bubblewrap ends
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        else:
            outer.kill()
        outer.wait(timeout=RUN_DEADLINE_S)
        for pipe in (outer.stdin, outer.stdout):
            if pipe is not None:
                pipe.close()


def _batch(words: list[str], lines: Sequence[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(
        words, input=text, capture_output=True, text=True, timeout=RUN_DEADLINE_S, check=False
    )
    if done.returncode:
        raise UsageError(f"`{' '.join(words)}` refused: {done.stderr.strip()}\n{text}")
