"""The interface between the lab and an emulated switch, and the class for each system."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, cast, runtime_checkable

from components.core.errors import UsageError
from lab.switches.neighbours import Told
from lab.views import BgpView, PortView, RouterView, SubnetView, SwitchConfig


class Switch(Protocol):
    """The methods that the lab calls on every emulated switch."""

    @property
    def unmodelled(self) -> tuple[str, ...]:
        """Command lines that the emulator does not know."""
        ...

    async def start(self) -> None:
        """Listen."""

    async def stop(self) -> None:
        """Stop listening."""

    def fault(self, args: Sequence[str]) -> str:
        """Cause a fault and say in words what was done."""
        ...

    def snapshot(self) -> object:
        """The whole state in canonical form."""
        ...

    @property
    def recabled(self) -> Mapping[str, tuple[str, str]]:
        """Port to the (host, network device) plugged in by mistake."""
        ...


@runtime_checkable
class EthernetSwitch(Protocol):
    """The methods that the physics calls on a switch for RoCE."""

    def port_view(self, port: str) -> PortView:
        """The settings of a port that the physics may use."""
        ...

    def add_counters(
        self, port: str, tc: int, rx_bytes: int, tx_bytes: int, ecn_marked: int
    ) -> None:
        """Move the counters of one traffic class."""
        ...

    def add_discards(self, port: str, rx_discards: int) -> None:
        """Move a port's discard counter."""
        ...

    def add_pauses(self, port: str, priority: int, rx: int, tx: int) -> None:
        """Move the counters of PFC frames."""
        ...

    def add_drops(self, port: str, tc: int, packets: int) -> None:
        """Move the counter of packets that a full queue dropped."""
        ...


@runtime_checkable
class RoutingSwitch(Protocol):
    """The methods that the physics calls on a routing switch."""

    told: Callable[[], BgpView]
    """The routes that its neighbours announce by BGP, if the lab computes them."""

    def port_view(self, port: str) -> PortView:
        """The settings of a port that the physics may use."""
        ...

    def router_view(self) -> RouterView:
        """Its addresses, and the networks that its BGP announces to each neighbour."""
        ...


class Daemons(Protocol):
    """The real daemons of a routed switch, as its emulator uses them."""

    def take(self, view: RouterView) -> str | None:
        """Route by this from now on; returns FRR's refusal, after which nothing has changed."""
        ...

    def vtysh(self, *words: str) -> tuple[int, str]:
        """Exit status and output of the real vtysh."""
        ...

    def heard(self) -> Mapping[str, tuple[str, Told]]:
        """Port to the neighbour's (system, announced port) by LLDP."""
        ...


@runtime_checkable
class FrrSwitch(RoutingSwitch, Protocol):
    """The attributes that the lab needs of a switch that may run real routing daemons."""

    frr: Daemons | None
    """None while the lab computes its routes."""
    on_commit: Callable[[], None]
    """Called after every change of its state."""

    @property
    def recabled(self) -> Mapping[str, tuple[str, str]]:
        """Port to the (host, network device) plugged in by mistake."""
        ...

    @property
    def in_force(self) -> object:
        """A value that stays equal until a change affects ports or routes."""
        ...


@runtime_checkable
class SubnetSwitch(Protocol):
    """The methods that the fabric calls on an InfiniBand switch."""

    on_commit: Callable[[], None]
    """Called after every change of its state."""

    def subnet_view(self) -> SubnetView:
        """Its subnet manager, partitions and links."""
        ...


EMULATORS: Final[dict[str, str]] = {
    "onyx": "lab.switches.onyx.server:OnyxSwitch",
    "cumulus": "lab.switches.cumulus.server:CumulusSwitch",
    "eos": "lab.switches.eos.server:EosSwitch",
    "sonic": "lab.switches.sonic.server:SonicSwitch",
    "mlnxos": "lab.switches.mlnxos.server:MlnxosSwitch",
}
"""Switch system to its emulator, by name: a lab with only hosts imports none."""


def make_switch(config: SwitchConfig, state: Path) -> Switch:
    """The emulator of a switch's operating system.

    Raises:
        UsageError: The lab does not emulate this system.
    """
    if config.os not in EMULATORS:
        raise UsageError(f"{config.name}: the lab plays no switch with {config.os!r}")
    module, _, name = EMULATORS[config.os].partition(":")
    return cast("Switch", getattr(import_module(module), name)(config, state))
