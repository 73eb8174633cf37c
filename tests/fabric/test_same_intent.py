"""One file, three switch systems: after an apply the emulators have the same intent."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

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
from tests.fabric import cumulus_lab, eos_lab

SITES = {"onyx": cumulus_lab.SITE.with_name("site.yaml"), "cumulus": cumulus_lab.SITE}


def _spec(system: str, mode: str, vlan: int, ports: list[tuple[str, int]]) -> ClusterSpec:
    path = SITES.get(system, SITES["onyx"])
    data = YAML(typ="safe").load(path.read_text())  # pyright: ignore[reportUnknownMemberType] - ruamel has no types
    data["rdma"]["mode"] = mode
    data["rails"][0]["vlan"] = vlan
    for entry, (port_mode, mtu_bytes) in zip(
        data["switches"][0]["ports"].values(), ports, strict=True
    ):
        entry |= {"mode": port_mode, "mtu_bytes": mtu_bytes}
    return eos_lab.with_eos(data) if system == "eos" else ClusterSpec.model_validate(data)


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
def test_onyx_and_cumulus_render_the_same_intent(
    mode: str, vlan: int, ports: list[tuple[str, int]]
) -> None:
    onyx_plan, cumulus_plan = (
        plan_fabric(_spec(system, mode, vlan, ports))[0] for system in ("onyx", "cumulus")
    )
    with TemporaryDirectory() as folder:
        onyx = onyx_lab.make_switch(Path(folder) / "onyx")
        cumulus = cumulus_lab.make_switch(Path(folder) / "cumulus")
        one = _converged(onyx_lab.talk(onyx), onyx_plan.desired)
        other = _converged(cumulus_lab.talk(cumulus), cumulus_plan.desired)
        assert {vlan} <= {*one.vlans} & {*other.vlans}
        for number in range(1, 5):
            names = f"1/{number}", f"swp{number}"
            assert _shape(one.ports[names[0]]) == _shape(other.ports[names[1]])
            assert _fate(onyx.port_view(names[0])) == _fate(cumulus.port_view(names[1]))
        assert (onyx.unmodelled, cumulus.unmodelled) == ((), ())


EOS_PORT = st.tuples(st.sampled_from(["access", "trunk"]), st.sampled_from([1500, 9000, 9214]))


@settings(max_examples=15, deadline=None)
@given(
    mode=st.sampled_from(["lossy_ecn", "lossless"]),
    vlan=st.integers(2, 4000),
    ports=st.lists(EOS_PORT, min_size=4, max_size=4),
)
def test_onyx_and_eos_render_the_same_intent(
    mode: str, vlan: int, ports: list[tuple[str, int]]
) -> None:
    onyx_plan, eos_plan = (
        plan_fabric(_spec(system, mode, vlan, ports))[0] for system in ("onyx", "eos")
    )
    with TemporaryDirectory() as folder:
        onyx = onyx_lab.make_switch(Path(folder) / "onyx")
        eos = eos_lab.make_switch(Path(folder) / "eos")
        one = _converged(onyx_lab.talk(onyx), onyx_plan.desired)
        other = _converged(eos_lab.talk(eos), eos_plan.desired)
        assert {vlan} <= {*one.vlans} & {*other.vlans}
        for number in range(1, 5):
            names = f"1/{number}", f"Ethernet{number}/1"
            shapes = one.ports[names[0]], other.ports[names[1]]
            assert _marked(shapes[0]) == _marked(shapes[1])
            assert _shape(shapes[0]) == _shape(shapes[1])
            assert _fate(onyx.port_view(names[0])) == _fate(eos.port_view(names[1]))
        assert (onyx.unmodelled, eos.unmodelled) == ((), ())


def _marked(port: PortState) -> set[int]:
    return {tc for tc, ecn in port.ecn.items() if ecn is not None}
