"""What the plan says of VFs and of a card's QoS: relations that must hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.hosts.host_plan import plan_hosts
from components.hosts.scripts import boot_unit_text
from components.model.cards import HcaPf, HostQos, ReceiveBuffers, Sriov
from components.model.cluster import ClusterSpec
from components.model.places import vf_guids
from lab.hosts.units import load_unit, order_units
from tests.golden.site import changed_spec, load_example

CARD = "nic.0000:05:00.0."


@pytest.fixture
def spec() -> ClusterSpec:
    return load_example("dgx-roce")


def with_card(spec: ClusterSpec, **card: object) -> dict[str, str]:
    host = spec.hosts[1]
    nics = (host.nics[0].model_copy(update=card), *host.nics[1:])
    hosts = (spec.hosts[0], host.model_copy(update={"nics": nics}))
    return dict(plan_hosts(changed_spec(spec, hosts=hosts))[1].desired.values)


def test_nothing_of_a_vf_is_ours_unless_it_is_written(spec: ClusterSpec) -> None:
    state = with_card(spec)
    assert not [key for key in state if key.startswith("vf.")]
    assert state[f"{CARD}eswitch_now"] == "legacy"
    assert f"{CARD}eswitch" not in state


def test_each_vf_gets_what_is_written_and_both_rates_or_none(spec: ClusterSpec) -> None:
    state = with_card(spec, vfs=2, sriov=Sriov(max_rate_mbit_s=5000, trust=False, vlan=111))
    assert {key: value for key, value in state.items() if key.startswith("vf.")} == {
        f"vf.0000:05:00.0.{number}.{key}": value
        for number in range(2)
        for key, value in (
            ("max_rate_mbit_s", "5000"),
            ("min_rate_mbit_s", "0"),
            ("trust", "off"),
            ("vlan", "111"),
        )
    }


def test_a_mode_that_is_asked_for_is_set_and_not_only_looked_at(spec: ClusterSpec) -> None:
    state = with_card(spec, sriov=Sriov(eswitch="switchdev", autoprobe=False))
    assert (state[f"{CARD}eswitch"], state[f"{CARD}autoprobe"]) == ("switchdev", "off")
    assert f"{CARD}eswitch_now" not in state
    assert f"{CARD}vf_mtu_bytes" not in state  # without a driver there is no network device


def test_derived_guids_are_local_unique_and_follow_the_names_alone(spec: ClusterSpec) -> None:
    pfs = (HcaPf(pci="0000:18:00.0", vfs=127), HcaPf(pci="0000:19:00.0", vfs=127))
    hosts = spec.hosts[1:]
    guids = [guid for host in hosts for pf in pfs for guid in vf_guids("a", host, pf)]
    assert len(set(guids)) == len(guids) == 2 * 2 * 127
    assert all(guid.startswith("02") and len(guid) == 16 for guid in guids)
    again = [guid for host in hosts for pf in pfs for guid in vf_guids("a", host, pf)]
    assert guids == again
    assert set(guids).isdisjoint(vf_guids("b", hosts[0], pfs[0]))


def test_vfs_get_macs_made_of_that_of_their_card(spec: ClusterSpec) -> None:
    """The same word on every host: hosts stay alike in a preview, and a rename changes nothing."""
    assert with_card(spec)[f"{CARD}vf_mac"] == "own"
    assert f"{CARD}vf_mac" not in with_card(spec, vfs=0)


def test_vfs_are_marked_unless_their_devices_move_into_pods(spec: ClusterSpec) -> None:
    state = with_card(spec)
    assert state[f"{CARD}vf_roce_tos"] == state[f"{CARD}roce_tos"]
    kernel = spec.host_defaults.kernel.model_copy(update={"rdma_netns": "exclusive"})
    defaults = spec.host_defaults.model_copy(update={"kernel": kernel})
    moved = with_card(changed_spec(spec, host_defaults=defaults))
    assert [key for key in moved if "vf_roce" in key or "vf_traffic" in key] == []
    assert moved[f"{CARD}vf_mac"] == state[f"{CARD}vf_mac"]


def test_ib_ports_get_vfs_and_guids_but_no_ethernet_setting(spec: ClusterSpec) -> None:
    given = HcaPf(pci="0000:18:00.0", vfs=1, serial="MT1", guids=("0200000000000007",))
    host = spec.hosts[1].model_copy(update={"nics": (), "hcas": 1, "hca_sriov": (given,)})
    state = plan_hosts(changed_spec(spec, hosts=(spec.hosts[0], host)))[1].desired.values
    of_cards = {key: value for key, value in state.items() if key.startswith(("nic.", "vf."))}
    assert of_cards == {
        "nic.0000:18:00.0.serial": "MT1",
        "nic.0000:18:00.0.vfs": "1",
        "vf.0000:18:00.0.0.guid": "0200000000000007",
        "vf.0000:18:00.0.0.link_state": "auto",
    }
    assert state["unit.railyard-nics.enabled"] == "enabled"


@pytest.mark.parametrize(("kind", "owned"), [("inbox", False), ("doca_ofed", True)])
def test_the_class_of_raw_verbs_is_the_drivers_where_it_can_be(
    spec: ClusterSpec,
    kind: str,
    owned: bool,  # noqa: FBT001 - a case
) -> None:
    driver = spec.host_defaults.driver.model_copy(update={"kind": kind})
    defaults = spec.host_defaults.model_copy(update={"driver": driver})
    state = plan_hosts(changed_spec(spec, host_defaults=defaults))[1].desired.values
    assert state.get(f"{CARD}traffic_class") == (state[f"{CARD}roce_tos"] if owned else None)
    assert state.get(f"{CARD}vf_traffic_class") == state.get(f"{CARD}traffic_class")


def test_a_gid_is_asked_for_where_the_card_has_an_address(spec: ClusterSpec) -> None:
    assert with_card(spec, address="10.10.111.11")[f"{CARD}gid"] == "RoCE v2"
    assert f"{CARD}gid" not in with_card(spec)


def test_buffers_go_as_one_setting_and_only_when_written(spec: ClusterSpec) -> None:
    assert not {f"{CARD}buffers", f"{CARD}cable_length_m"} & set(with_card(spec))
    buffers = ReceiveBuffers(
        size_bytes=(9, 0, 0, 7, 0, 0, 0, 0), priorities=(0, 0, 0, 3, 0, 0, 0, 0)
    )
    defaults = spec.host_defaults.model_copy(
        update={"qos": HostQos(cable_length_m=5, buffers=buffers)}
    )
    state = with_card(changed_spec(spec, host_defaults=defaults))
    assert state[f"{CARD}buffers"] == "9,0,0,7,0,0,0,0/0,0,0,3,0,0,0,0"
    assert state[f"{CARD}cable_length_m"] == "5"


@pytest.mark.parametrize("later", ["k3s", "k3s-agent", "kubelet", "containerd", "docker"])
def test_the_cards_are_ready_before_anything_that_starts_pods(tmp_path: Path, later: str) -> None:
    folder = tmp_path / "etc/systemd/system"
    folder.mkdir(parents=True)
    (folder / "railyard-nics.service").write_text(boot_unit_text())
    # Their names sort before and after ours, so that only the order in the unit counts.
    for name in (
        later,
        "openibd",
        "systemd-modules-load",
        "systemd-udev-settle",
        "systemd-networkd",
    ):
        (folder / f"{name}.service").write_text("[Service]\nExecStart=/bin/true\n")
    names = [path.name for path in folder.iterdir()]
    units = [unit for name in names if (unit := load_unit(tmp_path, name)) is not None]
    order = [unit.name.removesuffix(".service") for unit in order_units(units)]
    assert order[-1] == later
    assert order[-2] == "railyard-nics"
