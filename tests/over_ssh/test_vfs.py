"""VFs, what they carry and a card's QoS over real SSH: persistence, refusals, exact undo."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from components.hosts.host_plan import HostPlan
from components.model.cards import HostQos, ReceiveBuffers, Sriov
from components.model.cluster import ClusterSpec
from tests.golden.site import changed_spec
from tests.over_ssh.host_lab import HostLab, running_hosts

pytestmark = pytest.mark.lab
PCI = "0000:05:00.0"
CARD = f"nic.{PCI}"
DEVICE = f"/sys/bus/pci/devices/{PCI}"
VFS = 3


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostLab]:
    root = tmp_path_factory.mktemp("vfs") / "lab"
    with running_hosts("vfs-over-ssh", root, only=("gpu01",)) as running:
        yield running
        unmodelled = running.ask(op="unmodelled")["unmodelled"]
    assert unmodelled == {"gpu01": []}


@pytest.fixture
def bare(lab: HostLab) -> Iterator[HostLab]:
    """The lab with a host that Railyard never touched, or has left."""
    yield lab
    lab.fault("gpu01", "lldpad", "off")
    lab.fault("gpu01", "mmio-short", "enp5s0", "127")
    answer = lab.undo(lab.plan("gpu01"))
    assert answer.exit_status == 0, answer.stderr
    lab.sh(lab.plan("gpu01"), f"devlink dev eswitch set pci/{PCI} mode legacy")


def one_card(lab: HostLab, sriov: Sriov, qos: HostQos | None = None, **card: object) -> HostPlan:
    """A plan for one card of the host, which owns what its VFs carry: pods share its cards."""
    return lab.plan("gpu01", one_card_spec(lab.spec, sriov, qos, card))


def one_card_spec(
    spec: ClusterSpec, sriov: Sriov, qos: HostQos | None, card: dict[str, object]
) -> ClusterSpec:
    host = next(host for host in spec.hosts if host.name == "gpu01")
    nic = host.nics[0].model_copy(update={"vfs": VFS, "sriov": sriov, **card})
    hosts = (spec.hosts[0], host.model_copy(update={"nics": (nic,)}))
    defaults = spec.host_defaults.model_copy(update={"qos": qos or HostQos(), "peermem": False})
    shared = spec.pod_network.model_copy(update={"mode": "rdma_shared"})
    return changed_spec(spec, hosts=hosts, host_defaults=defaults, pod_network=shared)


BY_HAND = f"""
echo 2 >{DEVICE}/sriov_numvfs
ip link set dev enp5s0 mtu 4200
for mtu in {DEVICE}/virtfn*/net/*/mtu; do echo 4200 >$mtu; done
ip link set dev enp5s0 vf 1 vlan 7 qos 3 trust on min_tx_rate 900 max_tx_rate 1000
mlnx_qos -i enp5s0 --pfc 1,0,0,0,0,0,0,0 --cable_len 40 >/dev/null
mlnx_qos -i enp5s0 -d fw >/dev/null
"""
EVERYTHING = Sriov(
    min_rate_mbit_s=2000, max_rate_mbit_s=4000, vlan=111, trust=False, spoofchk=True, autoprobe=True
)
BUFFERS = HostQos(
    cable_length_m=5,
    buffers=ReceiveBuffers(
        size_bytes=(100000, 0, 0, 150000, 0, 0, 0, 0), priorities=(0, 0, 0, 3, 0, 0, 0, 0)
    ),
)


def test_what_vfs_carry_outlives_a_reboot_and_undo_leaves_no_trace(bare: HostLab) -> None:
    plan = one_card(bare, EVERYTHING, BUFFERS, address="10.10.111.11")
    bare.sh(plan, BY_HAND)
    before = bare.snapshot("gpu01")
    assert (applied := bare.apply(plan)).exit_status == 0, applied.stderr
    assert bare.drift(plan) == ()
    assert json.loads(bare.apply(plan).stdout)["changed"] == []
    bare.ask(op="reboot", device="gpu01")
    assert bare.drift(plan) == ()
    rows = bare.sh(plan, "ip link show dev enp5s0")
    for part in ("vlan 111,", "max_tx_rate 4000Mbps, min_tx_rate 2000Mbps", "spoof checking on"):
        assert rows.count(part) == VFS
    assert (undone := bare.undo(plan)).exit_status == 0, undone.stderr
    assert json.loads(undone.stdout)["left"] == []
    assert bare.snapshot("gpu01") == before
    bare.sh(plan, f"echo 0 >{DEVICE}/sriov_numvfs; ip link set dev enp5s0 mtu 1500")


def test_an_attribute_that_the_plan_drops_is_a_new_vfs_again(bare: HostLab) -> None:
    plan = one_card(bare, Sriov(vlan=111, trust=True))
    assert (applied := bare.apply(plan)).exit_status == 0, applied.stderr
    fewer = one_card(bare, Sriov(trust=True))
    assert (again := bare.apply(fewer)).exit_status == 0, again.stderr
    assert f"vf.{PCI}.0.vlan" in json.loads(again.stdout)["changed"]
    rows = bare.sh(plan, "ip link show dev enp5s0")
    assert ("vlan" not in rows, rows.count("trust on")) == (True, VFS)


def test_switchdev_is_refused_until_the_file_asks_for_a_mode(bare: HostLab) -> None:
    bare.sh(bare.plan("gpu01"), f"devlink dev eswitch set pci/{PCI} mode switchdev")
    refused = bare.apply(one_card(bare, Sriov()))
    assert refused.exit_status != 0
    assert f"the embedded switch of {PCI} is in switchdev mode, and the file expects" in (
        refused.stderr
    )
    asked = one_card(bare, Sriov(eswitch="legacy"))
    assert (applied := bare.apply(asked)).exit_status == 0, applied.stderr
    assert bare.drift(asked) == ()
    assert (undone := bare.undo(asked)).exit_status == 0, undone.stderr
    shown = bare.sh(asked, f"devlink dev eswitch show pci/{PCI}")
    assert "mode switchdev" in shown


def test_switchdev_that_is_asked_for_is_set_and_taken_back(bare: HostLab) -> None:
    plan = one_card(bare, Sriov(eswitch="switchdev"))
    assert (applied := bare.apply(plan)).exit_status == 0, applied.stderr
    assert bare.drift(plan) == ()
    assert (undone := bare.undo(plan)).exit_status == 0, undone.stderr
    assert "mode legacy" in bare.sh(plan, f"devlink dev eswitch show pci/{PCI}")


def test_too_little_address_space_names_the_bios(bare: HostLab) -> None:
    bare.fault("gpu01", "mmio-short", "enp5s0", "2")
    answer = bare.apply(one_card(bare, Sriov()))
    assert answer.exit_status != 0
    assert f"no PCIe address space for {VFS} VFs of {PCI} (ENOMEM;" in answer.stderr
    assert "boot with pci=realloc" in answer.stderr


def test_lldpad_is_refused_before_it_overwrites_anything(bare: HostLab) -> None:
    bare.fault("gpu01", "lldpad", "on")
    answer = bare.apply(one_card(bare, Sriov()))
    assert answer.exit_status != 0
    assert "lldpad runs on this host, and would overwrite PFC and DCBX" in answer.stderr
    assert "systemctl disable --now lldpad.socket lldpad.service" in answer.stderr


def test_a_card_in_another_slot_is_told_by_its_serial(bare: HostLab) -> None:
    serial = bare.sh(
        bare.plan("gpu01"), f"lspci -vv -s {PCI} | sed -n 's/.*Serial number: *//p'"
    ).strip()
    good = one_card(bare, Sriov(), serial=serial)
    assert (applied := bare.apply(good)).exit_status == 0, applied.stderr
    assert bare.undo(good).exit_status == 0
    wrong = bare.apply(one_card(bare, Sriov(), serial="MT0000X00000"))
    assert f"has serial {serial}, want MT0000X00000, which is nowhere in this host" in wrong.stderr
    elsewhere = bare.apply(one_card(bare, Sriov(), pci="0000:84:00.0", serial=serial))
    assert f"the card with serial {serial} is now at {PCI}" in elsewhere.stderr
    empty = bare.apply(one_card(bare, Sriov(), pci="0000:85:00.0", serial=serial))
    assert f"no PCI device 0000:85:00.0 on this host; the card with serial {serial} is now at" in (
        empty.stderr
    )


def test_a_rate_that_a_hand_changed_is_seen_in_words_and_repaired(bare: HostLab) -> None:
    plan = one_card(bare, Sriov(max_rate_mbit_s=1000))
    assert bare.apply(plan).exit_status == 0
    bare.sh(plan, "ip link set dev enp5s0 vf 0 max_tx_rate 500")
    assert [str(each) for each in bare.drift(plan)] == [
        f"max_rate_mbit_s of VF 0 of {PCI} is 500, want 1000"
    ]
    assert bare.apply(plan).exit_status == 0
    assert bare.drift(plan) == ()


def test_the_class_of_raw_verbs_is_set_and_given_back(bare: HostLab) -> None:
    plan = one_card(bare, Sriov(), vfs=0)
    tclass = f"cat {DEVICE}/infiniband/mlx5_0/tc/1/traffic_class"
    lines = f"stack={bare.stack}\n{CARD}.traffic_class=106\n"
    assert (applied := bare.apply(plan, lines)).exit_status == 0, applied.stderr
    assert bare.sh(plan, tclass) == "Global tclass=106\n"
    assert bare.undo(plan).exit_status == 0
    assert bare.sh(plan, tclass) == ""


POD = "/var/lib/kubelet/pods/8d1f"
GUIDS = f"cat {DEVICE}/virtfn*/infiniband/*/node_guid"
MACS = "ip link show dev enp5s0 | sed -n 's,.*link/ether \\(02[^ ]*\\) .*,\\1,p'"


def node_guid(mac: str) -> str:
    """As mlx5's PF makes it of a VF's MAC: `node_guid_gen_from_mac` of eswitch.c."""
    digits = (mac[:8] + "fffe" + mac[8:]).replace(":", "")
    return ":".join(digits[i : i + 4] for i in range(0, 16, 4))


def test_a_vf_has_a_mac_and_with_it_a_node_guid_before_a_pod_takes_it(bare: HostLab) -> None:
    plan = one_card(bare, Sriov())
    by_hand = "0e:00:00:00:00:55"
    numvfs = f"{DEVICE}/sriov_numvfs"
    bare.sh(plan, f"echo {VFS} >{numvfs}\nip link set dev enp5s0 vf 1 mac {by_hand}")
    assert bare.sh(plan, GUIDS).split() == ["0000:0000:0000:0000"] * VFS
    assert (applied := bare.apply(plan)).exit_status == 0, applied.stderr
    macs = bare.sh(plan, MACS).split()
    assert len({*macs}) == VFS
    assert bare.sh(plan, GUIDS).split() == [node_guid(mac) for mac in macs]
    assert bare.sh(plan, f"cat {DEVICE}/virtfn*/net/*/address").split() == macs
    bare.ask(op="reboot", device="gpu01")
    assert bare.drift(plan) == ()
    assert bare.sh(plan, MACS).split() == macs
    assert (undone := bare.undo(plan)).exit_status == 0, undone.stderr
    assert json.loads(undone.stdout)["left"] == []
    rows = bare.sh(plan, "ip link show dev enp5s0")
    assert (rows.count(f"link/ether {by_hand}"), "link/ether 02:" in rows) == (1, False)
    bare.sh(plan, f"echo 0 >{numvfs}")


def test_a_mac_for_a_vf_in_a_pod_waits_for_the_drain(bare: HostLab) -> None:
    plan = one_card(bare, Sriov())
    bare.sh(plan, f"echo {VFS} >{DEVICE}/sriov_numvfs; mkdir -p {POD}")
    bare.fault("gpu01", "vf-in-pod", "enp5s0", "1", "on")
    assert f"{CARD}.vf_mac" in json.loads(bare.apply(plan).stdout)["waiting"]
    assert bare.sh(plan, MACS) == ""
    bare.sh(plan, "rm -r /var/lib/kubelet")
    refused = bare.apply(plan)
    assert f"VF 1 of {PCI} is in use by a pod, and its MAC" in refused.stderr
    bare.fault("gpu01", "vf-in-pod", "enp5s0", "1", "off")
    assert (drained := bare.apply(plan)).exit_status == 0, drained.stderr
    assert len(bare.sh(plan, MACS).split()) == VFS
    assert bare.undo(plan).exit_status == 0
    bare.sh(plan, f"echo 0 >{DEVICE}/sriov_numvfs")


def test_a_mac_that_a_hand_or_a_pod_gave(bare: HostLab) -> None:
    plan = one_card(bare, Sriov())
    assert bare.apply(plan).exit_status == 0
    bare.fault("gpu01", "vf-in-pod", "enp5s0", "1", "on")
    bare.sh(plan, "ip link set dev enp5s0 vf 1 mac 0e:00:00:00:00:07")  # as sriov-cni does for it
    assert bare.drift(plan) == ()
    bare.fault("gpu01", "vf-in-pod", "enp5s0", "1", "off")
    (drift,) = bare.drift(plan)
    assert "0e:00:00:00:00:07" in str(drift)
    again = json.loads(bare.apply(plan).stdout)["changed"]
    assert {f"{CARD}.{key}" for key in ("vf_mac", "vf_mtu_bytes", "vf_roce_tos")} <= {*again}
    assert bare.drift(plan) == ()
    assert bare.sh(plan, f"cat {DEVICE}/virtfn*/net/*/mtu").split() == ["9000"] * VFS


def test_vfs_mark_as_their_pf_does_while_pods_have_them(bare: HostLab) -> None:
    plan = one_card(bare, Sriov())
    assert bare.apply(plan).exit_status == 0
    tos = plan.desired.values[f"{CARD}.roce_tos"]
    folder = "/sys/kernel/config/rdma_cm/$(basename $device)"
    shown = (
        f"for device in {DEVICE}/virtfn*/infiniband/*; do mkdir {folder};"
        f" cat {folder}/ports/1/default_roce_tos; rmdir {folder}; done"
    )
    assert bare.sh(plan, shown).split() == [tos] * VFS
    bare.fault("gpu01", "vf-in-pod", "enp5s0", "1", "on")
    assert bare.drift(plan) == ()
    bare.fault("gpu01", "vf-in-pod", "enp5s0", "1", "off")
    lines = f"stack={bare.stack}\n{CARD}.vfs={VFS}\n{CARD}.vf_traffic_class=106\n"
    assert (applied := bare.apply(plan, lines)).exit_status == 0, applied.stderr
    classes = f"cat {DEVICE}/virtfn*/infiniband/*/tc/1/traffic_class"
    assert bare.sh(plan, classes) == "Global tclass=106\n" * VFS


def test_vfs_without_a_driver_are_for_machines(bare: HostLab) -> None:
    plan = one_card(bare, Sriov(autoprobe=False, vlan=111))
    assert (applied := bare.apply(plan)).exit_status == 0, applied.stderr
    assert bare.drift(plan) == ()
    assert bare.sh(plan, f"ls -d {DEVICE}/virtfn*/driver 2>/dev/null; echo end") == "end\n"


def test_vfs_in_pods_keep_their_number_and_their_mode(bare: HostLab) -> None:
    plan = one_card(bare, Sriov())
    assert bare.apply(plan).exit_status == 0
    bare.fault("gpu01", "vf-in-pod", "enp5s0", "1", "on")
    assert bare.drift(plan) == ()
    lines = f"stack={bare.stack}\n{CARD}.vfs={VFS + 1}\n"
    more = bare.apply(plan, lines)
    assert f"1 of the {VFS} VFs of {PCI} are in use by pods; drain this node" in more.stderr
    switchdev = bare.apply(plan, f"stack={bare.stack}\n{CARD}.eswitch=switchdev\n")
    assert f"1 of the {VFS} VFs of {PCI} are in use by pods; drain this node" in switchdev.stderr
    bare.fault("gpu01", "vf-in-pod", "enp5s0", "1", "off")


def test_vfs_that_get_no_driver_unasked_are_refused(bare: HostLab) -> None:
    plan = one_card(bare, Sriov())
    bare.sh(plan, f"echo 0 >{DEVICE}/sriov_drivers_autoprobe")
    refused = bare.apply(plan)
    assert f"the kernel binds no driver to VFs of {PCI}" in refused.stderr
    asked = one_card(bare, Sriov(autoprobe=True))
    assert (applied := bare.apply(asked)).exit_status == 0, applied.stderr
    assert bare.drift(asked) == ()
    bound = bare.sh(plan, f"ls -d {DEVICE}/virtfn*/driver {DEVICE}/virtfn*/net/*").split()
    assert len(bound) == 2 * VFS
    assert bare.undo(asked).exit_status == 0
    bare.sh(plan, f"echo 1 >{DEVICE}/sriov_drivers_autoprobe")


SWITCHDEV = f"""
devlink dev eswitch set pci/{PCI} mode switchdev
echo {VFS} >{DEVICE}/sriov_numvfs
"""


def test_what_vfs_carry_waits_for_the_mode_that_waits_for_the_drain(bare: HostLab) -> None:
    plan = one_card(bare, Sriov(vlan=111, eswitch="legacy"))
    bare.sh(plan, f"{SWITCHDEV}mkdir -p {POD}")
    first = bare.apply(plan)
    assert first.exit_status == 0, first.stderr
    waiting = set(json.loads(first.stdout)["waiting"])
    assert {f"{CARD}.eswitch", f"vf.{PCI}.0.vlan"} <= waiting
    bare.sh(plan, "rm -r /var/lib/kubelet")
    assert (drained := bare.apply(plan)).exit_status == 0, drained.stderr
    assert bare.drift(plan) == ()
    assert (undone := bare.undo(plan)).exit_status == 0, undone.stderr
    bare.sh(plan, f"echo 0 >{DEVICE}/sriov_numvfs")


def test_another_mode_and_what_the_vfs_carry_come_back_in_one_undo(bare: HostLab) -> None:
    plan = one_card(bare, Sriov(vlan=111, eswitch="legacy"))
    bare.sh(plan, f"echo {VFS} >{DEVICE}/sriov_numvfs\nip link set dev enp5s0 vf 1 vlan 7")
    bare.apply(plan)
    bare.sh(plan, SWITCHDEV.replace("devlink", f"echo 0 >{DEVICE}/sriov_numvfs\ndevlink", 1))
    assert (undone := bare.undo(plan)).exit_status == 0, undone.stderr
    assert bare.sh(plan, "ip link show dev enp5s0").count("vlan 7,") == 1
    bare.sh(plan, f"echo 0 >{DEVICE}/sriov_numvfs")


def test_what_a_hand_gave_last_is_put_back_when_vfs_are_made_anew(bare: HostLab) -> None:
    plan = one_card(bare, Sriov())
    bare.sh(plan, f"echo 2 >{DEVICE}/sriov_numvfs\nip link set dev enp5s0 vf 1 vlan 7")

    def vlan_after(*lines: str) -> str:
        answer = bare.apply(plan, "".join(f"{line}\n" for line in (f"stack={bare.stack}", *lines)))
        assert answer.exit_status == 0, answer.stderr
        return bare.sh(
            plan, "ip link show dev enp5s0 | sed -n 's/.*vf 1 .*vlan \\([0-9]*\\).*/\\1/p'"
        )

    def by_hand(vlan: int) -> None:
        bare.sh(plan, f"ip link set dev enp5s0 vf 1 vlan {vlan}")

    assert vlan_after(f"{CARD}.vfs=4") == "7\n"
    by_hand(8)
    assert vlan_after(f"{CARD}.vfs=6") == "8\n"
    assert vlan_after(f"{CARD}.mtu_bytes=1500") == "8\n"
    left = f"grep -c '^vf' /var/lib/railyard/{bare.stack}/vfs || true"
    assert bare.sh(plan, left).strip() in ("", "0")
    by_hand(9)
    assert vlan_after(f"{CARD}.vfs=4") == "9\n"
    assert bare.undo(plan).exit_status == 0
    assert "vlan 9," in bare.sh(plan, "ip link show dev enp5s0")
    bare.sh(plan, f"echo 0 >{DEVICE}/sriov_numvfs")
