"""The routed switches of one lab: namespaces with FRR and lldpd, and the cables between them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from components.core.errors import UsageError
from lab.debian import ROUTING_PACKAGES, unpacked_whole
from lab.routing import lldp
from lab.routing.links import Wire
from lab.routing.plugs import Cabling, End, plan_plugs
from lab.routing.router import MAKES, Router
from lab.routing.space import Space, why_no_namespaces, wire
from lab.switches.emulators import FrrSwitch, Switch
from lab.views import RouterView, SwitchConfig

FOLDER: Final = "routing"
ATTEND_S: Final = 0.5
Cards = Callable[[], Mapping[End, bool]]
"""Host and network device to whether its end of the cable is up."""


def emulated_because(configs: Sequence[SwitchConfig], switches: Mapping[str, Switch]) -> str | None:
    """Why the routes of this lab are computed by the lab; None: FRR may have them.

    Routes of all or of none: a neighbour without FRR would answer nothing.
    """
    others = [
        each.name
        for each in configs
        if each.routed and not isinstance(switches[each.name], FrrSwitch)
    ]
    if others:
        return f"the lab plays {', '.join(others)} without FRR"
    return why_no_namespaces()


def make_routing(
    folder: Path, configs: Sequence[SwitchConfig], switches: Mapping[str, Switch], cards: Cards
) -> tuple[RoutedFabric | None, str]:
    """The routing of a lab, and what the lab says of its routes; nothing where none is routed."""
    if not any(each.routed for each in configs):
        return None, ""
    why = emulated_because(configs, switches)
    try:
        unpacked = unpacked_whole(packages=ROUTING_PACKAGES) if why is None else None
    except UsageError as error:
        unpacked, why = None, str(error)
    if unpacked is None:
        return None, f"routes are emulated: {why}"
    said = "routes and sessions are those of FRR, each switch in a network namespace of its own"
    return RoutedFabric(unpacked, folder / FOLDER, configs, switches, cards), said


class RoutedFabric:
    """All switches with routed links."""

    def __init__(
        self,
        unpacked: Path,
        folder: Path,
        configs: Sequence[SwitchConfig],
        switches: Mapping[str, Switch],
        cards: Cards,
    ) -> None:
        """Nothing runs yet.

        Args:
            unpacked: Folder of Debian's packages.
            folder: Where files and logs of the daemons lie.
            configs: Of the lab file; those without routed links are left alone.
            switches: The emulators by name.
            cards: Says what the cards of the hosts are.
        """
        self._switches = {
            each.name: switch
            for each in configs
            if each.routed and isinstance(switch := switches[each.name], FrrSwitch)
        }
        self._links = {each.name: each.links for each in configs if each.name in self._switches}
        self._planned = {
            each.name: {p: end for p, end in each.neighbours.items() if p not in each.links}
            for each in configs
            if each.name in self._switches
        }
        self._cards = cards
        self._plugged: dict[End, End] = {}
        self._up: dict[End, bool] = {}
        self._seen: dict[str, object] = {}
        self._attending: asyncio.Task[None] | None = None
        self._lock = threading.RLock()
        names = {host for planned in self._planned.values() for host, _ in planned.values()}
        self.hosts = {name: Space(name, unpacked, folder / "hosts" / name) for name in names}
        self.routers = {
            each.name: Router(Space(each.name, unpacked, folder / each.name), MAKES[each.os])
            for each in configs
            if each.name in self._switches
        }

    async def start(self) -> None:
        """Start the daemons, plug the cables, and give each switch what it has configured.

        Raises:
            UsageError: Daemons do not start, or the kernel refuses a cable.
        """
        hosts = (self._start_host(space) for space in self.hosts.values())
        await asyncio.gather(*(each.start() for each in self.routers.values()), *hosts)
        wire(self._cables())
        for name, switch in self._switches.items():
            self.routers[name].space.ip(["link set dev lo up"])
            switch.frr = self.routers[name]
            switch.on_commit = partial(self.sync, name)
        for name in self._switches:
            self.sync(name)
        self._attending = asyncio.create_task(self._attend())

    async def _attend(self) -> None:
        """Follow the cards of hosts, which change without saying so."""
        while True:
            await asyncio.sleep(ATTEND_S)
            self.sync_hosts()

    async def _start_host(self, space: Space) -> None:
        space.prepare({lldp.CONFIG_FILE: lldp.host_config(space.name)})
        await space.start(lldp.SCRIPT)

    def _cables(self) -> list[str]:
        """Each link between switches once, from the end whose name comes first."""
        return [
            self._veth((name, port), far)
            for name, links in self._links.items()
            for port, far in links.items()
            if far[0] in self.routers and (name, port) < far
        ]

    def _veth(self, near: End, far: End) -> str:
        other = self.routers[far[0]].space if far[0] in self.routers else self.hosts[far[0]]
        one = f"link add name {near[1]} netns {self.routers[near[0]].space.pid} type veth"
        return f"{one} peer name {far[1]} netns {other.pid}"

    def stop(self) -> None:
        """End every process of the fabric."""
        if self._attending is not None:
            self._attending.cancel()
        for router in self.routers.values():
            router.stop()
        for space in self.hosts.values():
            space.kill()

    def sync(self, name: str) -> None:
        """Bring cables and daemons of a switch to what it has now."""
        with self._lock:
            now = self._switches[name].in_force
            if self._seen.get(name) != now:
                for each in sorted({name, *self._plug()}):
                    self._bring(each)
                self._seen[name] = now

    def _bring(self, name: str) -> None:
        router, switch = self.routers[name], self._switches[name]
        own = {port for (switch, port) in self._plugged if switch == name}
        own |= {port for port, (far, _) in self._links[name].items() if far in self.routers}
        router.set_ports({port: Wire.of(switch.port_view(port)) for port in own})
        router.take(switch.router_view())

    def sync_hosts(self) -> None:
        """Bring the hosts' ends of cables to what their cards are now."""
        with self._lock:
            self._bring_hosts()

    def _bring_hosts(self) -> None:
        cards = self._cards()
        changed: dict[str, list[str]] = {}
        for host, device in self._plugged.values():
            end, up = (host, device), cards.get((host, device), True)
            if self._up.get(end) != up:
                self._up[end] = up
                line = f"link set dev {device} {'up' if up else 'down'}"
                changed.setdefault(host, []).append(line)
        for host, lines in changed.items():
            self.hosts[host].ip(lines)

    def _plug(self) -> set[str]:
        """Bring the cables to hosts to where they are plugged now.

        Returns:
            The switches with another cable than before: each has an end that nobody has set up.
        """
        wanted = plan_plugs(
            Cabling(name, self._planned[name], switch.recabled)
            for name, switch in self._switches.items()
        )
        wanted = {port: end for port, end in wanted.items() if end[0] in self.hosts}
        gone = {port: end for port, end in self._plugged.items() if wanted.get(port) != end}
        for (name, port), end in gone.items():
            self.routers[name].unplug(port)
            self._up.pop(end, None)
        new = {port: end for port, end in wanted.items() if self._plugged.get(port) != end}
        wire([self._veth(port, end) for port, end in new.items()])
        self._plugged = wanted
        self.sync_hosts()
        return {switch for switch, _ in (*gone, *new)}

    def sync_all(self) -> None:
        """The same of every switch: a timer of an unconfirmed change may have run out."""
        for name in self._switches:
            self.sync(name)

    def with_routes(self, views: Sequence[RouterView]) -> tuple[RouterView, ...]:
        """The routers of a lab, with the routes that FRR uses; it may be asked on any thread."""
        return tuple(
            replace(view, routes=self.routers[view.switch].routes())
            if view.switch in self.routers
            else view
            for view in views
        )

    @property
    def pids(self) -> dict[str, int]:
        """A process in the namespace of each switch and host."""
        spaces = [router.space for router in self.routers.values()]
        return {space.name: space.pid for space in (*spaces, *self.hosts.values())}
