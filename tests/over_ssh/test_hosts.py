"""The hosts' scripts against emulated hosts over real SSH: the law of idempotence, and undo."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from components.hosts.host_plan import HostPlan
from tests.over_ssh.host_lab import HostLab, running_hosts

pytestmark = pytest.mark.lab
CARD = "nic.0000:05:00.0"
MEMLOCK = "/etc/systemd/system/k3s-agent.service.d/10-railyard-memlock.conf"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostLab]:
    with running_hosts("hosts-over-ssh", tmp_path_factory.mktemp("hosts") / "lab") as running:
        yield running
        unmodelled = running.ask(op="unmodelled")["unmodelled"]
    assert unmodelled == {"mgmt01": [], "gpu01": [], "gpu02": []}


@pytest.fixture
def gpu01(lab: HostLab) -> HostPlan:
    """A worker that is as planned; other tests may have left it drifted."""
    plan = lab.plan("gpu01")
    answer = lab.apply(plan)
    assert answer.exit_status == 0, answer.stderr
    return plan


MACHINE_ID_DIGITS = 32


def evidence(text: str) -> dict[str, object]:
    return json.loads(text)


@pytest.mark.parametrize("name", ["mgmt01", "gpu02"])
def test_converge_then_undo_leaves_every_byte_as_it_was(lab: HostLab, name: str) -> None:
    plan = lab.plan(name)
    before = lab.snapshot(name)
    first = lab.apply(plan)
    assert first.exit_status == 0, first.stderr
    assert evidence(first.stdout)["changed"] != []
    assert lab.drift(plan) == ()
    second = evidence(lab.apply(plan).stdout)
    told = str(second.pop("notes"))  # of the line that Debian's installer writes
    assert f"{name} is 127.0.1.1 (line 2): take these names" in told
    assert len(str(second.pop("machine_id"))) == MACHINE_ID_DIGITS
    assert second == {
        "changed": [],
        "unchanged": len(plan.desired.values),
        "reboot_required": False,
    }
    undone = lab.undo(plan)
    assert undone.exit_status == 0, undone.stderr
    assert evidence(undone.stdout)["left"] == []
    assert lab.snapshot(name) == before


def test_undo_twice_changes_nothing_more(lab: HostLab) -> None:
    answer = lab.undo(lab.plan("mgmt01"))
    assert answer.exit_status == 0
    assert evidence(answer.stdout)["changed"] == []


def test_settings_of_the_cards_outlive_a_reboot(lab: HostLab, gpu01: HostPlan) -> None:
    lab.ask(op="reboot", device="gpu01")
    assert lab.drift(gpu01) == ()
    assert lab.sh(gpu01, "cat /sys/class/net/enp5s0/carrier") == "1\n"
    assert evidence(lab.apply(gpu01).stdout)["changed"] == []


@pytest.mark.parametrize(
    ("by_hand", "words"),
    [
        ("echo 0 >/sys/class/net/enp5s0/device/sriov_numvfs", "vfs of nic 0000:05:00.0 is 0"),
        ("echo 1500 >/sys/class/net/enp5s0/mtu", "mtu_bytes of nic 0000:05:00.0 is 1500"),
        ("ip link set dev enp5s0 down", "link of nic 0000:05:00.0 is down, want up"),
        ("mlnx_qos -i enp5s0 --trust pcp", "trust of nic 0000:05:00.0 is pcp"),
        ("mlnx_qos -i enp5s0 --pfc 0,0,0,1,0,0,0,0", "pfc of nic 0000:05:00.0 is 3, want none"),
        ("ethtool -A enp5s0 rx on tx on", "global_pause of nic 0000:05:00.0 is on"),
        ("echo 0 >/sys/class/net/enp5s0/ecn/roce_np/enable/3", "ecn_priority_3 of nic"),
        ("modprobe -r nvidia_peermem", "nvidia_peermem of module is absent"),
        ("rm /etc/systemd/system/k3s-agent.service.d/*", "limit_memlock of unit.k3s-agent"),
        (f"echo LimitMEMLOCK=65536 >>{MEMLOCK}", "limit_memlock of unit.k3s-agent"),
        ("echo x >>/etc/railyard/nics.conf", "files of unit.railyard-nics"),
        ("systemctl disable railyard-nics", "enabled of unit.railyard-nics is disabled"),
        ("sed -i 's/ mgmt01$/ mgmt02/' /etc/hosts", "hosts_block of host is 2 names "),
    ],
)
def test_drift_is_seen_in_words_and_repaired(
    lab: HostLab, gpu01: HostPlan, by_hand: str, words: str
) -> None:
    lab.sh(gpu01, by_hand)
    assert [str(difference) for difference in lab.drift(gpu01) if words in str(difference)]
    answer = lab.apply(gpu01, f"{gpu01.converge.desired}repair=1: {words}\n")
    assert answer.exit_status == 0, answer.stderr
    assert evidence(answer.stdout)["changed"] != []
    assert lab.drift(gpu01) == ()


def test_a_new_vf_count_goes_through_zero(lab: HostLab, gpu01: HostPlan) -> None:
    stdin = lab.stdin(gpu01).replace(f"{CARD}.vfs=8", f"{CARD}.vfs=4")
    answer = lab.apply(gpu01, _with_boot_digest(stdin, gpu01))
    assert f"{CARD}.vfs" in str(evidence(answer.stdout)["changed"]), answer.stderr
    assert lab.sh(gpu01, "cat /sys/class/net/enp5s0/device/sriov_numvfs") == "4\n"


def _with_boot_digest(stdin: str, plan: HostPlan) -> str:
    """Leave the boot files out: their digest belongs to the settings of the plan."""
    digest = plan.desired.values["unit.railyard-nics.files"]
    return stdin.replace(f"unit.railyard-nics.files={digest}\n", "").replace(
        "unit.railyard-nics.enabled=enabled\n", ""
    )


def test_too_many_vfs_are_refused_with_the_way_out(lab: HostLab, gpu01: HostPlan) -> None:
    stdin = lab.stdin(gpu01).replace(f"{CARD}.vfs=8", f"{CARD}.vfs=64")
    answer = lab.apply(gpu01, stdin)
    assert answer.exit_status != 0
    assert "offers 16 VFs, want 64: mlxconfig -d 0000:05:00.0 set SRIOV_EN=1" in answer.stderr


def test_a_hosts_file_whose_end_mark_is_gone_is_not_cut_short(
    lab: HostLab, gpu01: HostPlan
) -> None:
    lab.sh(gpu01, "sed -i '/^# railyard .*: end$/d; s/ mgmt01$/ mgmt02/' /etc/hosts")
    lab.sh(gpu01, "echo '192.0.2.7 precious' >>/etc/hosts")
    answer = lab.apply(gpu01)
    assert answer.exit_status != 0
    assert "lost one of these two lines" in answer.stderr
    assert "192.0.2.7 precious" in lab.sh(gpu01, "cat /etc/hosts")
    lab.sh(gpu01, "sed -i '/^# railyard /,$d' /etc/hosts")
    assert lab.apply(gpu01).exit_status == 0


def test_another_netdev_name_is_refused(lab: HostLab, gpu01: HostPlan) -> None:
    stdin = lab.stdin(gpu01).replace("netdev=enp5s0", "netdev=enp5s0np0")
    answer = lab.apply(gpu01, stdin)
    assert answer.exit_status != 0
    assert "the card at 0000:05:00.0 is called enp5s0, want enp5s0np0" in answer.stderr


def test_a_setting_that_the_plan_drops_goes_back(lab: HostLab, gpu01: HostPlan) -> None:
    lines = [line for line in gpu01.converge.desired.splitlines() if "global_pause" not in line]
    answer = lab.apply(gpu01, _with_boot_digest("\n".join(lines) + "\n", gpu01))
    assert answer.exit_status == 0, answer.stderr
    assert "nic.*.global_pause" in str(evidence(answer.stdout)["changed"])
    assert "RX:\t\ton" in lab.sh(gpu01, "ethtool -a enp5s0")


def test_a_run_that_was_cut_off_is_finished_by_the_next(lab: HostLab, gpu01: HostPlan) -> None:
    lab.undo(gpu01)
    before = lab.snapshot("gpu01")
    # The kernel refuses this mode when VFs, MTU and QoS are set: half of the work is done then.
    stopped = lab.apply(gpu01, gpu01.converge.desired.replace("RoCE v2", "RoCE v9"))
    assert stopped.exit_status != 0
    assert "changed before this:" in stopped.stderr
    assert lab.apply(gpu01).exit_status == 0
    assert lab.drift(gpu01) == ()
    assert lab.undo(gpu01).exit_status == 0
    assert lab.snapshot("gpu01") == before
