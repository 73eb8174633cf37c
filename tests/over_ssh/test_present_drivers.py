"""Hosts with the kernel's own RDMA driver and with NVIDIA's: what each can do, over real SSH."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from components.core.key_values import HostState
from components.hosts.host_plan import HostPlan
from components.model.cards import ContainerToolkit, DriverPackage, DriverRepository
from lab.views import HostConfig
from tests.over_ssh.host_lab import HostLab, running_hosts

pytestmark = pytest.mark.lab
MASK = "ROCE_CC_PRIO_MASK_P1"
CARD = "nic.0000:05:00.0"
CC_PARAMS = "/sys/kernel/debug/mlx5/0000:05:00.0/cc_params"
TOOLS = ("ethtool", "pciutils", "mstflint", "mlnx-tools")


def other_driver(host: HostConfig) -> HostConfig:
    """gpu01 runs the kernel's own driver, gpu02 DOCA-OFED."""
    if host.name == "gpu01":
        return replace(host, driver="", packages=TOOLS)
    return replace(host, driver="OFED-internal-25.10-1.7.1.413")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostLab]:
    root = tmp_path_factory.mktemp("present") / "lab"
    with running_hosts("present", root, only=("gpu01", "gpu02"), edit=other_driver) as running:
        yield running
        unmodelled = running.ask(op="unmodelled")["unmodelled"]
    assert unmodelled == {"gpu01": [], "gpu02": []}


def plan_of(
    lab: HostLab, name: str, driver: Mapping[str, str], *, manage: bool = False
) -> HostPlan:
    settings = lab.spec.host_defaults
    changed = settings.model_copy(
        update={
            "driver": DriverPackage.model_validate(driver),
            "gpu_direct": "none",
            "toolkit": ContainerToolkit(kind="operator"),  # nothing is asked of the host
            "firmware": settings.firmware.model_copy(update={"manage": manage}),
        }
    )
    return lab.plan(name, lab.spec.model_copy(update={"host_defaults": changed}))


@pytest.mark.parametrize(
    ("name", "driver", "words"),
    [
        ("gpu01", {}, "the RDMA driver of this host is inbox"),
        ("gpu01", {"flavour": "doca"}, "want doca to be there"),
        ("gpu02", {"at_least": "26.04-0.8.6.0"}, "doca_ofed 25.10-1.7.1.413, older than 26.04-0.8"),
    ],
)
def test_a_driver_that_is_not_there_is_named_and_nothing_is_touched(
    lab: HostLab, name: str, driver: dict[str, str], words: str
) -> None:
    before = lab.snapshot(name)
    plan = plan_of(lab, name, {"kind": "present", **driver})
    assert [str(each) for each in lab.drift(plan) if "present of driver" in str(each)]
    answer = lab.apply(plan)
    assert answer.exit_status != 0
    assert words in answer.stderr
    lab.undo(plan)
    assert lab.snapshot(name) == before


@pytest.mark.parametrize("asked", [{}, {"at_least": "5.2-2.2.4.0"}, {"flavour": "doca"}])
def test_a_driver_that_is_there_is_no_difference(lab: HostLab, asked: dict[str, str]) -> None:
    plan = plan_of(lab, "gpu02", {"kind": "present", **asked})
    assert not [str(each) for each in lab.drift(plan) if "driver" in str(each)]
    assert lab.undo(plan).exit_status == 0  # a look leaves its tools on the host


def test_the_kernels_own_driver_gets_what_it_can(lab: HostLab) -> None:
    plan = plan_of(lab, "gpu01", {"kind": "inbox"})
    before = lab.snapshot("gpu01")
    lab.sh(plan, f"echo 12 >{CC_PARAMS}/np_cnp_dscp; echo 2 >{CC_PARAMS}/np_cnp_prio")
    answer = lab.apply(plan)
    assert answer.exit_status == 0, answer.stderr
    assert {f"{CARD}.cnp_dscp", f"{CARD}.cnp_priority"} <= set(json.loads(answer.stdout)["changed"])
    assert lab.sh(plan, f"cat {CC_PARAMS}/np_cnp_dscp {CC_PARAMS}/np_cnp_prio") == "48\n6\n"
    assert lab.drift(plan) == ()
    lab.ask(op="reboot", device="gpu01")  # debugfs forgets, and the boot unit sets it again
    assert lab.drift(plan) == ()
    assert lab.undo(plan).exit_status == 0
    lab.ask(op="reboot", device="gpu01")
    assert lab.snapshot("gpu01") == before


def test_ecn_that_the_firmware_has_off_is_refused_or_set(lab: HostLab) -> None:
    plan = plan_of(lab, "gpu01", {"kind": "inbox"})
    lab.sh(plan, f"mstconfig -d 0000:05:00.0 -y set {MASK}=7")
    lab.ask(op="reboot", device="gpu01")
    answer = lab.apply(plan)
    assert answer.exit_status != 0
    assert f"is off in the card's firmware ({MASK}=7)" in answer.stderr
    assert lab.undo(plan).exit_status == 0
    managed = plan_of(lab, "gpu01", {"kind": "inbox"}, manage=True)
    answer = lab.apply(managed)
    assert answer.exit_status == 0, answer.stderr
    assert json.loads(answer.stdout)["reboot_required"] is True
    lab.ask(op="reboot", device="gpu01")
    assert "255" in lab.sh(plan, f"mstconfig -d 0000:05:00.0 -e query {MASK}")
    assert lab.drift(managed) == ()
    assert lab.undo(managed).exit_status == 0
    lab.sh(plan, f"mstconfig -d 0000:05:00.0 -y set {MASK}=255")  # what it still runs with


def test_debugfs_that_is_closed_is_said(lab: HostLab) -> None:
    plan = plan_of(lab, "gpu01", {"kind": "inbox"})
    lab.fault("gpu01", "pci-locked", "on")
    answer = lab.apply(plan)
    lab.fault("gpu01", "pci-locked", "off")
    assert answer.exit_status != 0
    assert "cc_params/np_cnp_dscp does not exist" in answer.stderr
    assert lab.undo(plan).exit_status == 0


REPOSITORY = """\
mkdir -p /srv/toolkit && echo -----BEGIN >/srv/toolkit/key.asc
printf 'Package: nvidia-container-toolkit\\nVersion: 1.17.8-1\\n' >/srv/toolkit/Packages
sha256sum /srv/toolkit/key.asc | cut -d ' ' -f 1 | tee /srv/toolkit/InRelease
"""


def toolkit_plan(lab: HostLab, name: str, toolkit: ContainerToolkit) -> HostPlan:
    """The plan of the toolkit alone."""
    defaults = lab.spec.host_defaults.model_copy(update={"toolkit": toolkit})
    plan = lab.plan(name, lab.spec.model_copy(update={"host_defaults": defaults}))
    begins = ("toolkit", "docker.toolkit", "stack=")
    kept = "".join(
        f"{line}\n" for line in plan.converge.desired.splitlines() if line.startswith(begins)
    )
    values = {k: v for k, v in plan.desired.values.items() if k.startswith(begins)}
    step = replace(plan.converge, desired=kept)
    return replace(plan, desired=HostState(values), steps=(step,))


def test_the_container_toolkit_is_demanded_or_installed(lab: HostLab) -> None:
    plan = toolkit_plan(lab, "gpu01", ContainerToolkit())
    refused = lab.apply(plan)
    assert refused.exit_status != 0
    assert "nvidia-container-runtime is not on this host" in refused.stderr
    assert lab.undo(plan).exit_status == 0
    key_sha256 = lab.sh(plan, REPOSITORY).strip()
    source = DriverRepository(url="/srv/toolkit", key="/srv/toolkit/key.asc", key_sha256=key_sha256)
    plan = toolkit_plan(
        lab, "gpu01", ContainerToolkit(kind="host", repository=source, version="1.17.8-1")
    )
    answer = lab.apply(plan)
    assert answer.exit_status == 0, answer.stderr
    assert lab.drift(plan) == ()
    lab.sh(plan, "command -v nvidia-container-runtime && ls /etc/railyard/toolkit-key.asc")
    undone = lab.undo(plan)
    assert undone.exit_status == 0, undone.stderr
    lab.sh(plan, "! ls /etc/apt/sources.list.d/railyard-toolkit.list /etc/railyard/toolkit-key.asc")


def test_a_pinned_toolkit_may_come_from_the_hosts_own_repositories(lab: HostLab) -> None:
    """The host of the lab has one of this version from its image, and no other is offered."""
    plan = toolkit_plan(lab, "gpu02", ContainerToolkit(kind="host", version="1.17.8-1"))
    assert lab.apply(plan).exit_status == 0
    assert lab.drift(plan) == ()
    assert lab.undo(plan).exit_status == 0
    other = toolkit_plan(lab, "gpu02", ContainerToolkit(kind="host", version="1.16.2-1"))
    refused = lab.apply(other)
    assert refused.exit_status != 0
    assert "Version '1.16.2-1' for 'nvidia-container-toolkit' was not found" in refused.stderr
    assert lab.undo(other).exit_status == 0


def test_a_toolkit_that_is_there_is_no_difference(lab: HostLab) -> None:
    plan = toolkit_plan(lab, "gpu02", ContainerToolkit())
    assert lab.drift(plan) == ()
    assert lab.undo(plan).exit_status == 0
