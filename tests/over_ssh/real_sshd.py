"""Debian's own sshd and sudo on loopback: what a host and a jump host really do.

Each server runs in a namespace of mounts in which the unpacked packages lie over this machine's
folders, with accounts of their own. Nothing of it is seen outside.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Final

import asyncssh

from components.remote.step import Endpoint
from lab import debian

USER: Final = "deploy"
UID: Final = 2001
PASSWORD: Final = "correct horse"
ASKING: Final = f"{USER} ALL=(ALL) ALL"
"""Its sudo asks for the password of the user."""
NOT_ASKING: Final = f"{USER} ALL=(ALL) NOPASSWD: ALL"
START_DEADLINE_S: Final = 20.0
POLL_S: Final = 0.01


def new_key(algorithm: str = "ssh-ed25519") -> asyncssh.SSHKey:
    """A key pair."""
    return asyncssh.generate_private_key(algorithm)  # pyright: ignore[reportUnknownMemberType] - its kwargs


def public(key: asyncssh.SSHKey) -> str:
    """Its public line."""
    return key.export_public_key("openssh").decode().strip()


def private(key: asyncssh.SSHKey, passphrase: str | None = None) -> str:
    """Its private text, with a passphrase or without."""
    return key.export_private_key("openssh", passphrase).decode()


@dataclass
class RealSshd:
    """One server that listens."""

    name: str
    port: int
    host_keys: Mapping[str, asyncssh.SSHKey]
    """Algorithm to key."""
    log: Path

    def endpoint(self, address: str = "127.0.0.1", algorithm: str = "ssh-ed25519") -> Endpoint:
        """How it is reached with a key."""
        return Endpoint(
            device=self.name,
            kind="host",
            address=address,
            port=self.port,
            user=USER,
            host_key=public(self.host_keys[algorithm]),
            private_key_secret="ssh_private_key",
        )

    @property
    def connections(self) -> int:
        """How many clients came, let in or not."""
        return self.log.read_text().count("Connection from ")

    @property
    def logins(self) -> int:
        """How many logins it let in."""
        return self.log.read_text().count("Accepted publickey for")


@dataclass(frozen=True)
class Server:
    """How one server is set up."""

    name: str
    authorized: str
    sudoers: str = NOT_ASKING
    lines: tuple[str, ...] = ()
    """More lines of its sshd_config."""
    algorithms: tuple[str, ...] = field(default=("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256"))


def free_port() -> int:
    """A port that nothing listens on, for both address families."""
    with socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return probe.getsockname()[1]


@contextmanager
def real_sshd(folder: Path, server: Server) -> Generator[RealSshd]:
    """Run a server on 127.0.0.1 and ::1 until the end of the block."""
    own = folder / server.name
    keys = {algorithm: new_key(algorithm) for algorithm in server.algorithms}
    port = free_port()
    _write_files(own, server, keys, port)
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", _script(own)],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _await_listening(process, port)
        yield RealSshd(server.name, port, keys, own / "log")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=60)


def _await_listening(process: subprocess.Popen[bytes], port: int) -> None:
    ends_at_s = time.monotonic() + START_DEADLINE_S
    while time.monotonic() < ends_at_s and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        Event().wait(POLL_S)
    raise AssertionError(f"sshd on port {port} does not listen; it ended with {process.poll()}")


def _write_files(own: Path, server: Server, keys: Mapping[str, asyncssh.SSHKey], port: int) -> None:
    etc, home = own / "etc", own / "home"
    (etc / "sudoers.d").mkdir(parents=True)
    home.mkdir()
    (home / ".profile").write_text("PS1='\\u@\\h:\\w\\$ '\n")  # Debian's, without its colours
    os.chown(home, UID, UID)
    hashed = subprocess.run(
        ["openssl", "passwd", "-6", "-stdin"],
        input=PASSWORD, capture_output=True, text=True, check=True, timeout=30,
    ).stdout.strip()  # fmt: skip
    lines = {
        "passwd": f"{USER}:x:{UID}:{UID}::/run/home:/bin/bash\n"
        "sshd:x:110:65534::/run/sshd:/bin/false\n",
        "shadow": f"{USER}:{hashed}:19700:0:99999:7:::\n",
        "group": f"{USER}:x:{UID}:\n",
    }
    for name, more in lines.items():
        (etc / name).write_text(Path("/etc", name).read_text() + more)
        (etc / name).chmod(0o644 if name != "shadow" else 0o600)
    (etc / "sudoers").write_text(f"Defaults env_reset\nroot ALL=(ALL:ALL) ALL\n{server.sudoers}\n")
    (etc / "sudoers").chmod(0o440)
    (own / "authorized").write_text(server.authorized + "\n")
    config = [
        f"Port {port}", "ListenAddress 127.0.0.1", "ListenAddress ::1", "PidFile none",
        "UsePAM no", "LogLevel VERBOSE", "PasswordAuthentication no",
        "KbdInteractiveAuthentication no", "StrictModes no",
        "AuthorizedKeysFile /run/authorized", *server.lines,
    ]  # fmt: skip
    for number, key in enumerate(keys.values()):
        path = own / f"host_key_{number}"
        path.write_text(private(key))
        path.chmod(0o600)
        config.append(f"HostKey {path}")
    (own / "sshd_config").write_text("\n".join(config) + "\n")


def _script(own: Path) -> str:
    """Its user reaches files below /run alone: another pytest closes the folder of all tests."""
    packages, folder = shlex.quote(str(debian.unpacked())), shlex.quote(str(own))
    return (
        "set -e\n"
        f"mount -t overlay overlay -o lowerdir={packages}/usr:/usr /usr\n"
        f"mount -t overlay overlay -o lowerdir={folder}/etc:{packages}/etc:/etc /etc\n"
        "mount -t tmpfs tmpfs /run\n"
        f"mkdir -p /run/sshd /run/home\nmount --bind {folder}/home /run/home\n"
        f"cp {folder}/authorized /run/authorized\nchmod 644 /run/authorized\n"
        f"exec /usr/sbin/sshd -D -E {folder}/log -f {folder}/sshd_config\n"
    )
