"""What the lab needs of an emulated switch, and which class plays which system."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, cast, runtime_checkable

from components.core.errors import UsageError
from lab.switches.neighbours import Told
from lab.views import BgpView, PortView, RouterView, SubnetView, SwitchConfig


class Switch(Protocol):
    """What the lab needs of an emulated switch."""

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
        """Port to the (host, network device) that is plugged in by mistake."""
        ...


@runtime_checkable
class EthernetSwitch(Protocol):
    """What the physics needs of a switch that carries RoCE."""

    def port_view(self, port: str) -> PortView:
        """What the physics may know of a port."""
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
        """Move the counter of what a full queue threw away."""
        ...


@runtime_checkable
class RoutingSwitch(Protocol):
    """What the physics needs of a switch that routes."""

    told: Callable[[], BgpView]
    """What its neighbours tell it by BGP, where the lab computes that."""

    def port_view(self, port: str) -> PortView:
        """What the physics may know of a port."""
        ...

    def router_view(self) -> RouterView:
        """Its addresses, and what its BGP tells to whom."""
        ...


class Daemons(Protocol):
    """The real daemons of a routed switch, as its emulator meets them."""

    def take(self, view: RouterView) -> str | None:
        """Route by this from now on; returns FRR's refusal, after which nothing has changed."""
        ...

    def vtysh(self, *words: str) -> tuple[int, str]:
        """Exit status and output of the real vtysh."""
        ...

    def heard(self) -> Mapping[str, tuple[str, Told]]:
        """Port to (system, what it tells) by LLDP."""
        ...


@runtime_checkable
class FrrSwitch(RoutingSwitch, Protocol):
    """What the lab needs of a switch whose routing can be that of real daemons."""

    frr: Daemons | None
    """None while the lab computes its routes."""
    on_commit: Callable[[], None]
    """Called after every change of its state."""

    @property
    def recabled(self) -> Mapping[str, tuple[str, str]]:
        """Port to the (host, network device) that is plugged in by mistake."""
        ...

    @property
    def in_force(self) -> object:
        """Equal to what it was as long as nothing has changed that ports or routes follow."""
        ...


@runtime_checkable
class SubnetSwitch(Protocol):
    """What the fabric needs of an InfiniBand switch."""

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
"""Switch system to its emulator: by name, so that a lab of hosts alone loads none."""


def make_switch(config: SwitchConfig, state: Path) -> Switch:
    """The emulator of a switch's operating system.

    Raises:
        UsageError: The lab plays no switch of this system.
    """
    if config.os not in EMULATORS:
        raise UsageError(f"{config.name}: the lab plays no switch with {config.os!r}")
    module, _, name = EMULATORS[config.os].partition(":")
    return cast("Switch", getattr(import_module(module), name)(config, state))
