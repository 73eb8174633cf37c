"""What a guest is like: taken before Railyard, after its undo, and after a restart, and compared.

Everything is compared but what changes by itself, which is named here with its reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Final, cast

from components.core.errors import DeviceError
from components.core.record import record

LOOK: Final = r"""
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin SYSTEMD_BUS_TIMEOUT=300
exec 2>/dev/null
echo '@@ link'; ip -j link; echo
echo '@@ address'; ip -j addr; echo
echo '@@ rule'; ip rule; ip -6 rule
echo '@@ route'; ip route show table all; ip -6 route show table all
echo '@@ sysctl'; sysctl -a
echo '@@ module'; cut -d ' ' -f 1 /proc/modules
echo '@@ file'
of='/etc /usr/local /var/lib/railyard /run/railyard'
find $of -xdev -type l -printf '%p = link %l\n'
find $of -xdev '(' -type d -o -type f ')' -printf '%p = %M %U:%G\n'
find $of -xdev -type f -exec sha256sum {} + | awk '{ print "sha256 " $2 " = " $1 }'
echo '@@ unit'
systemctl --root=/ list-unit-files --no-legend --no-pager | awk '{ print $1 " = " $2 }'
echo '@@ failed'; systemctl list-units --failed --plain --no-legend --no-pager | awk '{ print $1 }'
echo '@@ card'
cd /sys/bus/pci/devices/0000:01:00.0
for name in sriov_numvfs sriov_drivers_autoprobe numa_node; do echo "$name = $(cat $name)"; done
echo "pause = $(ethtool -a "$(ls net)" | paste -s -d ' ')"
echo "hostname = $(uname -n)"
"""
"""Read-only, as root."""


@record
class Noise:
    """Lines that differ between two looks at a machine on which nobody did anything."""

    section: str
    pattern: str
    """Of the whole name."""
    reason: str


NOISE: Final = (
    Noise("(link|address)", r"\S+ ifindex", "the order in which drivers found their cards at boot"),
    Noise("sysctl", r"fs\.(dentry-state|file-nr|inode-nr|inode-state)", "counts what is open"),
    Noise("sysctl", r"fs\.(aio-nr|quota\..*)", "counters"),
    Noise("sysctl", r"kernel\.(ns_last_pid|pty\.nr)", "counts processes and terminals"),
    Noise("sysctl", r"kernel\.random\.(uuid|boot_id|entropy_avail)", "random"),
    Noise("sysctl", r"net\.core\.netdev_rss_key", "random, made when a card first comes up"),
    Noise("sysctl", r"net\.ipv4\.inet_peer_threshold", "follows the free memory at the boot"),
    Noise("sysctl", r"net\.netfilter\.nf_conntrack_count", "a counter"),
    Noise(
        "sysctl", r"vm\.(admin|user)_reserve_kbytes", "a 32nd of the memory that was free at boot"
    ),
    Noise(
        "file", r"(sha256 )?/etc/(passwd|shadow|group|gshadow|subuid|subgid)-", "useradd's backup"
    ),
    Noise("file", r"(sha256 )?/etc/\.pwd\.lock", "useradd's lock"),
    Noise("file", r"/var/lib/railyard/lock", "the lock of a run"),
)
"""Without these, two looks in a row are equal; the story proves it before it changes anything."""


RESIDUE: Final = (
    Noise("(link|address)", r"enp1s0 qdisc", "the kernel keeps the queues of a card that was up"),
    Noise("module", r"ib_core", "`modprobe -r rdma_cm` leaves the last of what rdma_cm needs"),
    Noise("module", r"igbvf", "the kernel loaded the driver of VFs when there were some"),
)
"""What an undo cannot take back in a running kernel; a restart does, which is proven."""


@record
class Snapshot:
    """One look: section to name to value."""

    sections: Mapping[str, Mapping[str, str]]

    @property
    def size(self) -> int:
        """How many values it holds."""
        return sum(len(values) for values in self.sections.values())


def parse_snapshot(text: str) -> Snapshot:
    """Read what `LOOK` printed.

    Raises:
        DeviceError: A part of it is missing.
    """
    sections: dict[str, dict[str, str]] = {}
    for part in re.split(r"^@@ ", text, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        as_json = title in {"link", "address"}
        found = _interfaces(body) if as_json else _lines(body)
        sections[title] = {
            name: value for name, value in found.items() if not is_among(NOISE, title, name)
        }
    empty = [
        name for name in ("link", "sysctl", "module", "file", "unit") if not sections.get(name)
    ]
    if empty:
        raise DeviceError(f"the look at the guest has nothing about {', '.join(empty)}")
    return Snapshot(sections)


def _interfaces(body: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for each in cast("list[dict[str, object]]", json.loads(body)):
        name = str(each["ifname"])
        values |= {f"{name} {key}": json.dumps(value) for key, value in each.items()}
    return values


def _lines(body: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for line in body.splitlines():
        name, _, value = line.strip().partition(" = ")
        if name:
            values[name] = value or "there"
    return values


def is_among(noises: Collection[Noise], section: str, name: str) -> bool:
    """Whether a value is of that kind."""
    return any(
        re.fullmatch(noise.section, section) and re.fullmatch(noise.pattern, name)
        for noise in noises
    )


def compare(
    before: Snapshot, after: Snapshot, passed_over: Collection[Noise] = ()
) -> tuple[str, ...]:
    """What is not as before, one line each.

    Args:
        before: How it was.
        after: How it is.
        passed_over: What is not compared, and why.
    """
    found: list[str] = []
    for section in sorted({*before.sections, *after.sections}):
        old, new = before.sections.get(section, {}), after.sections.get(section, {})
        found += [
            f"{section} {name}: was {old.get(name, 'absent')}, is {new.get(name, 'absent')}"
            for name in sorted({*old, *new})
            if old.get(name) != new.get(name) and not is_among(passed_over, section, name)
        ]
    return tuple(found)
