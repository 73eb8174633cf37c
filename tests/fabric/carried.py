"""What the shared tests ask of a switch, and look at, by what its ports carry.

A port that carries RoCE has modes, an MTU, a trust and counters by class. One that carries
InfiniBand has none of these: there the subnet manager and its partitions are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from components.fabric.parts import ALL_PORTS, IbState
from components.fabric.state import SwitchState
from components.model.infiniband import DEFAULT_PARTITION
from lab.switches.emulators import EthernetSwitch, SubnetSwitch

Cables = Mapping[str, tuple[str, str]]
"""Port to (host, PCI address), as the lab file has them."""


@dataclass(frozen=True)
class Hand:
    """One setting of ours that somebody changes by hand."""

    fault: tuple[str, ...]
    """What `railyard lab fault` takes."""
    setting: str
    """The setting and its place, as differences name it."""
    typed: str
    wanted: str

    @property
    def drift(self) -> str:
        """How an observe tells it."""
        return f"{self.setting} is {self.typed}, want {self.wanted}"

    @property
    def repair(self) -> str:
        """How the evidence of the next apply tells it."""
        return f"{self.setting}: {self.typed} -> {self.wanted}"


@dataclass(frozen=True)
class Carried:
    """What is asked and looked at on a switch of one transport."""

    asked: Mapping[str, Mapping[str, object]]
    """Heading of a golden to what its site asks for; the last one brings the most lines."""
    view: Callable[[Any, SwitchState], object]
    """What the physics may know of what is ours."""
    check: Callable[[Any, SwitchState], None]
    """Raises where that is not as wanted, after an apply of the last of `asked`."""
    check_cables: Callable[[Any, Cables], None]
    """The same on a switch of a whole lab: every cable carries traffic to its host."""
    hand: Callable[[SwitchState], Hand]
    fewer: Callable[[SwitchState], SwitchState]
    """The same with a piece less: what an edit of the file gives back."""
    given_back: tuple[str, ...]
    """How settings of that piece begin which no profile of the whole switch gives."""
    interrupts: bool
    """A first apply interrupts traffic."""
    counts: bool
    """Its ports count by class."""


def _ports(switch: EthernetSwitch, desired: SwitchState) -> object:
    return [switch.port_view(port) for port in desired.ports]


def _check_ports(switch: EthernetSwitch, desired: SwitchState) -> None:
    for port in desired.ports:
        view = switch.port_view(port)
        priority = view.dscp_to_priority[26]
        assert view.pfc_priorities == {priority}, "PFC on the priority of that DSCP, and no other"
        assert view.trust in {"L3", "both"}


def _check_rails(switch: object, cables: Cables) -> None:
    assert isinstance(switch, EthernetSwitch)
    for port, (host, _pci) in cables.items():
        view = switch.port_view(port)
        assert view.oper_up, host
        assert view.trust in {"L3", "both"}, host
        assert 3 in view.ecn_kib, host
        rails = view.allowed_vlans | {view.access_vlan}
        assert rails & {111, 112}, host


def _type_mtu(desired: SwitchState) -> Hand:
    port, wanted = next(iter(desired.ports.items()))
    setting = f"mtu_bytes of port {port}"
    return Hand(("mtu", port, "1600"), setting, "1600", str(wanted.mtu_bytes))


def _without_last_port(desired: SwitchState) -> SwitchState:
    *kept, _last = desired.ports.items()
    return desired.model_copy(update={"ports": dict(kept)})


ROCE: Final = Carried(
    asked={"lossy_ecn": {"mode": "lossy_ecn"}, "lossless": {"mode": "lossless"}},
    view=_ports,
    check=_check_ports,
    check_cables=_check_rails,
    hand=_type_mtu,
    fewer=_without_last_port,
    given_back=("mode", "mtu_bytes", "trunk_vlan", "admin_state"),
    interrupts=True,
    counts=True,
)


def _subnet(desired: SwitchState) -> IbState:
    assert desired.ib is not None
    return desired.ib


def _check_subnet(switch: SubnetSwitch, desired: SwitchState) -> None:
    view, wanted = switch.subnet_view(), _subnet(desired)
    assert view.sm_runs, "the subnet has its manager"
    assert (view.switch, view.sm_priority) == (wanted.node, wanted.sm_priority)
    held = {each.name: each for each in view.partitions}
    default = held.pop(DEFAULT_PARTITION)
    assert default.members == {ALL_PORTS: "full"}, "Default is never ours"
    pkeys = {name: each.pkey for name, each in held.items()}
    assert pkeys == {name: each.pkey for name, each in wanted.partitions.items()}
    assert len({*pkeys.values(), default.pkey}) == len(view.partitions), "one key, one partition"
    for name, partition in wanted.partitions.items():
        assert held[name].members == partition.members, "its ports, each as it shall be"


def _check_hcas(switch: object, cables: Cables) -> None:
    assert isinstance(switch, SubnetSwitch)
    view = switch.subnet_view()
    assert view.sm_runs
    assert view.cables == cables
    assert {*cables} <= view.up


def _type_key(desired: SwitchState) -> Hand:
    name, wanted = next(iter(_subnet(desired).partitions.items()))
    line = f"ib partition {name} pkey 0x0666 force"
    setting = f"pkey of partition {name}"
    return Hand(("cli", *line.split()), setting, "0x0666", f"0x{wanted.pkey:04x}")


def _without_last_partition(desired: SwitchState) -> SwitchState:
    """And the routing engine is no longer named."""
    subnet = _subnet(desired)
    *kept, _last = subnet.partitions.items()
    update = {"partitions": dict(kept), "routing_engine": None}
    return desired.model_copy(update={"ib": subnet.model_copy(update=update)})


INFINIBAND: Final = Carried(
    asked={
        "no subnet manager": {"sm_priority": None},
        "subnet manager": {"mtu_bytes": 4096, "rate_gbit_s": 100},
    },
    view=lambda switch, _desired: switch.subnet_view(),
    check=_check_subnet,
    check_cables=_check_hcas,
    hand=_type_key,
    fewer=_without_last_partition,
    given_back=("pkey", "ipoib", "mtu_bytes", "rate_gbit_s", "member", "routing_engine"),
    interrupts=False,
    counts=False,
)
