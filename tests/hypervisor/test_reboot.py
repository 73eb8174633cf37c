"""`railyard device reboot`: only when something waits, one boot, and resumed after a kill."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from components.core.errors import DeviceError, HostKeyError, UnreachableError, UsageError
from components.hypervisor.hypervisor_plan import HypervisorPlan, RebootRequest, parse_request
from components.hypervisor.reboot import Reboot, run_reboot
from components.remote.host_session import HostAnswer
from components.remote.step import Endpoint, env_name
from lab.hypervisors.config import EsxiVmConfig
from tests.hypervisor.esxi_lab import CONFIG, SECRETS, EsxiLab, make_plan, make_spec, running

BOOTED_S = 1000.0
CARD = "0000:0b:00.0"


@dataclass
class FakeSite:
    """A hypervisor that answers the script's actions, and its guests; time passes by pausing."""

    request: RebootRequest
    now_s: float = 5000.0
    booted_s: float = BOOTED_S
    runtime: str = "FALSE"
    firmware: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Guest to its card's ATS: of the next boot, and now."""
    mark: str = ""
    away_s: float = 60.0
    asked_s: float | None = None
    lost: bool = False
    """It never comes back."""
    stuck: bool = False
    """It comes back as it was."""
    guests_at_s: float = 0.0
    """When the guests answer SSH."""
    actions: list[str] = field(default_factory=list[str])

    def reboot(self) -> Reboot:
        return Reboot(self.request, self.run, lambda: self.now_s, self.pause)

    def pause(self, seconds: float) -> None:
        self.now_s += seconds
        if self.asked_s is not None and self.now_s > self.asked_s + self.away_s and not self.lost:
            self.booted_s, self.asked_s = self.now_s, None
            if not self.stuck:
                self.runtime = "TRUE"
                self.firmware = {name: (new, new) for name, (new, _) in self.firmware.items()}

    def run(self, endpoint: Endpoint, command: str, stdin: str, deadline_s: float) -> HostAnswer:
        del deadline_s
        if endpoint != self.request.endpoint:
            return self.guest(endpoint, command, stdin)
        if self.asked_s is not None:
            raise UnreachableError(f"{endpoint.where} is not reachable: connection refused")
        values = dict(line.split("=", 1) for line in stdin.splitlines())
        return HostAnswer(self.act(values), "", 0)

    def guest(self, endpoint: Endpoint, command: str, stdin: str) -> HostAnswer:
        """As observe.sh answers: what is asked, and of firmware also what runs now."""
        if self.now_s < self.guests_at_s:
            raise UnreachableError(f"{endpoint.where} is not reachable: connection refused")
        if command == "true":
            return HostAnswer("", "", 0)
        new, now = self.firmware.get(endpoint.device, ("on", "on"))
        values = {f"nic.{CARD}.ats": new, f"nic.{CARD}.ats_current": now}
        asked = [line.partition("=")[0] for line in stdin.splitlines()]
        asked += [f"{key}_current" for key in asked if key.endswith(".ats")]
        return HostAnswer("".join(f"{key}={values[key]}\n" for key in asked), "", 0)

    def act(self, values: Mapping[str, str]) -> str:
        action = values["action"]
        self.actions.append(action)
        if action == "read":
            mark = f"mark_boot={self.mark}\n" if self.mark else ""
            uptime_us = int((self.now_s - self.booted_s) * 1e6)
            state = "kernel.atsSupport.configured=TRUE\nkernel.atsSupport.runtime="
            return f"{state}{self.runtime}\nuptime_us={uptime_us}\n{mark}"
        if action == "quiesce":
            self.mark = self.mark or values["boot"]
            return "shut down vm02\nshut down vm01\nentered maintenance mode\n"
        if action == "reboot":
            self.asked_s = self.now_s
        if action == "forget":
            self.mark = ""
        return "powered on vm01\npowered on vm02\n" if action == "resume" else ""


@pytest.fixture
def plan() -> HypervisorPlan:
    return make_plan()


def test_nothing_pending_does_nothing(plan: HypervisorPlan) -> None:
    site = FakeSite(plan.reboot.request, runtime="TRUE")
    assert site.reboot().perform() == {"changed": [], "pending": [], "rebooted": False}
    assert site.actions == ["read"]


def test_guests_that_the_step_before_started_are_waited_for(plan: HypervisorPlan) -> None:
    site = FakeSite(plan.reboot.request, runtime="TRUE", guests_at_s=5030.0)
    assert site.reboot().perform()["rebooted"] is False
    assert site.now_s >= 5030.0
    silent = FakeSite(plan.reboot.request, runtime="TRUE", guests_at_s=1e9)
    with pytest.raises(DeviceError, match="runs, but its guest does not: vm01"):
        silent.reboot().perform()


def test_a_kernel_setting_that_waits_is_one_boot(plan: HypervisorPlan) -> None:
    site = FakeSite(plan.reboot.request)
    done = site.reboot().perform()
    assert done["rebooted"] is True
    assert done["pending"] == ["kernel.atsSupport is TRUE for the next boot and FALSE now"]
    assert done["boot_before"] == "1970-01-01T00:16:40Z"
    assert [each for each in site.actions if each != "read"] == [
        "quiesce",
        "reboot",
        "resume",
        "forget",
    ]
    assert site.reboot().perform()["rebooted"] is False


def test_firmware_that_waits_in_a_guest_is_asked_for_in_the_second_pass_only(
    plan: HypervisorPlan,
) -> None:
    assert plan.firmware_reboot is not None
    early = FakeSite(plan.reboot.request, runtime="TRUE", firmware={"vm02": ("on", "off")})
    assert early.reboot().perform()["rebooted"] is False
    site = FakeSite(plan.firmware_reboot.request, runtime="TRUE", firmware={"vm02": ("on", "off")})
    assert site.reboot().perform()["pending"] == [
        f"ATS_ENABLED of {CARD} in vm02 is on for the next boot and off now"
    ]
    assert site.firmware == {"vm02": ("on", "on")}


def test_firmware_that_cannot_be_read_is_no_yes_and_no_no(plan: HypervisorPlan) -> None:
    assert plan.firmware_reboot is not None
    site = FakeSite(
        plan.firmware_reboot.request, runtime="TRUE", firmware={"vm01": ("on", "unsupported")}
    )
    with pytest.raises(DeviceError, match="it is not known whether a reboot is due"):
        site.reboot().perform()
    assert site.actions == ["read"]


def test_deny_refuses_and_does_nothing(plan: HypervisorPlan) -> None:
    site = FakeSite(replace(plan.reboot.request, reboots="deny"))
    with pytest.raises(DeviceError, match=r"disruption\.reboots = deny") as caught:
        site.reboot().perform()
    assert "kernel.atsSupport is TRUE for the next boot and FALSE now" in str(caught.value)
    assert site.actions == ["read"]
    settled = FakeSite(replace(plan.reboot.request, reboots="deny"), runtime="TRUE")
    assert settled.reboot().perform()["rebooted"] is False


def test_a_host_that_stays_away_is_reported_with_its_last_state(plan: HypervisorPlan) -> None:
    site = FakeSite(plan.reboot.request, lost=True)
    with pytest.raises(DeviceError) as caught:
        site.reboot().perform()
    words = str(caught.value)
    assert "did not come back within 1800 s; last seen:" in words
    assert "connection refused" in words
    assert "done   shut down vm02, shut down vm01, entered maintenance mode, asked" in words
    assert "run the update again: it continues from this point" in words
    assert site.mark


def test_what_still_waits_after_the_boot_is_an_error(plan: HypervisorPlan) -> None:
    site = FakeSite(plan.reboot.request, stuck=True)
    with pytest.raises(DeviceError, match=r"was rebooted, and still: kernel\.atsSupport"):
        site.reboot().perform()


@pytest.mark.parametrize("stage", ["quiesce", "reboot", "resume", "forget"])
def test_a_run_killed_before_any_part_is_finished_by_the_next(
    plan: HypervisorPlan, stage: str
) -> None:
    site = FakeSite(plan.reboot.request)
    alive = site.act

    class KilledError(Exception):
        pass

    def dies(values: Mapping[str, str]) -> str:
        if values["action"] == stage:
            raise KilledError
        return alive(values)

    site.act = dies
    with pytest.raises(KilledError):
        site.reboot().perform()
    site.act = alive
    boots = site.actions.count("reboot")
    assert site.reboot().perform()["rebooted"] is True
    assert site.actions.count("reboot") == 1, boots
    assert site.mark == ""
    assert site.reboot().perform()["rebooted"] is False


def test_an_answer_that_is_cut_off_is_no_state(plan: HypervisorPlan) -> None:
    site = FakeSite(plan.reboot.request)
    site.act = lambda values: f"action={values['action']}\n"
    with pytest.raises(DeviceError, match="gave an incomplete answer"):
        site.reboot().perform()


def test_another_host_key_ends_the_wait_at_once(plan: HypervisorPlan) -> None:
    site = FakeSite(plan.reboot.request)
    alive = site.run

    def replaced(endpoint: Endpoint, command: str, stdin: str, deadline_s: float) -> HostAnswer:
        if site.asked_s is not None:
            raise HostKeyError("the host key is not the pinned one")
        return alive(endpoint, command, stdin, deadline_s)

    with pytest.raises(HostKeyError):
        Reboot(site.request, replaced, lambda: site.now_s, site.pause).perform()


def test_a_request_survives_being_written_and_read(plan: HypervisorPlan) -> None:
    for step in (plan.reboot, plan.firmware_reboot):
        assert step is not None
        again = parse_request(step.request.render("1: drift"))
        assert again == replace(step.request, repair="1: drift")


def test_what_is_no_request_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="cannot read the reboot request on stdin"):
        run_reboot("{}", {})


def test_a_missing_key_is_named(plan: HypervisorPlan) -> None:
    with pytest.raises(UsageError, match="set RAILYARD_SECRET_SSH_PRIVATE_KEY in the environment"):
        run_reboot(plan.reboot.request.render(), {})


# On the emulated host


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[EsxiLab]:
    with running(tmp_path / "esx01") as host:
        yield host
        assert host.host.unmodelled == ()


def perform(lab: EsxiLab, plan: HypervisorPlan) -> Mapping[str, object]:
    return Reboot(replace(plan.reboot.request, guests=()), lab.run).perform()


@pytest.mark.lab
def test_a_host_is_rebooted_once_and_undone_exactly(lab: EsxiLab, plan: HypervisorPlan) -> None:
    before = lab.snapshot()
    assert lab.apply(plan).exit_status == 0
    lab.power.clear()
    assert perform(lab, plan)["changed"] == [
        "entered maintenance mode",
        "asked for the reboot",
        "rebooted",
        "left maintenance mode",
        "powered on vm01",
        "powered on vm02",
    ]
    assert lab.power == [("vm01", True), ("vm02", True)]
    assert lab.left(plan) == ()
    assert perform(lab, plan)["rebooted"] is False
    done = lab.undo(plan)
    # Put back for the next boot; what this boot runs is said, and not rebooted away.
    assert json.loads(done.stdout)["left"] == ["kernel.atsSupport.runtime"]
    assert lab.snapshot() == before


@pytest.mark.lab
def test_a_killed_reboot_is_finished_with_what_was_on_record(
    lab: EsxiLab, plan: HypervisorPlan
) -> None:
    assert lab.apply(plan).exit_status == 0
    alive = lab.run

    def dies(endpoint: Endpoint, command: str, stdin: str, deadline_s: float) -> HostAnswer:
        if "action=resume" in stdin:
            raise KeyboardInterrupt
        return alive(endpoint, command, stdin, deadline_s)

    request = replace(plan.reboot.request, guests=())
    with pytest.raises(KeyboardInterrupt):
        Reboot(request, dies).perform()
    assert lab.host.machine.stored.maintenance
    done = perform(lab, plan)
    assert done["changed"] == ["left maintenance mode", "powered on vm01", "powered on vm02"]
    assert lab.left(plan) == ()
    assert not list(lab.host.machine.vmfs.rglob("reboot"))


@pytest.mark.lab
def test_the_command_of_an_update_does_the_same(lab: EsxiLab, plan: HypervisorPlan) -> None:
    assert lab.apply(plan).exit_status == 0
    done = subprocess.run(
        [str(Path(sys.executable).with_name("railyard")), "device", "reboot"],
        input=replace(plan.reboot.request, guests=()).render(),
        env={env_name(name): value for name, value in SECRETS.items()} | {"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rebooted"] is True
    assert lab.left(plan) == ()


@pytest.mark.lab
def test_maintenance_mode_of_somebody_else_is_not_ended(lab: EsxiLab, plan: HypervisorPlan) -> None:
    assert lab.apply(plan).exit_status == 0
    lab.fault("maintenance", "on")
    with pytest.raises(DeviceError) as caught:
        perform(lab, plan)
    assert "stopped at resume" in str(caught.value)
    assert "in maintenance mode before, so its machines stay off" in str(caught.value)
    assert lab.host.machine.stored.maintenance


@pytest.mark.lab
def test_a_machine_that_is_not_in_the_file_is_never_stopped(tmp_path: Path) -> None:
    stranger = EsxiVmConfig("build", 4096, CONFIG.vms[1].gpu, CONFIG.vms[1].nic, guest="build")
    spec = make_spec()
    hypervisor = spec.hypervisors[0]
    alone = make_spec(vms=hypervisor.vms[:1])
    config = replace(CONFIG, vms=(CONFIG.vms[0], stranger))
    with running(tmp_path / "esx01", config) as lab:
        plan = make_plan(alone)
        assert lab.apply(plan).exit_status == 0
        with pytest.raises(DeviceError, match="build runs on this host and is not in the file"):
            perform(lab, plan)
        assert ("build", False) not in lab.power
