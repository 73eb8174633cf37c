"""From the site to one desired state a switch: pure, and the same at every run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from components.core.errors import SpecError
from components.fabric.cabling import CableEnd, plan_cables
from components.fabric.candidate import guarded
from components.fabric.exec_plan import ExecPlan, plan_exec
from components.fabric.guards import Guarded, guarded_of
from components.fabric.ib_plan import plan_subnet, plan_ufm, ufm_endpoint
from components.fabric.links import rails_on_link
from components.fabric.queues import QueuePlan, with_repairs
from components.fabric.routing_plan import plan_routing
from components.fabric.sessions import RoutedLinks, plan_links
from components.fabric.splits import plan_link, plan_splits, splits_by_speed
from components.fabric.state import PortState, SwitchState
from components.fabric.systems import UFM, driver_of, system_of
from components.fabric.systems.base import HandSplit, flatten
from components.fabric.systems.ranges import port_key
from components.fabric.targets import target_of_apply
from components.fabric.waves import plan_waves
from components.model.cluster import ClusterSpec, SwitchWaves
from components.model.fabric import Rdma, Switch, SwitchPort
from components.model.infiniband import Ufm
from components.remote.endpoint import endpoint_of, with_deadlines
from components.remote.step import Endpoint


class SwitchPlan(BaseModel):
    """What one switch shall be, and where it is. Holds names of secrets, no secret."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: str
    os: str
    model: str
    endpoint: Endpoint
    desired: SwitchState
    commands_from_factory: tuple[str, ...]
    """The lines that an untouched switch would get, for people."""
    cables: dict[str, CableEnd] = Field(default={}, exclude=True)
    """Port to what the file says is plugged in there, for the comparison with LLDP. Nothing is set
    by it, so it is no part of the plan's digest."""
    exec: Annotated[ExecPlan | None, Field(exclude_if=lambda plan: plan is None)] = None
    """The texts, where the whole configuration goes as one exec; None: `railyard device` does it.

    It is not written where there is none, so that the plans of other switches stay as they are."""

    ports: Annotated[Literal["allow", "deny", "drain"], Field(exclude=True)] = "allow"
    """Whether the step may interrupt traffic: `disruption.ports`. It changes nothing that is set,
    so it is no part of the plan's digest."""

    serial: Annotated[str, Field(exclude=True)] = ""
    """Serial number that the file says; empty: the recorded one counts. Likewise."""

    guarded: Guarded | None = Field(default=None, exclude=True)
    """What settings beside ours must leave alone; None where it carries no RoCE. Likewise."""

    links: RoutedLinks | None = Field(default=None, exclude=True)
    """Its routed links, for the comparison with BGP's sessions; None where it has none. Likewise.
    """

    timed_restore_s: Annotated[int | None, Field(exclude=True)] = None
    """Seconds after which the switch itself takes back what was not confirmed; None: it never does,
    and a session that is lost leaves what it had taken. Likewise no part of the digest."""

    waves: Annotated[tuple[tuple[str, ...], ...], Field(exclude=True)] = ()
    """The switches of the site in the order in which they change (`plan_waves`). Empty: in no
    order, as on a new site, where nothing carries traffic yet. No part of the digest."""

    settle_s: Annotated[int, Field(exclude=True)] = SwitchWaves().settle_s
    """Seconds that it has after a change until its links and neighbours are back. Likewise."""

    @property
    def wave(self) -> int:
        """The number of its wave, from 0. What is in none, as UFM, comes after all of them."""
        found = (number for number, names in enumerate(self.waves) if self.name in names)
        return next(found, len(self.waves))

    @property
    def marks(self) -> bool:
        """Whether the switch itself keeps the name of the stack that manages it."""
        questions = system_of(self.os).identity
        return questions is not None and questions.marks

    @property
    def baseline_step(self) -> str:
        """Name of the step that records what was there before the first change."""
        return f"{self.name}-baseline"

    @property
    def step(self) -> str:
        """Name of the apply step: it becomes the resource name, so it is an API.

        With `exec` it judges what the exec printed; its input is the same watched state.
        """
        return f"{self.name}-apply"

    @property
    def exec_step(self) -> str:
        """Name of the one exec that brings the whole configuration."""
        return f"{self.name}-exec"

    @property
    def save_step(self) -> str:
        """Name of the one exec that saves it."""
        return f"{self.name}-save"

    @property
    def saved_step(self) -> str:
        """Name of the step that judges what saving printed."""
        return f"{self.name}-saved"


def plan_fabric(spec: ClusterSpec) -> tuple[SwitchPlan, ...]:
    """Plan every switch of the site, in the order of the file, and UFM last.

    Whether models, systems and releases can do what is asked is for the rules to say.

    Raises:
        SpecError: A port leads to a rail that is not there.
    """
    switches = tuple(_plan_switch(spec, switch) for switch in spec.switches)
    ufm = spec.infiniband.ufm if spec.infiniband else None
    return switches if ufm is None else (*switches, _plan_ufm(spec, ufm))


def render_first_commands(plan: SwitchPlan) -> tuple[str, ...]:
    """The lines that an untouched switch would get, for people."""
    return plan.commands_from_factory


def describe_start(plan: SwitchPlan) -> str:
    """From where those lines lead, for people: no factory has ports that people must split."""
    driver, splits = driver_of(plan.os), plan.desired.splits
    if not splits or not isinstance(driver, HandSplit):
        return "From factory settings these commands lead there; an update sends what differs."
    whole, parts = next(iter(splits.items()))
    typed = ", ".join(line.format(whole=whole, parts=len(parts)) for line in driver.by_hand.lines)
    return (
        f"Not from factory settings: people split {', '.join(splits)} before ({typed}). Then these "
        "commands lead there; an update sends what differs."
    )


def _plan_switch(spec: ClusterSpec, switch: Switch) -> SwitchPlan:
    desired = _DESIRED[switch.carries](spec, switch)
    return SwitchPlan(
        name=switch.name,
        os=switch.os,
        model=switch.model,
        endpoint=with_deadlines(switch_endpoint(switch), spec.deadlines.switch),
        desired=desired,
        commands_from_factory=_commands_from_factory(switch.os, desired, switch.release),
        cables=plan_cables(spec, switch),
        serial=switch.serial or "",
        ports=spec.disruption.ports,
        waves=plan_waves(spec),
        settle_s=spec.disruption.switch_waves.settle_s,
        guarded=guarded_of(spec.rdma) if switch.carries == "roce" else None,
        exec=plan_exec(switch.os, desired) if switch.executor == "exec" else None,
        links=plan_links(spec).get(switch.name),
        timed_restore_s=_timed_restore_s(switch),
    )


def _timed_restore_s(switch: Switch) -> int | None:
    system = system_of(switch.os)
    guard = system.driver.guard
    if guard is None or switch.executor == "exec":
        return None
    return guard.rollback_s if system.parse_release(switch.release) >= guard.since else None


def _plan_ufm(spec: ClusterSpec, ufm: Ufm) -> SwitchPlan:
    desired = plan_ufm(spec, ufm)
    return SwitchPlan(
        name=ufm.name,
        os=UFM,
        model="UFM Enterprise",
        endpoint=with_deadlines(ufm_endpoint(ufm), spec.deadlines.switch),
        desired=desired,
        commands_from_factory=_commands_from_factory(UFM, desired, ""),
        # No port of it leads to a host: what would interrupt waits for `allow`.
        ports="deny" if spec.disruption.ports == "drain" else spec.disruption.ports,
        waves=plan_waves(spec),
        settle_s=spec.disruption.switch_waves.settle_s,
    )


def _plan_ethernet(spec: ClusterSpec, switch: Switch) -> SwitchState:
    system = system_of(switch.os)
    intent = system.intent(spec.rdma)
    queues = QueuePlan.of(spec, switch)
    ports = {
        name: _plan_port(spec, switch, name, queues.settle(name, intent.port))
        for name in sorted(switch.ports, key=port_key)
    }
    vlans = {vlan for port in ports.values() for vlan in _vlans_of(port)}
    state = intent.switch.model_copy(
        update={
            "vlans": tuple(sorted(vlans)),
            "roce_cable_m": _longest_cable(switch),
            "adaptive_routing": True if queues.spreading else None,
            **plan_routing(spec, switch),
            "splits": None if splits_by_speed(system) else plan_splits(switch),
            "ports": ports,
        }
    )
    return with_repairs(state, system, spec.guards, spec.rdma)


_DESIRED: Final[dict[str, Callable[[ClusterSpec, Switch], SwitchState]]] = {
    "roce": _plan_ethernet,
    "infiniband": plan_subnet,
}
"""Transport of a switch to what decides its state."""


def _longest_cable(switch: Switch) -> int | None:
    """One length for the switch: a port that says none counts as long as the system takes it."""
    system = system_of(switch.os)
    lengths = [port.cable_length_m for port in switch.ports.values()]
    if system.cable_per_port or not any(lengths):
        return None
    return max(length or system.default_cable_m for length in lengths)


def _own_cable(switch: Switch, port: SwitchPort) -> dict[str, object]:
    """The length of this port's cable, as the platform has headroom for one."""
    if port.cable_length_m is None or not system_of(switch.os).cable_per_port:
        return {}
    model = switch.hardware
    length = model.headroom_length(switch.os, port.cable_length_m) if model else None
    return {"cable_m": length}


def _plan_port(spec: ClusterSpec, switch: Switch, name: str, intent: PortState) -> PortState:
    port = switch.ports[name]
    has_own = port.mode == "routed" and system_of(switch.os).routed.own_mtu
    return intent.model_copy(
        update={
            "admin_up": True,
            "mtu_bytes": None if has_own else port.mtu_bytes or spec.rdma.port_mtu_bytes,
            **(_link_vlans(spec, port) if port.peer else _host_vlans(spec, switch, port)),
            **_edge(switch, port),
            **_own_watchdog(spec.rdma, port),
            **_own_cable(switch, port),
            **plan_link(switch, name),
        }
    )


def _host_vlans(spec: ClusterSpec, switch: Switch, port: SwitchPort) -> dict[str, object]:
    _, _, rail_name = port.to.partition("/")
    rail = spec.rail(rail_name)
    vlan = port.vlan or (rail.vlan if rail else None)
    if vlan is None:
        raise SpecError(f"port to {port.to}: no rail is called {rail_name!r}, and no vlan is set")
    if port.mode == "routed":
        return {"mode": "routed"}
    if port.untagged is not None:
        # A trunk with a VLAN for frames without a tag, which must be allowed there too.
        if system_of(switch.os).native_apart:
            both = tuple(sorted((vlan, port.untagged)))
            return {"mode": "trunk", "native_vlan": port.untagged, "trunk_vlans": both}
        return {"mode": "hybrid", "access_vlan": port.untagged, "trunk_vlans": (vlan,)}
    access = port.mode == "access"
    return {
        "mode": port.mode,
        "access_vlan": vlan if access else None,
        "trunk_vlans": None if access else (vlan,),
    }


def _link_vlans(spec: ClusterSpec, port: SwitchPort) -> dict[str, object]:
    """A trunk carries its rails; a routed link is in no VLAN."""
    if port.mode == "routed":
        return {"mode": "routed"}
    vlans = tuple(sorted(rail.vlan for rail in rails_on_link(spec, port)))
    return {"mode": "trunk", "trunk_vlans": vlans}


def _edge(switch: Switch, port: SwitchPort) -> dict[str, object]:
    """Spanning tree of a switched port to a host: ours only if the file asks for it."""
    is_edge = switch.edge_ports and not port.peer and port.mode != "routed"
    return {"edge_port": "on", "bpdu_guard": "on"} if is_edge else {}


def _own_watchdog(rdma: Rdma, port: SwitchPort) -> dict[str, object]:
    """The watchdog, and its times, are ours only where the file sets them."""
    watched = rdma.pfc_watchdog if port.pfc_watchdog is None else port.pfc_watchdog
    if not watched:
        return {}
    times = rdma.pfc_watchdog_ms
    own = {} if times is None else {"pfc_watchdog_ms": (times.detect, times.restore)}
    return {"pfc_watchdog": True, **own}


def _vlans_of(port: PortState) -> tuple[int, ...]:
    trunk = () if port.trunk_vlans in {None, "all"} else port.trunk_vlans
    access = () if port.access_vlan is None else (port.access_vlan,)
    return (*(vlan for vlan in trunk or () if isinstance(vlan, int)), *access)


def switch_endpoint(switch: Switch) -> Endpoint:
    """How a switch is reached: its address, its pinned key, the names of its secrets."""
    return endpoint_of(switch.name, "switch", switch.ssh)


def _commands_from_factory(system: str, desired: SwitchState, release: str) -> tuple[str, ...]:
    """The lines in the words of the release that the file names."""
    driver, known = driver_of(system), system_of(system)
    factory = driver.factory_state(tuple(desired.ports))
    native = known.native_of(known.parse_release(release))
    factory = factory.model_copy(update={"native": {**factory.native, **native}})
    changes = driver.plan_changes(factory, target_of_apply(factory, desired))
    lines = list(flatten(changes))
    if any(change.settles for change in changes):
        # The one-shot comes alone; what it leaves to do is planned from what the switch then has.
        without = desired.model_copy(update={"roce": None, "pfc_priorities": None})
        rest = driver.plan_changes(factory, target_of_apply(factory, without))
        lines += flatten(rest)
    save = (driver.save,) if driver.save else ()
    return (*driver.enter, *driver.configure, *guarded(driver.guard, lines), *save)
