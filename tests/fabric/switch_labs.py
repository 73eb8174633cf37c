"""One emulated switch of each system, in one shape: what tests of every driver are written against.

What they ask of it, and look at, follows from what its ports carry. A port that carries RoCE has
modes, an MTU, a trust and counters by class. One that carries InfiniBand has none of these: there
the subnet manager and its partitions are looked at.

A new system joins with one entry of `LABS`, which names the functions of its own lab module.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, cast

from components.fabric.exchange import Exchange
from components.fabric.fabric_plan import SwitchPlan, plan_fabric
from components.fabric.parts import ALL_PORTS, IbState
from components.fabric.state import SwitchState
from components.model.cluster import ClusterSpec
from components.model.infiniband import DEFAULT_PARTITION
from lab.site import load_document, overlay
from lab.switches.emulators import EthernetSwitch, SubnetSwitch
from tests.fabric import conftest as onyx_lab
from tests.fabric import cumulus_lab, eos_lab, ib_lab, sonic_lab
from tests.fabric.eos_lab import Clock
from tests.fabric.in_process import ADDRESS, PASSWORD

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

NOT_SAVED: Final = "the previous values were put back; not saved"
SAVED_ITSELF: Final = "the previous values were put back; saved by the switch itself"


def put_back(system: str) -> str:
    """How an error ends if the previous values are back: NVUE saves by itself from 5.9 on."""
    return SAVED_ITSELF if system == "cumulus" else NOT_SAVED


K3S: Final[dict[str, str]] = dict.fromkeys(("k3s", "install.sh"), "0" * 64)
"""Checksums of an artefact that no switch test downloads."""


class Emulator(Protocol):
    """What every emulated switch offers to a test."""

    @property
    def ssh_port(self) -> int: ...
    @property
    def sessions(self) -> int: ...
    @property
    def unmodelled(self) -> tuple[str, ...]: ...
    @property
    def faults(self) -> Any: ...  # noqa: ANN401 - each emulator has its own
    @property
    def stored(self) -> Any: ...  # noqa: ANN401 - the same

    refuse: Callable[[str], str | None]

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    def reload(self) -> None: ...
    def fault(self, args: Sequence[str]) -> str: ...
    def snapshot(self) -> Any: ...  # noqa: ANN401 - any JSON


@dataclass(frozen=True)
class SwitchLab:
    """How a test gets a switch of one system, and a site with it."""

    make_switch: Callable[[Path, Clock], Any]
    talk: Callable[[Any], Exchange]
    load_spec: Callable[..., ClusterSpec]
    address: str
    user: str
    password: str
    saved: str
    """The part of a snapshot that the next boot loads."""
    site: Path
    """The example that the lab plays with this system."""
    adapt: Callable[[dict[str, Any]], ClusterSpec] = ClusterSpec.model_validate
    """From that example to a site with this system."""
    prepare: Callable[[Any], object] = lambda _switch: None
    """What a person does once on a new switch, before it can be lossless."""
    carried: Carried = ROCE
    """What is asked of it and looked at, by what its ports carry."""

    @property
    def spec(self) -> ClusterSpec:
        """The site that asks for the most lines."""
        return self.load_spec(**[*self.carried.asked.values()][-1])

    @property
    def plan(self) -> SwitchPlan:
        """The plan of its first switch."""
        return plan_fabric(self.spec)[0]

    @property
    def desired(self) -> SwitchState:
        """What the plan wants."""
        return self.plan.desired

    @property
    def port(self) -> str:
        """A port of the plan."""
        return next(iter(self.desired.ports))

    def played(self, stack: str) -> ClusterSpec:
        """The example as the lab plays it."""
        return self.adapt(cast("dict[str, Any]", overlay(load_document(self.site), stack, K3S)))

    def saved_part(self, switch: Emulator) -> object:
        """What the next boot loads."""
        return switch.snapshot()[self.saved]


def _lab(
    module: Any,  # noqa: ANN401 - a lab module of one system
    make_switch: Callable[[Path, Clock], Any],
    saved: str = "saved",
    user: str = "admin",
    **more: Any,  # noqa: ANN401 - what the others have not
) -> SwitchLab:
    talk, told = more.pop("talk", module.talk), (ADDRESS, user, PASSWORD, saved, module.SITE)
    return SwitchLab(make_switch, talk, module.load_spec, *told, **more)


_SERIAL: Final = itertools.count(1)


def _talk_to_eos(switch: Any) -> Exchange:  # noqa: ANN401 - an emulator
    """Each session has a name of its own."""
    return eos_lab.talk(switch, next(_SERIAL))


LABS: Final[dict[str, SwitchLab]] = {
    "onyx": _lab(onyx_lab, lambda folder, _clock: onyx_lab.make_switch(folder)),
    "cumulus": _lab(cumulus_lab, cumulus_lab.make_switch, "startup", "cumulus"),
    "eos": _lab(eos_lab, eos_lab.make_switch, "startup", adapt=eos_lab.with_eos, talk=_talk_to_eos),
    "mlnxos": _lab(ib_lab, lambda folder, _clock: ib_lab.make_switch(folder), carried=INFINIBAND),
    "sonic": _lab(
        sonic_lab,
        lambda folder, _clock: sonic_lab.make_switch(folder),
        adapt=sonic_lab.with_sonic,
        prepare=sonic_lab.make_pools,
    ),
}
"""By switch system, as in `SWITCH_SYSTEMS`."""
