"""One guest as the story meets it: its disk, its start, and commands as root over SSH."""

from __future__ import annotations

import asyncio
import hashlib
import time
from pathlib import Path
from typing import Final

from components.core.errors import DeviceError, UnreachableError
from components.remote.host_session import HostAnswer, run_on_host
from components.remote.step import Endpoint
from lab.keys import client_secrets, host_key
from lab.vm.image import FIRST_NAME, NETWORK_FILE, USER, Image, copy_for

BOOT_DEADLINE_S: Final = 1200.0
"""Seconds until SSH answers: 30 to 110 were measured where every instruction is emulated, and ten
times that beside a load of 20."""
COMMAND_DEADLINE_S: Final = 900.0
"""Seconds for one script: those of the hosts room start some hundred processes."""
POLL_S: Final = 1.0


def make_disk(name: str, image: Image, folder: Path, network: str = "") -> None:
    """Copy the image, and give the copy the SSH host key that the site's file pins.

    Args:
        name: Of the guest.
        image: What is copied.
        folder: Where the copy goes.
        network: Settings of its management network; default the image's.

    The MAC addresses of VFs come from the machine's id (systemd's MACAddressPolicy): two machines
    with one id have the same on one cable.
    """
    files = {
        "/etc/machine-id": ("444", hashlib.sha256(name.encode()).hexdigest()[:32] + "\n"),
        "/etc/hostname": ("644", f"{FIRST_NAME}\n"),
        "/etc/ssh/ssh_host_ed25519_key": ("600", host_key(f"vm/{name}").private_openssh),
    }
    if network:
        files[NETWORK_FILE] = ("644", network)
    copy_for(image, folder / f"{name}.img", files)


def run_as_root(endpoint: Endpoint, script: str, stdin: str = "") -> HostAnswer:
    """Run a script as root over a new connection, whatever it ends with."""
    command = f"sudo -n sh -c {_quoted(script)}"
    return run_text(endpoint, command, stdin)


def run_text(endpoint: Endpoint, command: str, stdin: str = "") -> HostAnswer:
    """Run one command line over a new connection, whatever it ends with."""
    secrets = client_secrets("vm")
    return asyncio.run(
        run_on_host(endpoint, secrets, command, stdin=stdin, deadline_s=COMMAND_DEADLINE_S)
    )


def demand(endpoint: Endpoint, script: str) -> str:
    """What a script that must succeed printed.

    Raises:
        DeviceError: It failed, and what it said.
    """
    answer = run_as_root(endpoint, script)
    if answer.exit_status != 0:
        raise DeviceError(
            f"{endpoint.where}: `{script.strip()}` ended with {answer.exit_status}:"
            f" {(answer.stderr or answer.stdout)[-600:]}"
        )
    return answer.stdout


def wait_for_boot(endpoint: Endpoint, before: str = "") -> str:
    """Wait until the guest answers, and its start is over.

    Args:
        endpoint: The guest.
        before: The boot id that it had; another one is waited for.

    Returns:
        The new boot id.

    Raises:
        DeviceError: It did not come within the deadline, and what was seen last.
    """
    end = time.monotonic() + BOOT_DEADLINE_S
    # Up is what systemd calls up: also with a failed unit, which the story then shows.
    look = (
        "cat /proc/sys/kernel/random/boot_id;"
        " systemctl is-system-running --wait >/dev/null 2>&1; true"
    )
    last = "no answer"
    while time.monotonic() < end:
        try:
            boot_id = demand(endpoint, look).strip()
        except UnreachableError as error:
            last = str(error)
        else:
            if boot_id != before:
                return boot_id
            last = f"it still runs boot {boot_id}"
        time.sleep(POLL_S)
    raise DeviceError(f"{endpoint.where} did not start within {BOOT_DEADLINE_S:g} s: {last}")


def reboot(endpoint: Endpoint) -> None:
    """Ask for a restart; the answer comes before the connection goes."""
    demand(endpoint, "systemd-run --quiet --on-active=1 systemctl reboot")


def login(name: str, port: int, pinned: str) -> Endpoint:
    """How a guest is reached."""
    return Endpoint(
        device=name,
        kind="host",
        address="127.0.0.1",
        port=port,
        user=USER,
        host_key=pinned,
        private_key_secret="ssh_private_key",  # noqa: S106 - the name of a secret
    )


def _quoted(text: str) -> str:
    escaped = text.replace("'", "'\\''")
    return f"'{escaped}'"
