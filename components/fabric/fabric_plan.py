"""From the site to one desired state a switch: pure, and the same at every run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from components.core.errors import SpecError
from components.core.templates import fault_text
from components.fabric.cabling import CableEnd, RoutedLinks, plan_cables, plan_links
from components.fabric.links import plan_waves, rails_on_link
from components.fabric.moves import guarded
from components.fabric.network_plan import plan_routing, plan_subnet, plan_ufm
from components.fabric.parts import Frozen
from components.fabric.ports import plan_link, plan_queues, splits_by_speed, splits_of, with_repairs
from components.fabric.state import PortState, SwitchState
from components.fabric.switch_guards import Guarded
from components.fabric.systems import UFM, system_of
from components.fabric.systems.ranges import named_vlans
from components.fabric.targets import ExecPlan, plan_exec, plan_lines, target_of_apply
from components.model.cluster import ClusterSpec, SwitchWaves
from components.model.fabric import Switch, SwitchPort
from components.remote.endpoint import endpoint_of, with_deadlines
from components.remote.step import Endpoint

SwitchStep = Literal["baseline", "apply", "exec", "save", "saved"]
"""The state before the first change, and the apply; or the exec of the whole configuration, judged
as `apply`, and the exec that saves it, judged as `saved`."""


class SwitchPlan(Frozen):
    """The wanted state of one switch, and its address. Holds names of secrets, no secret."""

    name: str
    os: str
    model: str
    endpoint: Endpoint
    desired: SwitchState
    commands_from_factory: tuple[str, ...]
    """The lines that an untouched switch would get, for people."""
    exec: Annotated[ExecPlan | None, Field(exclude_if=lambda plan: plan is None)] = None
    """The texts if the whole configuration goes as one exec; None: `railyard device` does it."""
    # The next fields change no setting, so the plan's digest leaves them out.
    cables: dict[str, CableEnd] = Field(default={}, exclude=True)
    """Port to the far end of its cable in the file, for the comparison with LLDP."""
    ports: Annotated[Literal["allow", "deny", "drain"], Field(exclude=True)] = "allow"
    """Whether the step may interrupt traffic: `disruption.ports`."""
    serial: Annotated[str, Field(exclude=True)] = ""
    """Serial number that the file says; empty: the recorded one counts."""
    guarded: Guarded | None = Field(default=None, exclude=True)
    """The classes that foreign settings must not break; None if it carries no RoCE."""
    links: RoutedLinks | None = Field(default=None, exclude=True)
    """Its routed links, for the comparison with BGP's sessions; None without routed links."""
    timed_restore_s: Annotated[int | None, Field(exclude=True)] = None
    """Seconds after which the switch itself takes back an unconfirmed change; None: it never does,
    and a lost session leaves the lines already taken."""
    waves: Annotated[tuple[tuple[str, ...], ...], Field(exclude=True)] = ()
    """The switches of the site in the order in which they change (`plan_waves`). Empty: in any
    order, as on a new site without traffic."""
    settle_s: Annotated[int, Field(exclude=True)] = SwitchWaves().settle_s
    """Seconds that the switch gets after a change to bring its links and neighbours back."""

    @property
    def wave(self) -> int:
        """The number of its wave, from 0. UFM, which is in no wave, comes last."""
        found = (number for number, names in enumerate(self.waves) if self.name in names)
        return next(found, len(self.waves))

    @property
    def marks(self) -> bool:
        """Whether the switch itself keeps the name of the stack that manages it."""
        questions = system_of(self.os).identity
        return questions is not None and questions.marks

    @property
    def step(self) -> str:
        """Name of the apply step, or of the judge of `exec`."""
        return self.step_named("apply")

    def step_named(self, part: SwitchStep) -> str:
        """Name of one of its steps. The state has it, so it is an API."""
        return f"{self.name}-{part}"


def plan_fabric(spec: ClusterSpec) -> tuple[SwitchPlan, ...]:
    """Plan every switch of the site, in the order of the file, and UFM last."""
    switches = tuple(_plan_switch(spec, switch) for switch in spec.switches)
    ufm = spec.infiniband.ufm if spec.infiniband else None
    if ufm is None:
        return switches
    desired, (name, key) = plan_ufm(spec, ufm), (ufm.name, ufm.certificate_sha256)
    there = Endpoint(name, "switch", ufm.address, ufm.port, ufm.user, key, ufm.password.name)
    last = SwitchPlan(
        name=ufm.name,
        os=UFM,
        model="UFM Enterprise",
        endpoint=with_deadlines(there, spec.deadlines.switch),
        desired=desired,
        commands_from_factory=_commands_from_factory(UFM, desired, ""),
        # None of its ports leads to a host, so an interruption waits for `allow`.
        ports="deny" if spec.disruption.ports == "drain" else spec.disruption.ports,
        waves=plan_waves(spec),
        settle_s=spec.disruption.switch_waves.settle_s,
    )
    return (*switches, last)


def describe_start(plan: SwitchPlan) -> str:
    """The starting point of those lines, for people, and the ports that they must split."""
    by_hand, splits = system_of(plan.os).by_hand, plan.desired.splits
    if not splits or by_hand is None:
        return "From factory settings these commands lead there; an update sends what differs."
    whole, parts = next(iter(splits.items()))
    typed = ", ".join(line.format(whole=whole, parts=len(parts)) for line in by_hand.lines)
    return fault_text(__file__, "split-first", ports=", ".join(splits), lines=typed)


def _plan_switch(spec: ClusterSpec, switch: Switch) -> SwitchPlan:
    is_roce = switch.carries == "roce"
    desired = _plan_ethernet(spec, switch) if is_roce else plan_subnet(spec, switch)
    system, is_exec = system_of(switch.os), switch.executor == "exec"
    guard, release = system.guard, system.parse_release(switch.release)
    has_timer = guard is not None and not is_exec and release >= guard.since
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
        guarded=Guarded.model_validate(spec.rdma, from_attributes=True) if is_roce else None,
        exec=plan_exec(switch.os, desired) if is_exec else None,
        links=plan_links(spec).get(switch.name),
        timed_restore_s=guard.rollback_s if guard and has_timer else None,
    )


def _plan_ethernet(spec: ClusterSpec, switch: Switch) -> SwitchState:
    system = system_of(switch.os)
    intended, of_ports = system.intent(spec.rdma)
    queues = plan_queues(spec, switch, of_ports)
    ports = {name: _plan_port(spec, switch, name, port) for name, port in queues.items()}
    vlans = {vlan for port in ports.values() for vlan in named_vlans(port)}
    # One length for the switch: a port without a length counts with the system's default.
    said = [] if system.cable_per_port else [each.cable_length_m for each in switch.ports.values()]
    lengths = [length or system.default_cable_m for length in said] if any(said) else []
    splits = {whole: each.parts for whole, each in sorted(splits_of(switch).items())}
    state = intended.model_copy(
        update={
            "vlans": tuple(sorted(vlans)),
            "roce_cable_m": max(lengths, default=None),
            "adaptive_routing": any(each.adaptive_routing for each in queues.values()) or None,
            **plan_routing(spec, switch),
            "splits": None if splits_by_speed(system) else splits or None,
            "ports": ports,
        }
    )
    return with_repairs(state, system, spec.guards, spec.rdma)


def _plan_port(spec: ClusterSpec, switch: Switch, name: str, intent: PortState) -> PortState:
    port, system, model = switch.ports[name], system_of(switch.os), switch.hardware
    has_own = port.mode == "routed" and system.routed.own_mtu
    wanted: dict[str, object] = {
        "admin_up": True,
        "mtu_bytes": None if has_own else port.mtu_bytes or spec.rdma.port_mtu_bytes,
        **_port_vlans(spec, switch, port),
        **plan_link(switch, name),
    }
    # The rest is managed only if the file asks for it.
    if switch.edge_ports and not port.peer and port.mode != "routed":
        wanted |= {"edge_port": "on", "bpdu_guard": "on"}
    if spec.rdma.pfc_watchdog if port.pfc_watchdog is None else port.pfc_watchdog:
        times = spec.rdma.pfc_watchdog_ms
        wanted["pfc_watchdog"] = True
        wanted |= {"pfc_watchdog_ms": (times.detect, times.restore)} if times else {}
    if port.cable_length_m is not None and system.cable_per_port:
        wanted["cable_m"] = model.headroom_length(switch.os, port.cable_length_m) if model else None
    return intent.model_copy(update=wanted)


def _port_vlans(spec: ClusterSpec, switch: Switch, port: SwitchPort) -> dict[str, object]:
    """A trunk between switches carries its rails; a routed port is in no VLAN."""
    if port.peer and port.mode != "routed":
        vlans = tuple(sorted({rail.vlan for rail in rails_on_link(spec, port)}))
        return {"mode": "trunk", "trunk_vlans": vlans}
    _, _, rail_name = port.to.partition("/")
    rail = spec.rail(rail_name)
    vlan = port.vlan or (rail.vlan if rail else None)
    if vlan is None and not port.peer:
        raise SpecError(f"port to {port.to}: no rail is called {rail_name!r}, and no vlan is set")
    if vlan is None or port.mode == "routed":
        return {"mode": "routed"}
    if port.untagged is None:
        own = {"access_vlan": vlan} if port.mode == "access" else {"trunk_vlans": (vlan,)}
        return {"mode": port.mode, **own}
    # A trunk with a VLAN for frames without a tag, which must be allowed there too.
    if system_of(switch.os).native_apart:
        both = tuple(sorted((vlan, port.untagged)))
        return {"mode": "trunk", "native_vlan": port.untagged, "trunk_vlans": both}
    return {"mode": "hybrid", "access_vlan": port.untagged, "trunk_vlans": (vlan,)}


def switch_endpoint(switch: Switch) -> Endpoint:
    """How a switch is reached: its address, its pinned key, the names of its secrets."""
    return endpoint_of(switch.name, "switch", switch.ssh)


def _commands_from_factory(system: str, desired: SwitchState, release: str) -> tuple[str, ...]:
    """The lines in the words of the release that the file names."""
    known = system_of(system)
    factory = known.factory_state(tuple(desired.ports))
    native = known.native_of(known.parse_release(release))
    factory = factory.model_copy(update={"native": {**factory.native, **native}})
    lines = plan_lines(known, factory, target_of_apply(factory, desired))
    save = (known.save,) if known.save else ()
    return (*known.enter, *known.configure, *guarded(known.guard, lines), *save)
