"""The guests: started by QEMU, reached on loopback only, and gone when this process is.

Command lines as they were tried (sources.md#vm-tier). The cards of all guests of a run share one
cable: a multicast socket on the loopback device.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from components.core.record import record
from lab.cluster.process import Child
from lab.vm.image import Image
from lab.vm.tools import QEMU

MEMORY_MIB: Final = 1024
MULTICAST_GROUP: Final = "230.0.0.1"
"""Any group does: `localaddr` keeps it on the loopback device."""
PROBE_S: Final = 20.0
"""Seconds in which a kernel must say its name under KVM: where KVM works it takes one; some
machines offer /dev/kvm and their guests hang after the firmware."""

_BUSY_MACHINE: Final = (
    "no_timer_check panic=5 systemd.default_timeout_start_sec=600"
    " systemd.mask=serial-getty@ttyS0.service"
)
"""Where much else runs, an emulated timer comes late, and the kernel gives up with "IO-APIC + timer
doesn't work" (seen with a load of 17 on two cores). After a panic it starts again. Units may
take longer than on a real machine."""

Accelerator = Literal["kvm", "tcg"]
_OPTIONS: Final = {
    "kvm": ("-accel", "kvm", "-cpu", "host"),
    "tcg": ("-accel", "tcg,thread=multi", "-cpu", "max"),
}


def choose_accelerator(image: Image) -> Accelerator:
    """KVM where a kernel really starts under it, else QEMU's own emulation."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    command = [QEMU, "-machine", "q35", *_OPTIONS["kvm"], "-m", "512", "-nographic", "-no-reboot"]
    command += ["-nodefaults", "-serial", "stdio", "-kernel", str(image.kernel)]
    command += ["-append", "console=ttyS0 panic=-1"]
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder, "console")
        # At its deadline it is ended; what it said by then decides.
        with said.open("wb") as console, contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                timeout=PROBE_S,
                check=False,
            )
        return "kvm" if "Linux version" in said.read_text(errors="replace") else "tcg"


def free_port(kind: socket.SocketKind) -> int:
    """A port on loopback that nobody has now."""
    with socket.socket(socket.AF_INET, kind) as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


@record
class Wiring:
    """What a guest is started on."""

    accelerator: Accelerator
    cable: int
    """UDP port of the cable that the cards of all guests share."""
    tap: str = ""
    """Prefix of the network interfaces to which the management cards are plugged; without it each
    guest has QEMU's user network, of which SSH alone leads in and nothing out."""
    memory_mib: int = MEMORY_MIB
    programs: Path | None = None
    """A second disk, which guests only read."""
    options: str = ""
    """More options of the kernel."""

    def management(self, number: int, port: int) -> str:
        """The network in which one guest is managed."""
        if self.tap:
            return f"tap,id=n0,ifname={self.tap}{number},script=no,downscript=no"
        return f"user,id=n0,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22"


@dataclass(slots=True)
class Guest:
    """One virtual machine."""

    name: str
    number: int
    """From 1: it makes the addresses of its card."""
    disk: Path
    console: Path
    """What its kernel says."""
    port: int
    """Of 127.0.0.1, for SSH; without use where it is plugged to an interface."""
    child: Child

    def stop(self) -> None:
        """Switch it off."""
        self.child.stop()


def start_guest(name: str, number: int, image: Image, folder: Path, wiring: Wiring) -> Guest:
    """Start one machine; its disk must be there.

    Args:
        name: Of the host that it plays.
        number: From 1.
        image: Kernel and initial RAM disk.
        folder: Its disk is `<name>.img` there.
        wiring: The accelerator, and its networks.
    """
    port = free_port(socket.SOCK_STREAM)
    disk, console = folder / f"{name}.img", folder / f"{name}.console"
    fabric = f"socket,id=n1,mcast={MULTICAST_GROUP}:{wiring.cable},localaddr=127.0.0.1"
    mac = f"52:54:00:00:00:{number:02x}"
    # In a session of its own: Ctrl-C ends the story, which then ends the guests; and the kernel
    # shares the processor out by session (sched_autogroup).
    command = ["setsid", "nice", "-n", "10", QEMU, "-machine", "q35"]
    command += [*_OPTIONS[wiring.accelerator], "-m", str(wiring.memory_mib), "-smp", "1"]
    command += ["-nodefaults", "-nographic", "-serial", f"file:{console}", "-monitor", "none"]
    command += ["-device", "virtio-rng-pci"]
    command += ["-kernel", str(image.kernel), "-initrd", str(image.initrd)]
    command += ["-append", f"root=/dev/vda rw console=ttyS0 {_BUSY_MACHINE} {wiring.options}"]
    command += ["-drive", f"file={disk},format=raw,if=virtio,cache=unsafe"]
    if wiring.programs:
        command += ["-drive", f"file={wiring.programs},format=raw,if=virtio,readonly=on"]
    command += ["-netdev", wiring.management(number, port)]
    command += ["-device", f"virtio-net-pci,netdev=n0,mac={mac},addr=0x2,romfile="]
    command += ["-device", "pcie-root-port,id=rp1,bus=pcie.0,chassis=1,slot=1"]
    command += ["-netdev", fabric]
    command += ["-device", f"igb,netdev=n1,mac=52:54:00:00:{number:02x}:01,bus=rp1,romfile="]
    child = Child(f"guest {name}", command, folder / f"{name}.qemu")
    child.start()
    return Guest(name, number, disk, console, port, child)
