"""Two senders into one port: marks while ECN works, pauses where it does not, else losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from components.acceptance.acceptance_plan import HopPlan
from components.acceptance.collect.counters import Snapshot, flatten_port, measure_hop
from components.acceptance.evidence import Hop, Probe, ProbeEvidence
from components.acceptance.judge.path import judge_losses
from lab.hosts.port_counts import count_port
from lab.physics.counters import Flow, deltas_of
from lab.physics.path import Between, Endpoint, RailPath, Site, follow
from lab.physics.request import NicDelta, PortDelta
from tests.fabric.fabric_lab import Room, chain_of, port_name, rooms_of
from tests.lab_physics.examples import Played, example

SPEC = example("spine-leaf")
FAST: frozenset[int] = frozenset({3})


def ends(site: Played, *names: str) -> list[Endpoint]:
    """The first card of some hosts."""
    cables = {
        (switch.name, name): (host, site.nics[host, rail].pci)
        for switch in SPEC.switches
        for name, port in switch.ports.items()
        if port.peer is None
        for host, rail in [port.to.split("/")]
    }
    links = {
        (switch.name, name): port.peer
        for switch in SPEC.switches
        for name, port in switch.ports.items()
        if port.peer is not None
    }
    between = Between(links, tuple(site.routers.values()))
    room = Site.of(site.nics.values(), site.ports.values(), cables, (), between)
    found: list[Endpoint] = []
    for name in names:
        (host,) = (each for each in SPEC.workers if each.name == name)
        end = room.ends_of(site.pod(host, ("sshd",)))[0]
        assert isinstance(end, Endpoint)
        found.append(end)
    return found


def played(site: Played, *senders: str) -> tuple[Sequence[NicDelta], Sequence[PortDelta]]:
    """A gigabyte from the first card of each sender to that of gpu08, at the same time."""
    *near, far = ends(site, *senders, "gpu08")
    return deltas_of(Flow(follow(one, far, 106), 10**9) for one in near)


def slowed(deltas: tuple[Sequence[NicDelta], Sequence[PortDelta]]) -> dict[str, set[str]]:
    """What moved beside bytes, and where."""
    nics, ports = deltas
    found: dict[str, set[str]] = {}
    for nic in nics:
        for what in ("rx_pauses", "out_of_sequence"):
            if getattr(nic, what):
                found.setdefault(what, set()).add(nic.host)
    for port in ports:
        for what in ("ecn_marked", "rx_pauses", "tx_pauses", "tx_drops"):
            if getattr(port, what):
                found.setdefault(what, set()).add(f"{port.switch} {port.port}")
    return found


def place_of(host: str) -> str:
    (found,) = (
        f"{switch.name} {name}"
        for switch in SPEC.switches
        for name, port in switch.ports.items()
        if port.to == f"{host}/rail-0"
    )
    return found


def test_one_sender_fills_no_queue() -> None:
    assert slowed(played(Played(SPEC), "gpu01")) == {}


def test_ecn_marks_at_the_receivers_port() -> None:
    site = Played(SPEC)
    site.break_nics(pfc_priorities=FAST)
    site.break_ports(pfc_priorities=FAST)
    assert slowed(played(site, "gpu01", "gpu02")) == {"ecn_marked": {place_of("gpu08")}}


def off_at_the_switch(site: Played) -> None:
    site.break_ports(ecn_kib={})


def off_at_the_cards(site: Played) -> None:
    site.break_nics(ecn_priorities=frozenset())


@pytest.mark.parametrize("off", [off_at_the_switch, off_at_the_cards])
def test_without_ecn_the_senders_are_paused_or_packets_are_lost(off: object) -> None:
    assert callable(off)
    site = Played(SPEC)
    off(site)
    lost = {"tx_drops": {place_of("gpu08")}, "out_of_sequence": {"gpu08"}}
    assert slowed(played(site, "gpu01", "gpu02")) == lost
    site.break_ports(pfc_priorities=FAST)
    assert slowed(played(site, "gpu01", "gpu02")) == lost, "cards that obey no pause"
    site.break_nics(pfc_priorities=FAST)
    assert slowed(played(site, "gpu01", "gpu02")) == {
        "tx_pauses": {place_of("gpu01"), place_of("gpu02")},
        "rx_pauses": {"gpu01", "gpu02"},
    }


def test_from_another_leaf_the_spine_is_paused() -> None:
    site = Played(SPEC)
    off_at_the_switch(site)
    site.break_ports(pfc_priorities=FAST)
    site.break_nics(pfc_priorities=FAST)
    found = slowed(played(site, "gpu01", "gpu09"))
    paused = {each.partition(" ")[0] for each in found["rx_pauses"]} - {"gpu01"}
    assert len(paused) == 1
    assert paused < {"spine-01", "spine-02"}
    assert {each.partition(" ")[0] for each in found["tx_pauses"]} == {"leaf-01"}


def test_a_port_that_is_as_fast_as_all_senders_fills_no_queue() -> None:
    site = Played(SPEC)
    name, _, port = place_of("gpu08").partition(" ")
    site.ports[name, port] = replace(site.ports[name, port], speed_gbit_s=1600)
    card = site.nics["gpu08", "rail-0"]
    site.nics["gpu08", "rail-0"] = replace(card, speed_gbit_s=1600)
    assert slowed(played(site, "gpu01", "gpu02")) == {}


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Room]:
    systems = ("onyx", "cumulus", "eos", "sonic")
    folders = {system: tmp_path_factory.mktemp(system) for system in systems}
    return {system: rooms_of(chain_of(system, 1), folder)[0] for system, folder in folders.items()}


def counted(room: Room, port: str) -> dict[str, int]:
    return flatten_port(room.talk().read_counters([port])[port])


def seen(room: Room, delta: PortDelta, *, sends: bool = True) -> Hop:
    """What acceptance has of a probe that moved this."""
    first = counted(room, delta.port)
    count_port(room.switch, delta)
    last = counted(room, delta.port)
    place = ("leaf-01", delta.port)
    role = "switch_egress" if sends else "switch_ingress"
    plan = HopPlan("rail-0", "gpu01 -> gpu02", role, *place)
    return measure_hop(plan, Snapshot({place: first}), Snapshot({place: last}))


@pytest.mark.parametrize("system", ["onyx", "cumulus", "eos", "sonic"])
def test_each_system_shows_in_its_form_what_the_physics_moved(
    system: str, rooms: dict[str, Room]
) -> None:
    room, port = rooms[system], port_name(system, 1)
    sent = {3: 10**9}
    marked = seen(room, PortDelta("leaf-01", port, ecn_marked={3: 70}, tx_bytes=sent))
    # EOS counts where a line says so, which is not ours; SONiC's command line shows none.
    assert marked.ecn_marked == {"onyx": 70, "cumulus": 70}.get(system)
    paused = seen(room, PortDelta("leaf-01", port, tx_pauses={3: 9}, tx_bytes=sent))
    assert paused.pauses_sent == {3: 9}
    lost = seen(room, PortDelta("leaf-01", port, tx_drops={3: 5}, tx_bytes=sent))
    assert lost.discards == {"eos": 5, "sonic": 5}.get(system, 0)
    probe = Probe(name="p", kind="perftest", rails=("rail-0",), nodes=("gpu01", "gpu02"))
    item = ProbeEvidence(probe=probe, outcome="completed", hops=(paused, lost))
    found = {each.check: each.actual for each in judge_losses(item, 3)}
    assert found.pop("pause_frames") == f"9 at leaf-01 {port} (rail-0, gpu01 -> gpu02)"
    by_class = {"discards": f"5 at leaf-01 {port} (rail-0, gpu01 -> gpu02)"}
    assert found == (by_class if system in {"eos", "sonic"} else {})


def test_a_path_is_of_the_class_of_its_packets() -> None:
    (one, far) = ends(Played(SPEC), "gpu01", "gpu08")
    path = follow(one, far, 106)
    assert isinstance(path, RailPath)
    assert (path.egress_tc, path.sender_priority) == (3, 3)
