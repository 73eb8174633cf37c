"""One file, several switch systems: after an apply all emulators have the same intent."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from components.fabric.exchange import Exchange
from components.fabric.plan import plan_fabric
from components.fabric.state import PortState, SwitchState
from components.fabric.targets import target_of_apply
from components.model.cluster import ClusterSpec
from lab.views import PortView
from tests.fabric import conftest as onyx_lab
from tests.fabric import cumulus_lab, sonic_lab

SITES = {"onyx": cumulus_lab.SITE.with_name("site.yaml"), "cumulus": cumulus_lab.SITE}
PORTS = {
    "onyx": tuple(f"1/{number}" for number in range(1, 5)),
    "cumulus": tuple(f"swp{number}" for number in range(1, 5)),
    "sonic": sonic_lab.PORTS,
}


def _document(system: str) -> dict[str, Any]:
    if system == "sonic":
        return sonic_lab.load_document()
    return YAML(typ="safe").load(SITES[system].read_text())  # pyright: ignore[reportUnknownMemberType] - ruamel has no types


def _spec(system: str, mode: str, vlan: int, ports: list[tuple[str, int]]) -> ClusterSpec:
    data = _document(system)
    data["rdma"]["mode"] = mode
    data["rails"][0]["vlan"] = vlan
    for entry, (port_mode, mtu_bytes) in zip(
        data["switches"][0]["ports"].values(), ports, strict=True
    ):
        entry |= {"mode": port_mode, "mtu_bytes": mtu_bytes}
    return ClusterSpec.model_validate(data)


def _converged(exchange: Exchange, desired: SwitchState) -> SwitchState:
    exchange.converge(desired, lambda r: target_of_apply(r.state, desired))
    return exchange.read(desired).state


def _shape(port: PortState) -> tuple[object, ...]:
    own = port.access_vlan if port.mode == "access" else port.trunk_vlans
    return (port.admin_up, port.mtu_bytes, port.mode, own, 3 in port.ecn, 6 in port.strict_classes)  # pyright: ignore[reportOperatorIssue] - asked for, so read


def _fate(view: PortView) -> tuple[object, ...]:
    """What a RoCE packet and a notification of it meet on a port."""
    low, high = view.ecn_kib[3]
    return (
        view.admin_up,
        view.oper_up,
        view.mtu_bytes,
        view.access_vlan if view.mode == "access" else view.allowed_vlans,
        view.trust in {"L3", "both"},
        [(view.dscp_to_priority[dscp], view.priority_to_tc[dscp // 8]) for dscp in (26, 48)],
        (round(low, -1), round(high, -2)),
        view.pfc_priorities,
    )


PORT = st.tuples(st.sampled_from(["access", "trunk"]), st.sampled_from([1500, 9000, 9216]))


@settings(max_examples=20, deadline=None)
@given(
    mode=st.sampled_from(["lossy_ecn", "lossless"]),
    vlan=st.integers(2, 4000),
    ports=st.lists(PORT, min_size=4, max_size=4),
)
def test_every_system_renders_the_same_intent(
    mode: str, vlan: int, ports: list[tuple[str, int]]
) -> None:
    plans = {system: plan_fabric(_spec(system, mode, vlan, ports))[0].desired for system in PORTS}
    with TemporaryDirectory() as folder:
        onyx = onyx_lab.make_switch(Path(folder) / "onyx")
        cumulus = cumulus_lab.make_switch(Path(folder) / "cumulus")
        sonic = sonic_lab.make_switch(Path(folder) / "sonic")
        states = {
            "onyx": _converged(onyx_lab.talk(onyx), plans["onyx"]),
            "cumulus": _converged(cumulus_lab.talk(cumulus), plans["cumulus"]),
            "sonic": _converged(sonic_lab.talk(sonic), plans["sonic"]),
        }
        switches = {"onyx": onyx, "cumulus": cumulus, "sonic": sonic}
        for number in range(4):
            names = {system: found[number] for system, found in PORTS.items()}
            first = names["onyx"]
            for system in ("cumulus", "sonic"):
                name = names[system]
                assert _shape(states[system].ports[name]) == _shape(states["onyx"].ports[first])
                assert _fate(switches[system].port_view(name)) == _fate(onyx.port_view(first))
        for system, switch in switches.items():
            assert vlan in states[system].vlans
            assert switch.unmodelled == (), system
