"""Sites that ask for much at once: split ports, routed links, queues, spreading."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from hypothesis import strategies as st

from components.fabric.fabric_plan import plan_fabric
from components.model.cluster import ClusterSpec
from lab.site import lab_file
from lab.switches.cumulus.server import CumulusSwitch
from lab.switches.emulators import make_switch
from lab.switches.eos.server import EosSwitch
from lab.switches.onyx.server import OnyxSwitch
from lab.switches.sonic.server import SonicSwitch
from tests.fabric.eos_lab import Clock
from tests.fabric.fabric_lab import (
    SPLIT_MODELS,
    Room,
    chain_of,
    parts_of,
    plug_cards,
    rooms_of,
    routed_of,
)
from tests.fabric.switch_labs import LABS, Emulator, SwitchLab

SHARED: Final = {"shares": {0: 40, 3: 60}}
MARKED: Final = {"ecn_min_kib": 600, "ecn_max_kib": 3000, "ecn_mark_percent": 20}
WATCHED: Final = {"pfc_watchdog": True, "pfc_watchdog_ms": {"detect": 200, "restore": 400}}
EVERYTHING: Final[dict[str, dict[str, Any]]] = {
    "onyx": {"ecn_min_kib": 600, "ecn_max_kib": 3000, "schedule": SHARED},
    "cumulus": {**MARKED, "schedule": SHARED},
    "eos": {**MARKED, **WATCHED, "schedule": SHARED, "cnp_class": 7},
    "sonic": {**MARKED, **WATCHED, "schedule": SHARED, "cnp_class": 7},
}
"""System to all that its queues can have."""
SPREADING: Final = frozenset({"cumulus"})
"""Systems with adaptive routing."""
ROUTED: Final = frozenset({"cumulus", "eos", "sonic"})


@dataclass(frozen=True)
class Pieces:
    """What an intent is made of; what a system has not is left out."""

    split: bool = True
    routed: Literal["", "unnumbered", "numbered"] = "numbered"
    bfd: bool = True
    queues: bool = True
    mode: Literal["lossless", "lossy_ecn"] = "lossless"
    spreading: bool = True
    links: Literal["", "set", "negotiated"] = "set"


PIECES: Final = st.builds(Pieces, **dict.fromkeys(Pieces.__annotations__, ...))
LINKED: Final = frozenset({"cumulus", "eos", "sonic"})
"""Systems that set what a link runs at."""


def whole_of(system: str, pieces: Pieces = Pieces()) -> ClusterSpec:
    """Two leaves with all pieces, and a spine above them where they are routed."""
    rdma: dict[str, Any] = {"mode": pieces.mode}
    if pieces.queues:
        lossy = pieces.mode == "lossy_ecn"
        asked = EVERYTHING[system].items()
        rdma |= {key: value for key, value in asked if not (lossy and key.startswith("pfc_"))}
    routed = pieces.routed if system in ROUTED else ""
    if routed and pieces.spreading and pieces.split and system in SPREADING:
        rdma["adaptive_routing"] = True
    if routed:
        numbered = routed == "numbered"
        plain = routed_of(system, bfd=pieces.bfd, numbered=numbered, **rdma)
    else:
        plain = chain_of(system, 2, **rdma)
    site = plain.model_dump(mode="json")
    if pieces.split:
        _split(system, site)
    if pieces.links and system in LINKED:
        _link(system, site, split=pieces.split, negotiated=pieces.links == "negotiated")
    return ClusterSpec.model_validate(site)


def _split(system: str, site: dict[str, Any]) -> None:
    """Cards on the halves of port 1, links of a routed leaf on those of 29, of a spine 1 and 3."""
    leaf, moved = (1, 29) if len(site["switches"]) > 2 else (1,), dict[str, str]()
    for switch in site["switches"]:
        numbers = (1, 3) if switch["name"].startswith("spine") else leaf
        halves = [half for number in numbers for half in parts_of(system, number)]
        old, name = [*switch["ports"]], switch["name"]
        new = [*halves, *old[len(halves) :]]
        moved |= {f"{name}:{a}": f"{name}:{b}" for a, b in zip(old, new, strict=True)}
        switch["ports"] = dict(zip(new, switch["ports"].values(), strict=True))
        switch["model"] = SPLIT_MODELS[system]
    for port in (port for switch in site["switches"] for port in switch["ports"].values()):
        port["to"] = moved.get(port["to"], port["to"])
    plug_cards(site, 100)


def _link(system: str, site: dict[str, Any], *, split: bool, negotiated: bool) -> None:
    # The lab has headroom for one speed of SONiC, and a half of a port there keeps it; an edit of a
    # Cumulus site splits ports of another model, whose halves have 50 Gbit/s.
    speed = 50 if system == "cumulus" else None if system == "sonic" and split else 400
    links = {"speed_gbit_s": speed, "fec": "rs", "autoneg": negotiated}
    for switch in site["switches"]:
        switch["links"] = links
        switch["edge_ports"] = system in {"cumulus", "eos"}
    plug_cards(site, speed or 100)


def split_by_hand(room: Room) -> None:
    """What people do first, where no update splits a port."""
    switch = room.switch
    for whole, parts in (room.plan.desired.splits or {}).items():
        if isinstance(switch, OnyxSwitch):
            switch.run_line(f"interface ethernet {whole} shutdown")
            switch.run_line(f"interface ethernet {whole} module-type qsfp-split-2 force")
        elif isinstance(switch, SonicSwitch):
            split_sonic(switch, *parts)


def split_sonic(switch: SonicSwitch, first: str, second: str) -> None:
    """As after a boot with another port_config.ini: two ports of four lanes each."""
    ports = switch.stored.running["PORT"]
    half = ports[first]  # its speed stays: the lab has headroom for one speed
    lanes = half["lanes"].split(",")
    ports[first] = {**half, "lanes": ",".join(lanes[: len(lanes) // 2])}
    ports[second] = {**half, "lanes": ",".join(lanes[len(lanes) // 2 :]), "alias": f"half-{second}"}


def whole_rooms(spec: ClusterSpec, folder: Path) -> list[Room]:
    """An emulator for every switch, split as its file says where people do it."""
    rooms = rooms_of(spec, folder, split_by_hand)
    for room in rooms:
        room.save()
    return rooms


def whole_lab(system: str) -> SwitchLab:
    """A lab that is asked for all at once; that of the system where it carries InfiniBand."""
    plain = LABS[system]
    if system not in EVERYTHING:
        return plain
    spec = whole_of(system)

    def make(folder: Path, clock: Clock) -> Emulator:
        (config, *_) = lab_file(spec, "fabric", (folder, folder, folder)).switches
        config = replace(
            config,
            address=plain.address,
            port=0,
            user=plain.user,
            password=plain.password,
            host_key_seed=f"test/{config.name}",
        )
        timed = {"cumulus": CumulusSwitch, "eos": EosSwitch}.get(system)
        state = folder / f"{config.name}.json"
        switch: Any = timed(config, state, clock) if timed else make_switch(config, state)
        room = Room(plan_fabric(spec)[0], switch)
        split_by_hand(room)
        room.prepare()
        room.save()
        return switch

    def load(**_rdma: object) -> ClusterSpec:
        return spec

    return replace(plain, make_switch=make, load_spec=load)
