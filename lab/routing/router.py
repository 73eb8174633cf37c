"""The daemons of one switch in its own namespace: mgmtd, zebra, bgpd, bfdd of FRR, and lldpd."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pydantic import BaseModel, Field, TypeAdapter

from components.core.record import record, replace
from lab.routing import lldp
from lab.routing.lines import plan_lines
from lab.routing.links import Wire, address_lines, port_lines, vlan_line
from lab.routing.space import Space
from lab.routing.vty import Reply, exchange
from lab.switches.neighbours import Told
from lab.views import RouterView, RouteView

_SCRIPT: Final = """\
for each in mgmtd zebra bgpd bfdd; do
    /usr/lib/frr/$each -d -u root -g root -F {} -P 0 --limit-fds 1024 \\
        --log file:/run/frr/$each.log
done"""
"""Each daemon returns once it answers. Without mgmtd, zebra tries to reach it 75 times a second."""


@record
class Make:
    """How a switch system has FRR."""

    defaults: str
    """`datacenter` has timers of 3 and 9 s, and asks no policy of a neighbour of another number;
    `traditional`, which FRR has where nothing is said, has 60 and 180 s, and asks for one."""
    refuses: bool
    """A change of which FRR refuses a line is not made at all; else that line alone is not."""


MAKES: Final = {
    "cumulus": Make("datacenter", refuses=True),
    "sonic": Make("traditional", refuses=False),
}
"""NVUE applies all or nothing; frrcfgd logs the line that failed (sources.md#sonic)."""
_NOT_RUNNING: Final = "bgpd is not running"
"""What vtysh says of it."""


class _NextHop(BaseModel):
    name: str = Field(alias="interfaceName", default="")
    fib: bool = False
    """It was put into the kernel, and may have lost its link since."""
    active: bool = False


class _Entry(BaseModel):
    protocol: str
    installed: bool = False
    nexthops: list[_NextHop] = []


_TABLE: Final = TypeAdapter(dict[str, list[_Entry]])


def parse_routes(text: str) -> tuple[RouteView, ...]:
    """The routes in use of `show ip route json`; addresses of the switch itself are none."""
    found: list[RouteView] = []
    for network, entries in _TABLE.validate_json(text).items():
        for entry in entries:
            hops = tuple(hop.name for hop in entry.nexthops if hop.fib and hop.active)
            if entry.installed and hops and entry.protocol != "local":
                found.append(RouteView(network, hops, entry.protocol == "connected"))
    return tuple(found)


def _refusal(replies: Sequence[Reply]) -> str | None:
    bad = next((each for each in replies if each.status), None)
    return None if bad is None else bad.text.strip() or f"status {bad.status}"


class Router:
    """FRR of one switch."""

    def __init__(self, space: Space, make: Make) -> None:
        """Nothing runs yet."""
        self.space = space
        self._make = make
        self._held: RouterView | None = None
        self._wires: dict[str, Wire] = {}
        self._lock = threading.RLock()

    async def start(self) -> None:
        """Start the daemons, without any configuration.

        Raises:
            UsageError: One does not start.
        """
        self._held, self._wires = None, {}
        self.space.prepare({lldp.CONFIG_FILE: lldp.switch_config(self.space.name)})
        await self.space.start(f"{_SCRIPT.format(self._make.defaults)}\n{lldp.SCRIPT}")

    def take(self, view: RouterView) -> str | None:
        """Route by this from now on.

        Returns:
            What FRR refused a line with, and then nothing has changed; None: it took what the
            system has it take.
        """
        if not self.space.pid:
            return None
        with self._lock:
            held = self._held
            replies = self._say(plan_lines(held, view), whole=not self._make.refuses)
            refusal = _NOT_RUNNING if replies is None else _refusal(replies)
            if refusal is not None and (replies is None or self._make.refuses):
                self._undo(view, held)
                return refusal
            before = held.addresses if held else {}
            self.space.ip([*address_lines(before, self._own(view), bridge_up=self._bridge_up)])
            self._held = replace(view, addresses=self._own(view))
            return None

    def _own(self, view: RouterView) -> dict[str, tuple[str, ...]]:
        """Addresses of what there is here: a port without a cable has no interface."""
        return {
            name: addresses
            for name, addresses in view.addresses.items()
            if name in self._wires or name == "lo" or name.startswith("vlan")
        }

    def _undo(self, tried: RouterView, held: RouterView | None) -> None:
        """Take back what was tried; a line that bgpd has never taken is refused once more."""
        self._say(plan_lines(tried, held or replace(tried, asn=None)), whole=True)

    def _say(self, lines: Sequence[str], *, whole: bool = False) -> tuple[Reply, ...] | None:
        try:
            return exchange(self._socket("bgpd"), lines, whole=whole) if lines else ()
        except OSError:
            return None

    def _socket(self, daemon: str) -> Path:
        return self.space.run_folder / "frr" / f"{daemon}.vty"

    @property
    def _bridge_up(self) -> bool:
        return any(wire.up and wire.bridged for wire in self._wires.values())

    def set_ports(self, wires: Mapping[str, Wire]) -> None:
        """Bring the ends of cables, and the interfaces of VLANs, to what the ports are.

        Raises:
            UsageError: The kernel refused it.
        """
        if not self.space.pid:
            return
        with self._lock:
            before, was_up = self._wires, self._bridge_up
            lines = [
                line
                for name, wire in wires.items()
                for line in port_lines(name, before.get(name), wire)
            ]
            self._wires = dict(wires)
            self.space.ip([*lines, *self._vlan_lines(was_up=was_up)])

    def unplug(self, port: str) -> None:
        """Take a cable out; its other end goes with it, and so do addresses of the port."""
        with self._lock:
            was_up = self._bridge_up
            self._wires.pop(port, None)
            self.space.ip([f"link delete dev {port}", *self._vlan_lines(was_up=was_up)])
            if self._held is not None:
                self._held = replace(self._held, addresses=self._own(self._held))

    def _vlan_lines(self, *, was_up: bool) -> list[str]:
        """Switch the interfaces of VLANs, where the bridge has its first or lost its last port."""
        if self._held is None or self._bridge_up == was_up:
            return []
        names = (name for name in self._held.addresses if name.startswith("vlan"))
        return [vlan_line(name, bridge_up=self._bridge_up) for name in names]

    def routes(self) -> tuple[RouteView, ...]:
        """What zebra has in use; nothing where it is gone."""
        try:
            (reply,) = exchange(self._socket("zebra"), ("show ip route json",))
        except OSError:
            return ()
        return parse_routes(reply.text)

    def heard(self) -> dict[str, tuple[str, Told]]:
        """Port to (system, what it tells) of those whose frames lldpd has."""
        return lldp.heard_in(self.space)

    def vtysh(self, *words: str) -> tuple[int, str]:
        """Exit status and output of its real vtysh."""
        done = self.space.run("/usr/bin/vtysh", *words)
        return done.returncode, done.stdout + done.stderr

    def stop(self) -> None:
        """End its daemons."""
        with self._lock:
            self.space.kill()
