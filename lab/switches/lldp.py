"""What a neighbour tells of its port by LLDP: lldpd's defaults, and how switches call theirs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Told:
    """Port and description of one neighbour."""

    port: str
    description: str
    is_switch: bool


def tell(name: str, host_mac: str) -> Told:
    """What the owner of a port tells.

    A Linux host tells a MAC address as its port and the device as its description, as lldpd does
    by default and as NVUE's reference shows. A switch tells the port's name, Onyx with `Eth` before
    the number. A SONiC switch tells the port's alias and describes it by its name; here it tells
    the name twice.

    Args:
        name: Network device of a host, or port of a switch.
        host_mac: The address as the listening system writes one.
    """
    if name[:1].isdigit():
        return Told(f"Eth{name}", f"Eth{name}", is_switch=True)
    if name.startswith(("swp", "Ethernet")):
        return Told(name, name, is_switch=True)
    return Told(host_mac, name, is_switch=False)
