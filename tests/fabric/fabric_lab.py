"""A whole fabric of emulated switches without SSH, from a site file's text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.catalogue.switches import MODELS
from components.checks.registry import RULES
from components.core.problem import Finding
from components.fabric.exchange import Exchange
from components.fabric.fabric_plan import SwitchPlan, plan_fabric
from components.fabric.state import SwitchState
from components.model.cluster import ClusterSpec
from lab.site import lab_file, load_document
from lab.switches.cumulus.server import CumulusSwitch
from lab.switches.emulators import make_switch
from lab.switches.eos.server import EosSwitch
from lab.switches.onyx.server import OnyxSwitch
from lab.switches.sonic.server import SonicSwitch
from tests.fabric import conftest as onyx_lab
from tests.fabric import eos_lab, sonic_lab
from tests.fabric.in_process import apply, baseline_of, restore
from tests.fabric.switch_labs import LABS

EXAMPLES = Path(__file__).parents[2] / "examples"
Emulator = OnyxSwitch | CumulusSwitch | EosSwitch | SonicSwitch


@dataclass(frozen=True)
class Kind:
    """What a chain of one system is made of."""

    model: str
    release: str
    port: str
    save: tuple[str, ...]
    rdma: Mapping[str, object] = field(default_factory=dict[str, object])
    lanes: int = 0
    """Where ports are called by their first lane: how many a port has."""
    first: tuple[str, ...] = ()
    """What an operator does once, on SONiC: pools before lossless, and who makes BGP."""


KINDS = {
    "onyx": Kind("SN2700", "3.10.4006", "1/{}", ("enable", "configuration write")),
    "cumulus": Kind("SN2700", "5.9.2", "swp{}", ("nv config save",)),
    "eos": Kind(
        eos_lab.MODEL,
        "4.32.1F",
        "Ethernet{}/1",
        ("enable", "write memory"),
        {"port_mtu_bytes": 9214},
    ),
    "sonic": Kind(
        "Z9332F",
        "202405",
        "Ethernet{}",
        ("sudo config save -y",),
        lanes=8,
        first=("sudo config qos reload", sonic_lab.FRRCFGD, "sudo config save -y"),
    ),
}


def load_example(name: str) -> dict[str, Any]:
    return load_document(EXAMPLES / name / "site.yaml")


def chain_of(system: str, leaves: int, **rdma: object) -> ClusterSpec:
    """Leaves in a row, joined by trunks; host n of rail-0 and rail-1 is on leaf n."""
    kind = KINDS[system]
    site = onyx_lab.load_spec(**{**kind.rdma, **rdma}).model_dump(mode="json")
    first, template = site["switches"][0], site["hosts"][1]
    hosts, switches = [site["hosts"][0]], list[object]()
    for number in range(1, leaves + 1):
        host = {**template, "name": f"gpu{number:02}"}
        host["ssh"] = {**template["ssh"], "address": f"192.168.2.{10 + number}"}
        hosts.append(host)
        ports = {1: f"gpu{number:02}/rail-0", 2: f"gpu{number:02}/rail-1"}
        if number > 1:
            ports[31] = f"leaf-{number - 1:02}:{port_name(system, 32)}"
        if number < leaves:
            ports[32] = f"leaf-{number + 1:02}:{port_name(system, 31)}"
        switches.append(
            first
            | {
                "name": f"leaf-{number:02}",
                "os": system,
                "model": kind.model,
                "release": kind.release,
                "ssh": {**first["ssh"], "address": f"192.168.1.{4 + number}"},
                "ports": {port_name(system, port): to for port, to in ports.items()},
            }
        )
    return ClusterSpec.model_validate(site | {"hosts": hosts, "switches": switches})


def _route_cards(site: dict[str, Any]) -> None:
    """Each card on a routed port, with a /31 of its own: hosts are in the order of leaves."""
    for number, host in enumerate(site["hosts"][1:]):
        for rail, nic in enumerate(host["nics"]):
            nic["address"] = f"10.10.{111 + rail}.{2 * number + 1}"
    for rail in site["rails"]:
        rail["leaves"] = {}
    for leaf in site["switches"]:
        for port in leaf["ports"].values():
            port["mode"] = "routed"
    site["pod_network"] |= {"mode": "rdma_shared", "host_network": True}


def routed_of(
    system: str,
    *,
    bfd: bool = False,
    spine: str = "",
    cards: bool = False,
    numbered: bool = False,
    **rdma: object,
) -> ClusterSpec:
    """Two leaves below a spine, joined by routed links, with a part of both rails on each leaf.

    The spine is of the same system unless `spine` says another one. With `cards`, ports to hosts
    are routed too; with `numbered`, the first link of each leaf has a /31.
    """
    site = chain_of(system, 2, **rdma).model_dump(mode="json")
    for number, rail in enumerate(site["rails"]):
        net = f"10.10.{111 + number}"
        rail["leaves"] = {
            "leaf-01": {"subnet": f"{net}.0/25", "gateway": f"{net}.1"},
            "leaf-02": {"subnet": f"{net}.128/25", "gateway": f"{net}.129"},
        }
    far, ends = spine or system, dict[str, object]()
    for number, leaf in enumerate(site["switches"], start=1):
        leaf["routing"] = {"asn": 65100 + number, "router_id": f"10.255.0.{number}", "bfd": bfd}
        ports = [port_name(system, 1), port_name(system, 2)]
        leaf["ports"] = dict(zip(ports, (leaf["ports"][port] for port in ports), strict=True))
        for link in (0, 1):
            here, there = port_name(system, 29 + link), port_name(far, 2 * number + link)
            leaf["ports"][here] = {"to": f"spine-01:{there}", "mode": "routed"}
            ends[there] = {"to": f"{leaf['name']}:{here}", "mode": "routed"}
            if numbered and not link:
                leaf["ports"][here]["address"] = f"10.254.0.{2 * number}"
    if cards:
        _route_cards(site)
    kind = KINDS[far]
    site["switches"].append(
        site["switches"][0]
        | {"name": "spine-01", "os": far, "model": kind.model, "release": kind.release}
        | {"routing": {"asn": 65001, "router_id": "10.255.0.9", "bfd": bfd}, "ports": ends}
        | {"ssh": {**site["switches"][0]["ssh"], "address": "192.168.1.20"}}
    )
    return ClusterSpec.model_validate(site)


def units_of(system: str, mode: str = "lossless", *, top: str = "", supers: int = 1) -> ClusterSpec:
    """Two scalable units, each a leaf below a spine, and super-spines (of `top`) over both."""
    site = routed_of(system, mode=mode).model_dump(mode="json")
    spine, far = site["switches"][2], top or system
    over: list[dict[str, object]] = [{} for _ in range(supers)]
    for number, leaf in enumerate(site["switches"][:2], start=1):
        name, ports = f"spine-{number:02}", dict[str, object]()
        for link in (0, 1):
            up, down = port_name(system, 29 + link), port_name(system, 1 + link)
            leaf["ports"][up]["to"] = f"{name}:{down}"
            ports[down] = {"to": f"{leaf['name']}:{up}", "mode": "routed"}
        for index, ends in enumerate(over):
            up, down = port_name(system, 5 + index), port_name(far, number)
            ports[up] = {"to": f"super-{index + 1:02}:{down}"}
            ends[down] = {"to": f"{name}:{up}"}
        routing = {"asn": 65000 + number, "router_id": f"10.255.1.{number}"}
        site["switches"].append(spine | {"name": name, "routing": routing, "ports": ports})
    del site["switches"][2]
    kind = KINDS[far]
    made = spine | {"os": far, "model": kind.model, "release": kind.release}
    for number, ends in enumerate(over, start=1):
        routing = {"asn": 64900, "router_id": f"10.255.2.{number}"}
        name = f"super-{number:02}"
        site["switches"].append(made | {"name": name, "routing": routing, "ports": ends})
    for number, switch in enumerate(site["switches"]):
        switch["ssh"] = {**spine["ssh"], "address": f"192.168.1.{20 + number}"}
        for port in switch["ports"].values():
            port["mode"] = "routed" if ":" in port["to"] else "trunk"
    return ClusterSpec.model_validate(site)


SPLIT_MODELS = {"cumulus": "SN5600", "eos": "DCS-7060X6-64PE", "sonic": "Z9332F", "onyx": "SN3700"}
"""System to a model whose ports can be split in two."""


def parts_of(system: str, number: int, parts: int = 2) -> tuple[str, ...]:
    """The names of the parts of a port."""
    return MODELS[SPLIT_MODELS[system]].part_names(system, port_name(system, number), parts)


def split_of(system: str, parts: int = 2, **rdma: object) -> ClusterSpec:
    """A leaf with both cards of a host on parts of the first port: the first and the last."""
    site = chain_of(system, 1, **rdma).model_dump(mode="json")
    leaf = site["switches"][0] | {"model": SPLIT_MODELS[system]}
    first, *_, last = parts_of(system, 1, parts)
    leaf["ports"] = dict(zip((first, last), leaf["ports"].values(), strict=True))
    plug_cards(site, 100)
    return ClusterSpec.model_validate(site | {"switches": [leaf]})


def plug_cards(site: dict[str, Any], speed_gbit_s: int) -> None:
    """Cards of a speed in every host."""
    for nic in (nic for host in site["hosts"] for nic in host["nics"]):
        nic |= {"model": "ConnectX-7", "speed_gbit_s": speed_gbit_s}


def port_name(system: str, number: int) -> str:
    kind = KINDS[system]
    return kind.port.format(kind.lanes * (number - 1) if kind.lanes else number)


@dataclass
class Room:
    """One emulated switch, its plan, and what was there before."""

    plan: SwitchPlan
    switch: Emulator
    baseline: SwitchState | None = None

    def prepare(self) -> None:
        """What an operator does once."""
        for line in KINDS[self.plan.os].first:
            self.switch.run_line(line)

    def talk(self) -> Exchange:
        return LABS[self.plan.os].talk(self.switch)

    def save(self) -> None:
        session = self.switch.session()
        for line in KINDS[self.plan.os].save:
            session.run(line)

    def record(self) -> None:
        self.baseline = baseline_of(self.talk(), self.plan.desired)

    def apply(self) -> tuple[str, ...]:
        return apply(self.talk(), self.plan.desired)

    def restore(self) -> None:
        assert self.baseline is not None
        restore(self.talk(), self.plan.desired, self.baseline)

    def read(self) -> SwitchState:
        return self.talk().read(self.plan.desired).state


def rooms_of(
    spec: ClusterSpec, folder: Path, prepare: Callable[[Room], None] = lambda _room: None
) -> list[Room]:
    """An emulator for every switch of a site; `prepare` is before what an operator does once."""
    configs = lab_file(spec, "fabric", (folder, folder, folder)).switches
    rooms: list[Room] = []
    for plan, config in zip(plan_fabric(spec), configs, strict=True):
        switch = make_switch(config, folder / f"{config.name}.json")
        assert isinstance(switch, OnyxSwitch | CumulusSwitch | EosSwitch | SonicSwitch)
        rooms.append(Room(plan, switch))
        prepare(rooms[-1])
        rooms[-1].prepare()
    return rooms


def applied_rooms(spec: ClusterSpec, folder: Path) -> list[Room]:
    """An emulator for every switch of a site, with its plan applied."""
    rooms = rooms_of(spec, folder)
    for room in rooms:
        room.apply()
    return rooms


def problems_of(name: str, site: dict[str, Any]) -> list[Finding]:
    """Problems that one rule finds in a site."""
    spec = ClusterSpec.model_validate(site)
    return [found for rule in RULES if rule.name == name for found in rule.problems(spec)]


def told(spec: ClusterSpec) -> dict[str, list[str]]:
    """Rules on links and routing to the fixes of their errors."""
    names = {"link-loop", "routed-link", "routing", "rail-gateway", "rail-leaf", "link-match"}
    names |= {"link-address", "spine-link"}
    found = [problem for rule in RULES if rule.name in names for problem in rule.problems(spec)]
    problems = [problem for problem in found if problem.severity == "error"]
    return {
        problem.rule: [each.fix for each in problems if each.rule == problem.rule]
        for problem in problems
    }
