"""From the cables of a site to the network file that ibsim loads. Pure.

The form is that of `ibnetdiscover` (ibsim's README and net-examples).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from components.core.record import record
from lab.views import HcaPort, ManagerView, SubnetView

SPEEDS: Final = {800: "4xXDR", 400: "4xNDR", 200: "4xHDR", 100: "4xEDR", 56: "4xFDR", 40: "4xQDR"}
"""Gbit/s of a link of four lanes to the words of ibnetdiscover."""
SHARP_PORTS: Final = 1
"""A switch of the Quantum generation shows one port more, for its aggregation node."""


@dataclass(frozen=True, slots=True, order=True)
class Plug:
    """One end of a cable: a node by ibsim's name for it, and a port number."""

    node: str
    port: int

    @property
    def on_console(self) -> str:
        """As ibsim's console wants it."""
        return f'"{self.node}"[{self.port}]'


@record
class Cable:
    """A link: the end at a switch, and the other end."""

    near: Plug
    far: Plug
    speed: str


def node_guid(name: str) -> str:
    """GUID of a switch, 16 hexadecimal digits, the same at each start; b8599f is NVIDIA's."""
    return f"b8599f0300{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def switch_node(view: SubnetView) -> str:
    """Ibsim's name for a switch."""
    return f"S-{view.guid}"


def manager_on(view: SubnetView) -> ManagerView | None:
    """The subnet manager of a switch; None where it runs none."""
    if not view.sm_runs:
        return None
    node = switch_node(view)
    return ManagerView(view.switch, node, view.sm_priority, view.routing_engine, view.partitions)


def hca_node(guid: str) -> str:
    """Ibsim's name for the HCA of a port GUID; ibsim gives port 1 the GUID after the node's."""
    return f"H-{int(guid, 16) - 1:016x}"


def list_cables(switches: Sequence[SubnetView], hcas: Iterable[HcaPort]) -> tuple[Cable, ...]:
    """Every cable once, of those whose two ends are known."""
    ports = {(hca.host, hca.pci): hca for hca in hcas}
    by_name = {view.switch: view for view in switches}
    found: dict[frozenset[Plug], Cable] = {}
    for view in switches:
        speed = SPEEDS[view.rate_gbit_s]
        for port, end in view.cables.items():
            hca = ports.get(end)
            if hca is not None:
                near = Plug(switch_node(view), view.number_of(port))
                cable = Cable(near, Plug(hca_node(hca.guid), 1), SPEEDS[hca.rate_gbit_s])
                found[frozenset((cable.near, cable.far))] = cable
        for port, (name, far) in view.links.items():
            other = by_name.get(name)
            if other is not None:
                near = Plug(switch_node(view), view.number_of(port))
                cable = Cable(near, Plug(switch_node(other), other.number_of(far)), speed)
                found.setdefault(frozenset((cable.near, cable.far)), cable)
    return tuple(found.values())


def render_network(switches: Sequence[SubnetView], hcas: Sequence[HcaPort]) -> str:
    """The network file: every switch and every HCA, those without a cable too."""
    ends: dict[str, dict[int, tuple[Plug, str]]] = {}
    for cable in list_cables(switches, hcas):
        for here, there in ((cable.near, cable.far), (cable.far, cable.near)):
            ends.setdefault(here.node, {})[here.port] = (there, cable.speed)
    blocks = [_switch(view, ends.get(switch_node(view), {})) for view in switches]
    blocks += [_hca(hca, ends.get(hca_node(hca.guid), {})) for hca in hcas]
    return "\n".join(blocks)


def _switch(view: SubnetView, ends: Mapping[int, tuple[Plug, str]]) -> str:
    head = (
        f"switchguid=0x{view.guid}({view.guid})\n"
        f'Switch\t{len(view.ports) + SHARP_PORTS} "{switch_node(view)}"'
        f'\t\t# "MF0;{view.switch}:M{view.model}/U1" enhanced port 0 lid 0 lmc 0\n'
    )
    return head + "".join(_lines(ends))


def _hca(hca: HcaPort, ends: Mapping[int, tuple[Plug, str]]) -> str:
    node = hca_node(hca.guid)
    head = f'caguid=0x{node.removeprefix("H-")}\nCa\t1 "{node}"\t\t# "{hca.host} {hca.name}"\n'
    return head + "".join(_lines(ends))


def _lines(ends: Mapping[int, tuple[Plug, str]]) -> Iterator[str]:
    for port, (far, speed) in sorted(ends.items()):
        yield f'[{port}]\t"{far.node}"[{far.port}]\t\t# "far" lid 0 {speed}\n'
