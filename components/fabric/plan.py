"""From the site to one desired state a switch: pure, and the same at every run."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from components.errors import SpecError
from components.fabric.drivers import driver_of
from components.fabric.drivers.cumulus_profile import MIN_RELEASE
from components.fabric.drivers.onyx_actions import flatten, port_key
from components.fabric.intent import INTENTS
from components.fabric.models import MODELS, find_model
from components.fabric.models.switch_model import SwitchModel, parse_release
from components.fabric.state import PortState, SwitchState
from components.fabric.targets import target_of_apply
from components.model.cluster import ClusterSpec
from components.model.fabric import Rdma, Switch, SwitchPort
from components.remote.endpoint import endpoint_of
from components.remote.step import Endpoint

ONE_SHOT_PRIORITY = 3
"""The priority of the one-shot `roce`, on Onyx and on Cumulus; the vendor offers no other."""


class SwitchPlan(BaseModel):
    """What one switch shall be, and where it is. Holds names of secrets, no secret."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    os: str
    model: str
    endpoint: Endpoint
    desired: SwitchState
    commands_from_factory: tuple[str, ...]
    """The lines that a switch which nobody has touched would get, for people."""

    @property
    def step(self) -> str:
        """Name of the apply step: it becomes the resource name, so it is an API."""
        return f"{self.name}-apply"


def plan_fabric(spec: ClusterSpec) -> tuple[SwitchPlan, ...]:
    """Plan every switch of the site, in the order of the file.

    Raises:
        SpecError: A model, release or port that cannot do what the site asks.
    """
    return tuple(_plan_switch(spec, switch) for switch in spec.switches)


def render_first_commands(plan: SwitchPlan) -> tuple[str, ...]:
    """The lines that a switch which nobody has touched would get, for people."""
    return plan.commands_from_factory


def _plan_switch(spec: ClusterSpec, switch: Switch) -> SwitchPlan:
    _require_capable(spec.rdma, switch)
    intent = INTENTS[switch.os](spec.rdma)
    ports = {
        name: _plan_port(spec, switch.ports[name], intent.port)
        for name in sorted(switch.ports, key=port_key)
    }
    vlans = {vlan for port in ports.values() for vlan in _vlans_of(port)}
    desired = intent.switch.model_copy(update={"vlans": tuple(sorted(vlans)), "ports": ports})
    return SwitchPlan(
        name=switch.name,
        os=switch.os,
        model=switch.model,
        endpoint=switch_endpoint(switch),
        desired=desired,
        commands_from_factory=_commands_from_factory(switch, desired),
    )


def _plan_port(spec: ClusterSpec, port: SwitchPort, intent: PortState) -> PortState:
    _, _, rail_name = port.to.partition("/")
    rail = spec.rail(rail_name)
    vlan = port.vlan or (rail.vlan if rail else None)
    if vlan is None:
        raise SpecError(f"port to {port.to}: no rail is called {rail_name!r}, and no vlan is set")
    access = port.mode == "access"
    return intent.model_copy(
        update={
            "admin_up": True,
            "mtu_bytes": port.mtu_bytes or spec.rdma.port_mtu_bytes,
            "mode": port.mode,
            "access_vlan": vlan if access else None,
            "trunk_vlans": None if access else (vlan,),
        }
    )


def _vlans_of(port: PortState) -> tuple[int, ...]:
    trunk = () if port.trunk_vlans in {None, "all"} else port.trunk_vlans
    access = () if port.access_vlan is None else (port.access_vlan,)
    return (*(vlan for vlan in trunk or () if isinstance(vlan, int)), *access)


def switch_endpoint(switch: Switch) -> Endpoint:
    """How a switch is reached: its address, its pinned key, the names of its secrets."""
    return endpoint_of(switch.name, "switch", switch.ssh)


def _commands_from_factory(switch: Switch, desired: SwitchState) -> tuple[str, ...]:
    driver = driver_of(switch.os)
    factory = driver.factory_state(tuple(desired.ports))
    changes = driver.plan_changes(factory, target_of_apply(factory, desired))
    lines = list(flatten(changes))
    if any(change.settles for change in changes):
        # The one-shot comes alone; what it leaves to do is planned from what the switch then has.
        without = desired.model_copy(update={"roce": None, "pfc_priorities": None})
        rest = driver.plan_changes(factory, target_of_apply(factory, without))
        lines += flatten(rest)
    return (*driver.enter, *driver.configure, *lines, driver.save)


def _require_capable(rdma: Rdma, switch: Switch) -> None:
    model = find_model(switch.model)
    if model is None or switch.os not in model.ports:
        raise SpecError(
            f"switch {switch.name}: no model {switch.model!r} with {switch.os}; "
            f"there are: {', '.join(sorted(MODELS))}"
        )
    for name, port in switch.ports.items():
        if not model.has_port(switch.os, name):
            raise SpecError(f"switch {switch.name}: an {model.name} has no port {name}")
        _require_mtu(switch, name, port.mtu_bytes or rdma.port_mtu_bytes, model)
    _require_release(rdma, switch, model)


def _require_mtu(switch: Switch, name: str, mtu_bytes: int, model: SwitchModel) -> None:
    low, high = model.mtu_range_bytes[switch.os]
    if not low <= mtu_bytes <= high:
        raise SpecError(
            f"switch {switch.name} port {name}: MTU {mtu_bytes} is outside {low}-{high}"
        )


def _require_release(rdma: Rdma, switch: Switch, model: SwitchModel) -> None:
    lossless = rdma.mode == "lossless"
    if switch.os == "cumulus":
        least = (*MIN_RELEASE, 0)
    else:
        least = model.min_release_one_shot if lossless else model.min_release
    if parse_release(switch.release) < least:
        raise SpecError(
            f"switch {switch.name}: release {switch.release} is too old for mode {rdma.mode}; "
            f"needs at least {'.'.join(map(str, least))}"
        )
    if (lossless or switch.os == "cumulus") and rdma.priority != ONE_SHOT_PRIORITY:
        raise SpecError(
            f"switch {switch.name}: {rdma.mode} on {switch.os.title()} is priority "
            f"{ONE_SHOT_PRIORITY} only, rdma.priority is {rdma.priority}"
        )
