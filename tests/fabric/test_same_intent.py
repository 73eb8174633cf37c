"""One file, every RoCE switch system: after an apply the emulators have the same intent."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from components.catalogue.switches.systems import SWITCH_SYSTEMS
from components.fabric.exchange import Exchange
from components.fabric.fabric_plan import plan_fabric
from components.fabric.state import PortState, SwitchState, list_vlans
from components.model.cluster import ClusterSpec
from lab.views import PortView
from tests.fabric.cumulus_lab import SITE
from tests.fabric.eos_lab import Clock
from tests.fabric.fabric_lab import port_name
from tests.fabric.in_process import apply, load_site
from tests.fabric.switch_labs import LABS

SYSTEMS = ("onyx", "cumulus", "eos", "sonic")
BESIDE = {"cumulus": {0}, "sonic": {4}}
"""Classes that a profile, or the platform's template, marks beside that of RoCE."""
PORTS = {system: [port_name(system, number) for number in range(1, 5)] for system in SYSTEMS}


def _spec(system: str, mode: str, vlan: int, ports: list[tuple[str, int]]) -> ClusterSpec:
    others = SITE.with_name("site.yaml")
    data = load_site(SITE if system in {"cumulus", "sonic"} else others, mode=mode)
    data["rails"][0]["vlan"] = vlan
    for entry, (port_mode, mtu_bytes) in zip(
        data["switches"][0]["ports"].values(), ports, strict=True
    ):
        untagged = UNTAGGED if port_mode == "hybrid" else None
        mode = "trunk" if untagged else port_mode
        entry |= {"mode": mode, "untagged": untagged, "mtu_bytes": mtu_bytes}
    return LABS[system].adapt(data)


def _converged(exchange: Exchange, desired: SwitchState) -> SwitchState:
    apply(exchange, desired)
    return exchange.read(desired).state


def _shape(port: PortState) -> tuple[object, ...]:
    mode = "hybrid" if port.native_vlan not in {None, 1} else port.mode
    tagged = [vlan for vlan in list_vlans(port.trunk_vlans or ()) if vlan != port.native_vlan]
    own = port.access_vlan if port.mode == "access" else tagged
    return (port.admin_up, port.mtu_bytes, mode, own, 3 in port.ecn, 6 in port.strict_classes)  # pyright: ignore[reportOperatorIssue] - asked for, so read


def _fate(view: PortView) -> tuple[object, ...]:
    """What a RoCE packet and a notification of it meet on a port."""
    low, high = view.ecn_kib[3]
    return (
        view.admin_up,
        view.oper_up,
        view.mtu_bytes,
        view.access_vlan if view.mode == "access" else view.allowed_vlans,
        view.mode == "hybrid" and view.access_vlan == UNTAGGED,
        view.trust in {"L3", "both"},
        [(view.dscp_to_priority[dscp], view.priority_to_tc[dscp // 8]) for dscp in (26, 48)],
        (round(low, -1), round(high, -2)),
        view.pfc_priorities,
    )


def _marked(port: PortState) -> set[int]:
    return {tc for tc, ecn in port.ecn.items() if ecn is not None}


UNTAGGED = 4001
PORT = st.tuples(
    st.sampled_from(["access", "trunk", "hybrid"]), st.sampled_from([1500, 9000, 9214])
)
"""9214 is the most that all of them have."""


def test_no_system_is_left_out() -> None:
    assert {*PORTS} == {name for name, entry in SWITCH_SYSTEMS.items() if entry.carries == "roce"}


@settings(max_examples=8, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(
    mode=st.sampled_from(["lossy_ecn", "lossless"]),
    # Cumulus keeps 3725 to 3999 for itself.
    vlan=st.integers(2, 3724),
    ports=st.lists(PORT, min_size=4, max_size=4),
)
def test_every_system_renders_the_same_intent(
    mode: str, vlan: int, ports: list[tuple[str, int]]
) -> None:
    with TemporaryDirectory() as folder:
        switches = {name: LABS[name].make_switch(Path(folder) / name, Clock()) for name in SYSTEMS}
        states: dict[str, SwitchState] = {}
        for system in SYSTEMS:
            desired = plan_fabric(_spec(system, mode, vlan, ports))[0].desired
            states[system] = _converged(LABS[system].talk(switches[system]), desired)
        for number in range(4):
            first = PORTS["onyx"][number]
            for system in SYSTEMS:
                name = PORTS[system][number]
                one, other = states["onyx"].ports[first], states[system].ports[name]
                assert _shape(one) == _shape(other), system
                assert _marked(one) | BESIDE.get(system, set()) == _marked(other), system
                views = (
                    switches[each].port_view(at) for each, at in (("onyx", first), (system, name))
                )
                assert len({*map(repr, map(_fate, views))}) == 1, system
        for system, switch in switches.items():
            assert vlan in states[system].vlans
            assert switch.unmodelled == (), system
