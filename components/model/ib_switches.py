"""The InfiniBand switches of a site, with or without a login, and the GUIDs of VFs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from components.catalogue.switches.switch_model import SwitchModel
from components.catalogue.switches.without_login import find_plain
from components.core.problem import SpecPath
from components.model.cards import HcaPf
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.once import once


@dataclass(frozen=True, slots=True)
class IbSwitch:
    """One of them: its place in the file, its model, and what is plugged in where."""

    name: str
    path: SpecPath
    model: str
    described: str
    """The model with its article, for people."""
    names: tuple[str, ...]
    """Its ports on the front; none of a model that is not known."""
    halves: tuple[tuple[str, ...], ...]
    """The same by the switches in its housing."""
    speeds_gbit_s: tuple[int, ...]
    ports: Mapping[str, str]
    """Port to `host/hca-n`, or to `switch:port` at the other end of a link."""

    hardware: SwitchModel | None
    """What the catalogue or the file has of a switch that is logged in to."""

    def has_port(self, name: str) -> bool:
        """Whether a port, or the one that was split into it, is on the front."""
        model = self.hardware
        return name in self.names if model is None else model.has_port("mlnxos", name)

    def describe_ports(self) -> str:
        """Their names, for people."""
        if self.hardware is not None:
            return self.hardware.describe_ports("mlnxos")
        return ", and ".join(f"{half[0]} to {half[-1]}" for half in self.halves)

    def peer(self, port: str) -> tuple[str, str] | None:
        """The switch and the port at the other end; None where a host is plugged in."""
        switch, colon, far = self.ports[port].partition(":")
        return (switch, far) if colon else None


@once
def list_ib_switches(spec: ClusterSpec) -> tuple[IbSwitch, ...]:
    """Those of `switches` in the order of the file, then those of `infiniband.switches`."""
    return (*_managed(spec), *_plain(spec))


def _managed(spec: ClusterSpec) -> Iterator[IbSwitch]:
    for s, switch in enumerate(spec.switches):
        if switch.carries != "infiniband":
            continue
        model = switch.hardware
        names = model.ports.get(switch.os, ()) if model else ()
        yield IbSwitch(
            name=switch.name,
            path=("switches", s),
            model=switch.model,
            described=model.described if model else f"a {switch.model}",
            names=names,
            halves=(names,),
            speeds_gbit_s=model.port_speeds_gbit_s if model and names else (),
            hardware=model,
            ports={name: port.to for name, port in switch.ports.items()},
        )


def _plain(spec: ClusterSpec) -> Iterator[IbSwitch]:
    for s, switch in enumerate(spec.infiniband.switches if spec.infiniband else ()):
        model = find_plain(switch.model)
        yield IbSwitch(
            name=switch.name,
            path=("infiniband", "switches", s),
            model=switch.model,
            described=f"a {switch.model}",
            names=model.ports if model else (),
            halves=model.halves if model else (),
            speeds_gbit_s=model.speeds_gbit_s if model else (),
            hardware=None,
            ports=dict(switch.ports),
        )


def vf_guids(site: str, host: Host, pf: HcaPf) -> tuple[str, ...]:
    """The GUIDs of a port's VFs: those of the file, or derived ones that are the same each time.

    A derived GUID begins with 02, the sign of one that no vendor gave out (EUI-64's local bit);
    seven bytes of a hash follow. Random ones would fall out of their partitions at each boot.
    """
    return pf.guids or tuple(_derived(site, host.name, pf))


def _derived(site: str, host: str, pf: HcaPf) -> Iterator[str]:
    for number in range(pf.vfs):
        digest = hashlib.sha256(f"{site}/{host}/{pf.pci}/{number}".encode()).hexdigest()
        yield f"02{digest[:14]}"
