"""NetworkManager of a lab host: which devices it has, and what it does to them.

Behaviour of 1.42.8 (sources.md#network-manager): it takes each Ethernet device when that appears,
unless udev has NM_UNMANAGED for it then; a rule that comes later changes nothing until the device
appears again. What it has it sets up and asks for DHCP, and an attempt that ends removes all
addresses. `nmcli device set` decides at once, until the next boot, and `no` leaves link and
addresses as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.hosts.nic import Nic, Vf

if TYPE_CHECKING:
    from lab.hosts.model import HostModel

_RULE: Final = re.compile(
    r'SUBSYSTEM=="net", ACTION=="(?P<actions>[^"]+)", '
    r'(?P<match>KERNELS|ATTR\{device/physfn/uevent\})=="(?P<form>[^"]+)", ENV\{NM_UNMANAGED\}="1"'
)
"""A rule of udev(7) that takes a card or the VFs of a card away from NetworkManager."""


@dataclass(slots=True)
class NetworkManager:
    """Its run-time state; a boot makes it again."""

    runs: bool = False
    devices: dict[str, bool] = field(default_factory=dict[str, bool])
    """Network devices that it has seen, and whether it manages each."""

    def boot(self, model: HostModel) -> None:
        """Start with the host, which forgets what `nmcli device set` decided."""
        self.devices.clear()
        self.look(model)

    def look(self, model: HostModel) -> None:
        """Take what has appeared, and forget what has gone."""
        if not self.runs:
            return
        there = dict(_devices(model))
        for name in self.devices.keys() - there.keys():
            del self.devices[name]
        for name, (nic, vf) in there.items():
            if name not in self.devices:
                self.devices[name] = not _unmanaged(model.root, nic, is_vf=vf is not None)
                if self.devices[name]:
                    _set_up(nic, vf)

    def decide(self, model: HostModel, name: str, *, managed: bool) -> bool:
        """`nmcli device set NAME managed`; False if there is no such device."""
        if name not in self.devices:
            return False
        if self.devices[name] is not managed:
            self.devices[name] = managed
            if managed:
                _set_up(*dict(_devices(model))[name])
        return True

    def end_attempt(self, nic: Nic) -> bool:
        """The attempt to get an address by DHCP ends without one; False if there was none."""
        if not self.devices.get(nic.config.netdev):
            return False
        nic.addresses.clear()
        return True


def _devices(model: HostModel) -> Iterator[tuple[str, tuple[Nic, Vf | None]]]:
    for nic in model.nics:
        if not nic.infiniband:
            yield nic.config.netdev, (nic, None)
    for nic, vf in model.all_vfs():
        if vf.bound and not vf.in_pod:
            yield vf.netdev, (nic, vf)


def _set_up(nic: Nic, vf: Vf | None) -> None:
    if vf is not None:
        vf.admin_up = True
    else:
        nic.admin_up = True


def _unmanaged(root: Path, nic: Nic, *, is_vf: bool) -> bool:
    """Whether a rule of udev marks the device as it appears."""
    for path in sorted((root / "etc/udev/rules.d").glob("*.rules")):
        for line in path.read_text().splitlines():
            rule = _RULE.fullmatch(line)
            if rule is None or "add" not in rule["actions"].split("|"):
                continue
            of_vfs = rule["match"] != "KERNELS"
            wanted = f"*PCI_SLOT_NAME={nic.config.pci}*" if of_vfs else nic.config.pci
            if of_vfs == is_vf and rule["form"] == wanted:
                return True
    return False
