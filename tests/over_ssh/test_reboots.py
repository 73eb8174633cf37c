"""`reboot-hosts` against emulated hosts over real SSH, with a played cluster around them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from components.core.errors import DeviceError
from components.core.key_values import HostState, parse_state
from components.disruption.disruption_plan import RebootGroup, plan_reboots
from components.disruption.forecast import forecast_departures
from components.disruption.reboot import HostRun, reboot_host
from components.disruption.request import HostReboot, groups_file, groups_text
from components.hosts.host_plan import HostPlan, plan_hosts
from components.kubernetes.kubernetes_plan import plan_kubernetes
from components.model.cluster import ClusterSpec
from components.remote.host_session import HostAnswer, run_on_host
from components.remote.step import Endpoint, env_name
from components.remote.tools import keep_current, keep_text
from lab.keys import client_secrets
from tests.disruption.played import PlayedCluster, small_cluster
from tests.over_ssh.host_lab import HostLab, running_hosts

pytestmark = pytest.mark.lab
CARD = "nic.0000:05:00.0"
AGENT = """mkdir -p /etc/systemd/system
cat >/etc/systemd/system/k3s-agent.service <<'END'
[Service]
ExecStart=/bin/sleep infinity
[Install]
WantedBy=multi-user.target
END
systemctl daemon-reload
systemctl enable --now k3s-agent.service
"""
"""What makes a host one with pods on it, as far as a script on the host can see."""
NO_AGENT = """systemctl disable --now k3s-agent.service
rm -f /etc/systemd/system/k3s-agent.service
systemctl daemon-reload
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostLab]:
    with running_hosts("reboots-over-ssh", tmp_path_factory.mktemp("hosts") / "lab") as running:
        yield running
        unmodelled = running.ask(op="unmodelled")["unmodelled"]
    assert unmodelled == {"mgmt01": [], "gpu01": [], "gpu02": []}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not ready fails a test soon."""
    monkeypatch.setattr("components.disruption.reboot.READY_DEADLINE_S", 60.0)


@pytest.fixture
def gpu01(lab: HostLab) -> Iterator[HostPlan]:
    """A worker as planned that is in service."""
    plan = lab.plan("gpu01")
    answer = lab.apply(plan)
    assert answer.exit_status == 0, answer.stderr
    if json.loads(answer.stdout)["reboot_required"]:  # ATS, which the test before left on
        lab.ask(op="reboot", device="gpu01")
    lab.sh(plan, AGENT)
    yield plan
    lab.sh(plan, NO_AGENT)


def with_vfs(lab: HostLab, count: int) -> ClusterSpec:
    """The site with another number of VFs on each card of gpu01."""
    hosts = tuple(
        host.model_copy(
            update={"nics": tuple(nic.model_copy(update={"vfs": count}) for nic in host.nics)}
        )
        if host.name == "gpu01"
        else host
        for host in lab.spec.hosts
    )
    return lab.spec.model_copy(update={"hosts": hosts})


def with_ats(lab: HostLab) -> ClusterSpec:
    """The site with firmware settings that need a boot."""
    firmware = lab.spec.host_defaults.firmware.model_copy(update={"ats": True})
    defaults = lab.spec.host_defaults.model_copy(update={"firmware": firmware})
    return lab.spec.model_copy(update={"host_defaults": defaults})


def groups_of(lab: HostLab, spec: ClusterSpec) -> tuple[RebootGroup, ...]:
    return plan_reboots(spec, plan_hosts(spec, lab.stack), plan_kubernetes(spec, lab.stack))


@dataclass
class Departure:
    """One `reboot-hosts` of gpu01 over SSH."""

    lab: HostLab
    spec: ClusterSpec
    cluster: PlayedCluster = field(default_factory=small_cluster)
    die_at: str = ""
    """The part of the work before which this run is killed."""
    boot_deadline_s: float = 60.0

    @property
    def request(self) -> HostReboot:
        (step,) = groups_of(self.lab, self.spec)[0].steps
        return replace(step.request, boot_deadline_s=self.boot_deadline_s)

    def ask(self, endpoint: Endpoint, command: str, stdin: str, deadline_s: float) -> HostAnswer:
        if self.die_at and f"action={self.die_at}\n" in stdin:
            raise KeyboardInterrupt
        secrets = client_secrets(self.lab.stack)
        session = run_on_host(endpoint, secrets, command, stdin=stdin, deadline_s=deadline_s)
        answer = asyncio.run(session)
        boot_id = parse_state(answer.stdout).values.get("boot_id") if "look" in stdin else None
        if boot_id:  # the kubelet says which boot it runs on
            self.cluster.nodes["gpu01"]["status"]["nodeInfo"]["bootID"] = boot_id
        return answer

    def perform(self) -> dict[str, object]:
        return HostRun(self.request, self.ask, lambda: self.cluster).perform()

    def converge(self) -> dict[str, object]:
        plan = self.lab.plan("gpu01", self.spec)
        answer = self.lab.apply(plan)
        assert answer.exit_status == 0, answer.stderr
        return json.loads(answer.stdout)

    def preview(self) -> str:
        """What a preview would say, from a real look at the host."""
        plan = self.lab.plan("gpu01", self.spec)
        seen = {"gpu01": HostState(self.lab.observe(plan).values)}
        return "\n".join(map(str, forecast_departures(groups_of(self.lab, self.spec), seen)))


def vfs(lab: HostLab, plan: HostPlan) -> str:
    return lab.sh(plan, "cat /sys/class/net/enp5s0/device/sriov_numvfs").strip()


def test_nothing_waits_and_a_real_command_says_so(
    lab: HostLab, gpu01: HostPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    request = Departure(lab, lab.spec).request
    keep_text(request.text)
    keep_current(groups_file(request.stack), groups_text([request]))
    names = {each.private_key_secret for each in request.endpoints}
    secrets = client_secrets(lab.stack)
    assert names == {*secrets}
    environ = {env_name(name): value for name, value in secrets.items()}
    text = reboot_host(request, environ)
    assert json.loads(text) == {"changed": [], "pending": [], "rebooted": False}
    assert lab.drift(gpu01) == ()


def test_other_vfs_wait_for_the_drain_and_need_no_boot(lab: HostLab, gpu01: HostPlan) -> None:
    departure = Departure(lab, with_vfs(lab, 4))
    assert departure.preview() == (
        "WILL LEAVE SERVICE (group 1 of 2): gpu01: nic 0000:05:00.0 vfs 8 -> 4;"
        " nic 0000:84:00.0 vfs 8 -> 4"
    )
    put_off = departure.converge()
    assert put_off["waiting"] == [f"{CARD}.vfs", "nic.0000:84:00.0.vfs"]
    assert vfs(lab, gpu01) == "8"
    done = departure.perform()
    assert (done["rebooted"], vfs(lab, gpu01)) == (False, "4")
    assert departure.cluster.asked == [
        "cordon gpu01",
        "evict train-gpu01",
        "restart plugin-gpu01",
        "uncordon gpu01",
    ]
    assert lab.drift(lab.plan("gpu01", departure.spec)) == ()
    assert departure.perform()["changed"] == []
    back = Departure(lab, lab.spec)
    back.converge()
    assert (back.perform()["rebooted"], vfs(lab, gpu01)) == (False, "8")


def test_a_card_that_leaves_the_file_is_told_and_let_go(lab: HostLab, gpu01: HostPlan) -> None:
    kept = tuple(
        host.model_copy(update={"nics": host.nics[:1]}) if host.name == "gpu01" else host
        for host in lab.spec.hosts
    )
    departure = Departure(lab, lab.spec.model_copy(update={"hosts": kept}))
    seen = {"gpu01": HostState(lab.observe(gpu01).values)}  # with what was applied
    told = tuple(map(str, forecast_departures(groups_of(lab, departure.spec), seen)))
    words, vfs_too = "WILL LEAVE SERVICE (group 1 of 2): gpu01: ", "nic 0000:84:00.0 vfs"
    with_it = "nic 0000:84:00.0 vf_mac own -> as before Railyard; "
    assert told == (f"{words}{with_it}{vfs_too} 8 -> as before Railyard",)
    assert "nic.0000:84:00.0.vfs" in str(departure.converge()["waiting"])
    assert departure.preview() == f"{words}{vfs_too} waits"
    assert departure.perform()["rebooted"] is False
    assert "evict train-gpu01" in departure.cluster.asked
    assert (departure.preview(), departure.cluster.cordoned("gpu01")) == ("", False)
    vfs_of_card = "cat /sys/bus/pci/devices/0000:84:00.0/sriov_numvfs"
    assert lab.sh(gpu01, vfs_of_card).strip() == "0"
    assert lab.apply(gpu01).exit_status == 0


def test_firmware_is_loaded_by_one_boot(lab: HostLab, gpu01: HostPlan) -> None:
    departure = Departure(lab, with_ats(lab))
    assert (
        "WILL REBOOT (group 1 of 2): gpu01: nic 0000:05:00.0 ats off -> on" in departure.preview()
    )
    departure.converge()
    assert "WILL REBOOT" in departure.preview()
    done = departure.perform()
    assert done["rebooted"] is True
    assert done["boot_before"] != done["boot_after"]
    assert "RDMA write" not in str(done["changed"])  # without perftest nothing is claimed
    assert departure.cluster.asked == ["cordon gpu01", "evict train-gpu01", "uncordon gpu01"]
    assert (departure.preview(), vfs(lab, gpu01)) == ("", "8")
    assert "reboot" not in lab.sh(gpu01, f"ls /var/lib/railyard/{lab.stack}")


@pytest.mark.usefixtures("gpu01")
@pytest.mark.parametrize("die_at", ["reboot", "ready"])
def test_a_killed_run_is_finished(lab: HostLab, die_at: str) -> None:
    departure = Departure(lab, with_ats(lab), die_at=die_at)
    departure.converge()
    with pytest.raises(KeyboardInterrupt):
        departure.perform()
    assert "an earlier run took it out of service" in departure.preview()
    departure.die_at = ""
    assert departure.perform()["rebooted"] is True
    assert departure.cluster.asked.count("uncordon gpu01") == 1
    assert (departure.preview(), departure.cluster.cordoned("gpu01")) == ("", False)


@pytest.mark.usefixtures("gpu01")
def test_a_host_that_stays_away_is_told_with_its_last_state(lab: HostLab) -> None:
    departure = Departure(lab, with_ats(lab), boot_deadline_s=6)
    departure.converge()
    run = HostRun(departure.request, departure.ask, lambda: departure.cluster)
    pause = run.pause

    def refuse(seconds: float) -> None:
        pause(seconds)
        if run.phase == "waiting for the boot":
            lab.fault("gpu01", "ssh-refused", "on")

    run.pause = refuse
    with pytest.raises(DeviceError) as caught:
        run.perform()
    lab.fault("gpu01", "ssh-refused", "off")
    text = str(caught.value)
    assert "waiting for the boot: did not come back with a new boot within 6 s" in text
    assert "is not reachable" in text
    assert "its node is cordoned" in text
    departure.boot_deadline_s = 60
    assert departure.perform()["rebooted"] is True
    assert not departure.cluster.cordoned("gpu01")


def test_a_card_without_a_link_keeps_the_node_out(
    lab: HostLab, gpu01: HostPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("components.disruption.reboot.READY_DEADLINE_S", 1.0)
    departure = Departure(lab, with_vfs(lab, 4))
    departure.converge()
    lab.fault("gpu01", "link-down", "enp5s0", "on")
    with pytest.raises(DeviceError, match=r"port 1 of mlx5_0 is 1: DOWN, want ACTIVE"):
        departure.perform()
    assert departure.cluster.cordoned("gpu01")
    monkeypatch.setattr("components.disruption.reboot.READY_DEADLINE_S", 60.0)
    lab.fault("gpu01", "link-down", "enp5s0", "off")
    departure.perform()
    assert not departure.cluster.cordoned("gpu01")
    back = Departure(lab, lab.spec)
    back.converge()
    back.perform()
    assert vfs(lab, gpu01) == "8"


def test_where_perftest_is_every_card_writes_to_itself(lab: HostLab, gpu01: HostPlan) -> None:
    lab.sh(gpu01, "ln -s /run/lab/container-tools/ib_write_bw /usr/local/bin/ib_write_bw")
    departure = Departure(lab, with_vfs(lab, 4))
    departure.converge()
    done = departure.perform()
    lab.sh(gpu01, "rm /usr/local/bin/ib_write_bw")
    assert "an RDMA write to itself passed on 2 card(s)" in str(done["changed"])
    back = Departure(lab, lab.spec)
    back.converge()
    back.perform()


def test_undo_forgets_what_waits(lab: HostLab, gpu01: HostPlan) -> None:
    Departure(lab, with_vfs(lab, 4)).converge()
    assert "reboot-pending" in lab.sh(gpu01, f"ls /var/lib/railyard/{lab.stack}")
    answer = lab.undo(gpu01)
    assert answer.exit_status == 0, answer.stderr
    assert lab.sh(gpu01, "ls /var/lib/railyard 2>/dev/null || echo gone") == "gone\n"


def test_pfc_takes_the_link_down_so_it_waits_for_the_drain(lab: HostLab, gpu01: HostPlan) -> None:
    downs = "cat /sys/class/net/enp5s0/carrier_down_count"
    lab.sh(gpu01, "mlnx_qos -i enp5s0 --pfc 0,0,0,1,0,0,0,0")
    before = int(lab.sh(gpu01, downs))
    departure = Departure(lab, lab.spec)
    assert "WILL LEAVE SERVICE" in departure.preview()
    assert "pfc 3 -> none" in departure.preview()
    assert departure.converge()["waiting"] == [f"{CARD}.pfc"]
    assert int(lab.sh(gpu01, downs)) == before, "no link goes down under jobs"
    denied = replace(departure.request, reboots="deny")
    with pytest.raises(DeviceError, match=r"has to leave service: nic 0000:05:00\.0 pfc"):
        HostRun(denied, departure.ask, lambda: departure.cluster).perform()
    assert int(lab.sh(gpu01, downs)) == before
    departure.perform()
    assert departure.cluster.asked[0] == "cordon gpu01"
    assert departure.cluster.asked[-1] == "uncordon gpu01"
    assert int(lab.sh(gpu01, downs)) == before + 1
    assert lab.drift(gpu01) == ()
