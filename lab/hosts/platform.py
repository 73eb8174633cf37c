"""What a host's kernel holds beside its cards: huge pages, governors, ACS, routes, command line.

Sources: lab/sources.md#host-kernel.
Addresses and capabilities of the bridges are the lab's own; a switch's upstream port has no ACS,
its downstream ports and the root ports have (PCIe base specification, ACS).
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from lab.hosts.nic import DeviceRefusal
from lab.views import HostConfig

NODES = 2
CPUS = 16
GOVERNORS = ("performance", "schedutil", "powersave")
"""What acpi-cpufreq offers; the first boot of Ubuntu runs `schedutil`."""
ACS_AT_BOOT = 0x001D
"""SrcValid, ReqRedir, CmpltRedir, UpstreamFwd: what Linux switches on with an IOMMU."""
ACS_BITS = 0x007F
PAGE_KIB = {"2048kB": 2048, "1048576kB": 1 << 20}
NODE_MEMORY_KIB = 64 << 20
"""Memory of one NUMA node that huge pages may take: 64 GiB, the lab's own number."""
MODPROBE = ("usr/lib/modprobe.d", "etc/modprobe.d")
CMDLINE = "cmdline"
"""File of the host's folder that stands as its /proc/cmdline."""
SWAPS = "swaps"
"""The file in a host's folder that is its /proc/swaps."""
CPUINFO = "cpuinfo"
"""File of the host's folder that stands as its /proc/cpuinfo: a DGX-1's processors by their maker
and what tells whether pages of 1 GiB can be had, wherever the lab runs."""
_OPTION = re.compile(r"^\s*options\s+ib_core\s.*netns_mode=([01])", re.MULTILINE)
_LINUX = re.compile(r"^\s*linux\s+(.*)$", re.MULTILINE)
_ASSIGNMENT = re.compile(r'^\s*(GRUB_[A-Z_]+)="([^"]*)"\s*$')
LOCAL_RULES = ((0, "from all lookup local"),)
LAST_RULES = ((32766, "from all lookup main"), (32767, "from all lookup default"))


@dataclass(slots=True)
class Route:
    """One route of a table that is not the kernel's own."""

    table: str
    words: tuple[str, ...]

    def value(self, name: str) -> str:
        """The word after `name`; empty where it is not there."""
        rest = self.words[self.words.index(name) + 1 :] if name in self.words else ()
        return rest[0] if rest else ""


@dataclass(slots=True)
class Platform:
    """Run-time state; a reboot makes it again from the host's files."""

    hugepages: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    """By size (`2048kB`) and NUMA node."""
    governors: list[str] = field(default_factory=list[str])
    """By processor; none in a virtual machine."""
    acs: dict[str, int] = field(default_factory=dict[str, int])
    """Bridges that have ACS, with their control word."""
    netns_mode: str = "shared"
    cmdline: str = ""
    rules: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """Priority and text of rules that somebody added."""
    routes: list[Route] = field(default_factory=list[Route])
    nft: dict[str, str] = field(default_factory=dict[str, str])
    """Tables of nftables by name, as they are listed; a fresh kernel has none."""
    held_modules: set[str] = field(default_factory=set[str])
    """Fault: modules that a service holds; they cannot be unloaded until it ends."""

    cgroup: Literal["v1", "v2"] = "v2"
    """Ubuntu 22.04 boots with the unified hierarchy; 20.04 and DGX OS before 6 do not."""
    selinux: bool = False
    """Fault: SELinux is there and enforcing, as on Rocky Linux and RHEL; Ubuntu has none."""
    swap_kib: int = 0
    """Swap in a partition of its own; a server of a cluster has none."""
    clock_off_s: int = 0
    """Fault: how far the clock is ahead."""
    neighbours: dict[str, str] = field(default_factory=dict[str, str])
    """Fault: addresses that other machines of the management network have, with their MACs. The
    lab's hosts share one loopback network, where none asks for another one."""

    def write_swaps(self, root: Path) -> None:
        """What /proc/swaps shows (mm/swapfile.c)."""
        head = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
        row = f"/dev/sda2                               partition\t{self.swap_kib}\t\t0\t\t-2\n"
        (root / SWAPS).write_text(head + (row if self.swap_kib else ""))

    def boot(self, config: HostConfig, root: Path, bridges: Iterable[str]) -> None:
        """Take on what a fresh kernel has."""
        self.hugepages = {(size, node): 0 for size in PAGE_KIB for node in range(NODES)}
        self.governors = [] if config.guest else ["schedutil"] * CPUS
        self.acs = dict.fromkeys(bridges, ACS_AT_BOOT)
        self.rules, self.routes = [], []
        self.nft.clear()
        self.held_modules.clear()
        self.cmdline = boot_cmdline(root)
        (root / CMDLINE).write_text(f"{self.cmdline}\n")
        self.write_swaps(root)
        (root / CPUINFO).write_text("".join(_cpu_text(number) for number in range(CPUS)))
        texts = [path.read_text() for folder in MODPROBE
                 for path in sorted((root / folder).glob("*.conf"))]  # fmt: skip
        found = [match for text in texts for match in _OPTION.findall(text)]
        self.netns_mode = "exclusive" if found[-1:] == ["0"] else "shared"

    def pages(self, size: str) -> int:
        """All pages of one size."""
        return sum(count for (each, _), count in self.hugepages.items() if each == size)

    def set_pages(self, size: str, node: int, wanted: int) -> None:
        """Reserve pages on one node; the kernel gives what it has and reports no error."""
        others = sum(
            count * PAGE_KIB[each]
            for (each, at), count in self.hugepages.items()
            if at == node and each != size
        )
        self.hugepages[size, node] = min(wanted, (NODE_MEMORY_KIB - others) // PAGE_KIB[size])

    def set_total(self, size: str, wanted: int) -> None:
        """Change the total as mm/hugetlb.c does: page by page, node after node in turn."""
        change = wanted - self.pages(size)
        for step in range(abs(change)):
            order = [(step + shift) % NODES for shift in range(NODES)]
            for node in order:
                before = self.hugepages[size, node]
                self.set_pages(size, node, max(0, before + (1 if change > 0 else -1)))
                if self.hugepages[size, node] != before:
                    break

    def set_governor(self, cpu: int, text: str) -> None:
        """Choose a governor.

        Raises:
            DeviceRefusal: EINVAL for one that the machine does not have.
        """
        if text.strip() not in GOVERNORS:
            raise DeviceRefusal(errno.EINVAL)
        self.governors[cpu] = text.strip()

    def all_rules(self) -> list[tuple[int, str]]:
        """The rules in their order."""
        return sorted((*LOCAL_RULES, *self.rules, *LAST_RULES), key=lambda rule: rule[0])

    def snapshot(self) -> dict[str, object]:
        """Everything a change could show in."""
        return {
            "hugepages": {f"{size}/{node}": n for (size, node), n in self.hugepages.items()},
            "governors": list(self.governors),
            "acs": {bridge: f"{word:04x}" for bridge, word in sorted(self.acs.items())},
            "netns": self.netns_mode,
            "cmdline": self.cmdline,
            "rules": list(self.rules),
            "nft": dict(sorted(self.nft.items())),
            "routes": sorted((route.table, *route.words) for route in self.routes),
        }


def _cpu_text(number: int) -> str:
    return (
        f"processor\t: {number}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 79\n"
        "model name\t: Intel(R) Xeon(R) CPU E5-2698 v4 @ 2.20GHz\n"
        f"physical id\t: {number * NODES // CPUS}\nflags\t\t: fpu pse pat pdpe1gb vmx\n\n"
    )


def grub_cfg(root: Path) -> str:
    """`/boot/grub/grub.cfg` as grub-mkconfig makes it of the host's files: what the lab needs."""
    values: dict[str, str] = {}
    drop_ins = sorted((root / "etc/default/grub.d").glob("*.cfg"))
    for path in (root / "etc/default/grub", *drop_ins):
        for line in path.read_text().splitlines() if path.exists() else ():
            match = _ASSIGNMENT.match(line)
            if match:
                name, text = match.groups()
                values[name] = re.sub(r"\$\{?(\w+)\}?", lambda m: values.get(m[1], ""), text)
    words = [values.get("GRUB_CMDLINE_LINUX", ""), values.get("GRUB_CMDLINE_LINUX_DEFAULT", "")]
    line = " ".join(["root=/dev/sda1 ro", *(word.strip() for word in words if word.strip())])
    return (
        "# It is automatically generated by grub-mkconfig using templates\n"
        "menuentry 'Ubuntu' {\n"
        f"\tlinux\t/boot/vmlinuz-5.15.0-113-generic {line}\n"
        "\tinitrd\t/boot/initrd.img-5.15.0-113-generic\n}\n"
    )


def boot_cmdline(root: Path) -> str:
    """The command line of the entry that boots: GRUB's first one."""
    path = root / "boot/grub/grub.cfg"
    match = _LINUX.search(path.read_text()) if path.exists() else None
    return f"BOOT_IMAGE={match[1]}" if match else "BOOT_IMAGE=/boot/vmlinuz ro"
