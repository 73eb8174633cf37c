"""RDMA drivers on emulated hosts over real SSH: install, upgrade, rebuild, and each refusal."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shlex
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import pytest

from components.core.errors import UsageError
from components.core.key_values import HostState
from components.hosts.host_plan import HostPlan
from components.model.cards import DriverPackage, DriverRepository
from components.model.cluster import ClusterSpec
from components.remote.host_session import HostAnswer
from tests.over_ssh.host_lab import HostLab, running_hosts, without_driver

pytestmark = pytest.mark.lab
KERNEL = "5.15.0-113-generic"
NEWER = "5.15.0-130-generic"
HEADERS = f"linux-headers-{KERNEL}"
NEWER_HEADERS = f"linux-headers-{NEWER}"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostLab]:
    root = tmp_path_factory.mktemp("drivers") / "lab"
    with running_hosts("drivers", root, only=("gpu01",), edit=without_driver) as running:
        yield running
        unmodelled = running.ask(op="unmodelled")["unmodelled"]
    assert unmodelled == {"gpu01": []}


def stanzas(release: str, doca: str, more: str = "") -> str:
    """A repository's list, in the lab's form."""
    number = release.rpartition("internal-")[2]
    return (
        f"Package: doca-ofed\nVersion: {doca}\n{more}\n"
        f"Package: ofed-scripts\nVersion: {release}\n\n"
        f"Package: mlnx-ofed-kernel-dkms\nVersion: {number}\n"
    )


def put(lab: HostLab, plan: HostPlan, path: str, content: bytes) -> str:
    """Write a file on the host; its checksum."""
    text = base64.b64encode(content).decode()
    lab.sh(plan, f"mkdir -p {path.rpartition('/')[0]} && echo {text} | base64 -d >{path}")
    return hashlib.sha256(content).hexdigest()


def doca_deb(release: str, doca: str, more: str = "") -> bytes:
    return f"Package: doca-host\nVersion: {doca}\n\n{stanzas(release, doca, more)}".encode()


def mlnx_tgz(release: str) -> bytes:
    """An archive as NVIDIA packs it: one folder with the installer in it."""
    text = f'#!/bin/sh\nexec "$(dirname "$0")/mlnxofedinstall.lab" --lab-release={release} "$@"\n'
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        script = tarfile.TarInfo(f"{release}/mlnxofedinstall")
        script.size, script.mode = len(text), 0o755
        archive.addfile(script, io.BytesIO(text.encode()))
        tool = tarfile.TarInfo(f"{release}/mlnxofedinstall.lab")
        tool.type, tool.linkname = tarfile.SYMTYPE, "/usr/bin/.lab-tool"
        archive.addfile(tool)
    return buffer.getvalue()


def with_driver(spec: ClusterSpec, package: DriverPackage) -> ClusterSpec:
    defaults = spec.host_defaults.model_copy(update={"driver": package, "gpu_direct": "none"})
    return spec.model_copy(update={"host_defaults": defaults})


def plan_with(lab: HostLab, package: DriverPackage, *, whole: bool = False) -> HostPlan:
    """The host's plan; by default of its driver alone, which is quicker."""
    plan = lab.plan("gpu01", with_driver(lab.spec, package))
    if whole:
        return plan
    step = plan.converge
    kept = [line for line in step.desired.splitlines() if line.startswith(("driver", "stack="))]
    values = {k: v for k, v in plan.desired.values.items() if k.startswith("driver.")}
    text = "".join(f"{line}\n" for line in kept)
    return replace(plan, desired=HostState(values), steps=(replace(step, desired=text),))


def doca_plan(
    lab: HostLab, version: str = "25.07-0.9.7.0", more: str = "", *, whole: bool = False
) -> HostPlan:
    release = f"OFED-internal-{version.removesuffix('.0')}"
    path = "/opt/mirror/doca-host_3.1.0-091000-25.07-ubuntu2204_amd64.deb"
    sha = put(lab, lab.plan("gpu01"), path, doca_deb(release, "3.1.0-091000", more))
    package = DriverPackage(kind="doca_ofed", version=version, source=path, sha256=sha)
    return plan_with(lab, package, whole=whole)


@pytest.fixture(autouse=True)
def _bare(lab: HostLab) -> Iterator[None]:
    """Each test begins with a host without driver package and fault, but with kernel headers."""
    plan = lab.plan("gpu01")
    lab.sh(plan, f"apt-get -y install {HEADERS}")
    yield
    for fault in (
        ("package-lock", "off"), ("disk-full", "/", "off"), ("disk-full", "/boot", "off"),
        ("secure-boot", "off"), ("gpu-driver", "580.126.20", "proprietary"),
    ):  # fmt: skip
        lab.fault("gpu01", *fault)
    lab.sh(plan, f"dpkg --configure -a; rm -f /boot/vmlinuz-*; apt-get -y remove {NEWER_HEADERS}")
    assert lab.undo(plan).exit_status == 0
    lab.sh(plan, "! command -v ofed_uninstall.sh || ofed_uninstall.sh --force")
    lab.sh(plan, "rm -rf /opt/mirror /srv/doca /etc/apt/sources.list.d/doca.list")
    lab.ask(op="reboot", device="gpu01")


def evidence(answer: HostAnswer) -> dict[str, object]:
    assert answer.exit_status == 0, answer.stderr
    return cast("dict[str, object]", json.loads(answer.stdout))


def driver_of(lab: HostLab, plan: HostPlan) -> dict[str, str]:
    found = lab.observe(plan).values
    return {k.removeprefix("driver."): v for k, v in found.items() if k.startswith("driver.")}


def test_doca_is_installed_loaded_and_left_by_undo(lab: HostLab) -> None:
    plan = doca_plan(lab)
    done = evidence(lab.apply(plan))
    assert "driver.kind" in cast("list[str]", done["changed"])
    assert done["reboot_required"] is False
    built = {"modules": "built", "loaded": "installed", "fabric_manager": "ready"}
    assert driver_of(lab, plan) == built | {"kind": "doca_ofed", "version": "25.07-0.9.7.0"}
    assert lab.drift(plan) == ()
    assert evidence(lab.apply(plan))["changed"] == []
    undone = evidence(lab.undo(plan))
    assert {"driver.kind", "driver.version"} <= set(cast("list[str]", undone["left"]))
    assert "the RDMA driver" in plan.left_by_destroy.stays


def test_a_newer_release_takes_the_place_of_the_older(lab: HostLab) -> None:
    evidence(lab.apply(doca_plan(lab, whole=True)))
    newer = doca_plan(lab, "25.10-1.7.1.413", whole=True)
    done = evidence(lab.apply(newer))
    assert "driver.version" in cast("list[str]", done["changed"])
    assert driver_of(lab, newer)["version"] == "25.10-1.7.1.413"
    # The new modules came without VFs and QoS, which the same run has set again.
    assert lab.drift(newer) == ()
    refused = lab.apply(doca_plan(lab)).stderr
    assert "25.10-1.7.1.413 is installed, which is newer than the file's 25.07-0.9.7.0" in refused


def test_the_archive_of_the_old_guides_is_installed_without_firmware(lab: HostLab) -> None:
    release = "MLNX_OFED_LINUX-5.4-1.0.3.0"
    path = f"/opt/mirror/{release}-ubuntu22.04-x86_64.tgz"
    sha = put(lab, lab.plan("gpu01"), path, mlnx_tgz(release))
    package = DriverPackage(
        kind="mlnx_ofed", version=release, source=path, sha256=sha, add_kernel_support=True
    )
    plan = plan_with(lab, package)
    evidence(lab.apply(plan))
    assert driver_of(lab, plan)["version"] == "5.4-1.0.3.0"
    doca = lab.apply(doca_plan(lab))
    assert "MLNX_OFED 5.4-1.0.3.0 is installed, and DOCA-OFED takes its place" in doca.stderr
    lab.sh(plan, "ofed_uninstall.sh --force")
    lab.ask(op="reboot", device="gpu01")
    evidence(lab.apply(doca_plan(lab)))


def repository_plan(lab: HostLab, key: bytes = b"key\n", more: str = "") -> HostPlan:
    plan = lab.plan("gpu01")
    listed = stanzas("OFED-internal-25.10-1.7.1.413", "3.2.0", more)
    put(lab, plan, "/srv/doca/Packages", listed.encode())
    put(lab, plan, "/srv/doca/InRelease", hashlib.sha256(b"key\n").hexdigest().encode())
    sha = put(lab, plan, "/opt/mirror/key.asc", key)
    where = DriverRepository(url="/srv/doca", key="/opt/mirror/key.asc", key_sha256=sha)
    return plan_with(lab, DriverPackage(kind="doca_ofed", version="3.2.0", repository=where))


def test_a_sites_own_repository_serves_without_a_network(lab: HostLab) -> None:
    plan = repository_plan(lab)
    evidence(lab.apply(plan))
    assert driver_of(lab, plan)["line"] == "25.10"
    assert lab.drift(plan) == ()
    lab.sh(plan, "echo 'deb http://elsewhere ./' >/etc/apt/sources.list.d/railyard-rdma.list")
    assert [str(each) for each in lab.drift(plan)] != []
    evidence(lab.apply(plan))
    assert lab.drift(plan) == ()
    evidence(lab.undo(plan))
    left = lab.sh(plan, "ls /etc/apt/sources.list.d/ /etc/railyard 2>/dev/null; true")
    assert "railyard" not in left
    assert "rdma" not in left


def test_a_repository_of_another_key_is_not_trusted(lab: HostLab) -> None:
    answer = lab.apply(repository_plan(lab, b"another\n"))
    assert "signed by another key" in answer.stderr
    evidence(lab.apply(repository_plan(lab)))


def test_a_driver_that_pulls_another_kernel_is_refused(lab: HostLab) -> None:
    answer = lab.apply(repository_plan(lab, more=f"Depends: linux-image-{NEWER}\n"))
    assert f"Depends: linux-image-{NEWER}" in answer.stderr
    assert "kernels are held during the installation" in answer.stderr
    assert NEWER not in lab.sh(lab.plan("gpu01"), "ls /boot; true")


REFUSALS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "lock": (
        ("package-lock", "4242 (unattended-upgr)"),
        "the package lock is held by process 4242 (unattended-upgr)",
        "fault:package-lock off",
    ),
    "disk": (
        ("disk-full", "/", "on"),
        "there is no room for the RDMA driver: / has 0 MiB free and 2048 MiB are needed",
        "fault:disk-full / off",
    ),
    "half": (
        ("half-installed", "linux-firmware"),
        "packages of this host are half installed: linux-firmware",
        "dpkg --configure -a",
    ),
    "secure-boot": (
        ("secure-boot", "on"),
        "Secure Boot is on, and no key that signs modules on this host is enrolled",
        "fault:secure-boot enrolled",
    ),
}
"""What stands in the way, what is said of it, and the repair."""


@pytest.mark.parametrize("case", sorted(REFUSALS))
def test_what_stands_in_the_way_is_told_before_and_a_rerun_converges(
    lab: HostLab, case: str
) -> None:
    fault, words, repair = REFUSALS[case]
    plan = doca_plan(lab)
    lab.fault("gpu01", *fault)
    answer = lab.apply(plan)
    assert answer.exit_status != 0
    assert words in answer.stderr
    assert "changed before this:" in answer.stderr
    assert lab.sh(plan, "command -v ofed_info || echo none") == "none\n"
    recorded = lab.sh(plan, f"cat /var/lib/railyard/{lab.stack}/baseline")
    assert "driver.kind=inbox\n" in recorded
    if repair.startswith("fault:"):
        lab.fault("gpu01", *shlex.split(repair.removeprefix("fault:")))
    else:
        lab.sh(plan, repair)
    assert evidence(lab.apply(plan))["changed"] != []
    assert lab.drift(plan) == ()


def test_an_installation_that_was_cut_off_is_drift_until_it_is_finished(lab: HostLab) -> None:
    plan = doca_plan(lab)
    evidence(lab.apply(plan))
    lab.fault("gpu01", "half-installed", "mlnx-ofed-kernel-dkms")
    assert driver_of(lab, plan)["modules"] == "unfinished:mlnx-ofed-kernel-dkms"
    assert "are half installed: mlnx-ofed-kernel-dkms. Finish them" in lab.apply(plan).stderr
    lab.sh(plan, "dpkg --configure -a")
    assert evidence(lab.apply(plan))["changed"] == []


def test_missing_headers_are_named_with_the_line_that_brings_them(lab: HostLab) -> None:
    plan = doca_plan(lab)
    lab.sh(plan, f"apt-get -y remove {HEADERS}")
    answer = lab.apply(plan)
    assert answer.exit_status != 0
    assert f"apt-get install {HEADERS}, then run again; nothing was installed" in answer.stderr
    lab.sh(plan, f"apt-get -y install {HEADERS}")
    evidence(lab.apply(plan))


def test_a_package_for_another_system_is_refused(lab: HostLab) -> None:
    path = "/opt/mirror/MLNX_OFED_LINUX-5.4-1.0.3.0-ubuntu20.04-x86_64.tgz"
    sha = put(lab, lab.plan("gpu01"), path, mlnx_tgz("MLNX_OFED_LINUX-5.4-1.0.3.0"))
    package = DriverPackage(kind="mlnx_ofed", version="5.4-1.0.3.0", source=path, sha256=sha)
    answer = lab.apply(plan_with(lab, package))
    assert answer.exit_status != 0
    assert "is for ubuntu20.04, and this host runs ubuntu 22.04" in answer.stderr


def test_modules_are_built_again_for_a_newer_kernel(lab: HostLab) -> None:
    plan = doca_plan(lab)
    evidence(lab.apply(plan))
    lab.fault("gpu01", "kernel-upgrade", NEWER)
    assert [str(each) for each in lab.drift(plan)] == [
        f"modules of driver is missing:{NEWER}, want built"
    ]
    refused = lab.apply(plan)
    assert f"the headers of kernel {NEWER} are missing" in refused.stderr
    lab.sh(plan, f"apt-get -y install {NEWER_HEADERS}")
    assert evidence(lab.apply(plan))["changed"] == ["driver.modules"]
    lab.ask(op="reboot", device="gpu01")
    assert lab.sh(plan, "uname -r") == f"{NEWER}\n"
    assert lab.drift(plan) == ()


def test_a_host_that_booted_without_its_driver_gets_it_back(lab: HostLab) -> None:
    plan = doca_plan(lab)
    evidence(lab.apply(plan))
    lab.fault("gpu01", "kernel-upgrade", NEWER)
    lab.ask(op="reboot", device="gpu01")
    lab.sh(plan, f"apt-get -y install {NEWER_HEADERS}")
    assert "missing" in driver_of(lab, plan)["modules"]
    assert evidence(lab.apply(plan))["reboot_required"] is False
    assert lab.drift(plan) == ()


def test_modules_in_use_wait_for_a_reboot(lab: HostLab) -> None:
    plan = doca_plan(lab)
    lab.fault("gpu01", "module-loaded", "nvme_rdma")
    done = evidence(lab.apply(plan))
    assert done["reboot_required"] is True
    assert done["driver"] == "loaded and using the old RDMA modules: nvme_rdma"
    assert driver_of(lab, plan)["loaded"] == "other"
    again = evidence(lab.apply(plan))
    assert again["reboot_required"] is True
    lab.ask(op="reboot", device="gpu01")
    assert lab.drift(plan) == ()
    assert evidence(lab.apply(plan))["reboot_required"] is False


def test_unsigned_modules_are_seen_when_secure_boot_is_switched_on(lab: HostLab) -> None:
    plan = doca_plan(lab)
    evidence(lab.apply(plan))
    lab.fault("gpu01", "secure-boot", "on")
    assert driver_of(lab, plan)["modules"] == f"unsigned:{KERNEL}"
    assert f"modules for {KERNEL} have no signature and Secure Boot is" in lab.apply(plan).stderr


def test_modules_of_a_key_that_is_not_enrolled_are_seen(lab: HostLab) -> None:
    lab.fault("gpu01", "secure-boot", "enrolled")
    plan = doca_plan(lab)
    assert evidence(lab.apply(plan))["reboot_required"] is False
    lab.fault("gpu01", "secure-boot", "on")
    assert driver_of(lab, plan)["modules"] == f"untrusted:{KERNEL}"
    assert "signed by 'Secure Boot Module Signature key', which is" in lab.apply(plan).stderr


def gpu_plan(lab: HostLab, **defaults: object) -> HostPlan:
    """The plan of what GPUDirect needs alone."""
    update = lab.spec.host_defaults.model_copy(update=defaults)
    plan = lab.plan("gpu01", lab.spec.model_copy(update={"host_defaults": update}))
    step = plan.converge
    keys = ("driver.gpu", "driver.dma", "module.nv")
    values = {k: v for k, v in plan.desired.values.items() if k.startswith(keys)}
    text = f"stack={lab.stack}\n{HostState(values).render()}"
    return replace(plan, desired=HostState(values), steps=(replace(step, desired=text),))


def test_a_gpu_driver_of_the_host_is_verified_and_never_installed(lab: HostLab) -> None:
    plan = gpu_plan(lab, gpu_direct="dma_buf", gpu_driver_version="580.126.20")
    refused = lab.apply(plan)
    assert "the GPU kernel modules are proprietary, and DMA-BUF needs the open" in refused.stderr
    lab.fault("gpu01", "gpu-driver", "570.1", "open")
    refused = lab.apply(plan)
    assert "the GPU driver of this host is 570.1, want 580.126.20" in refused.stderr
    lab.fault("gpu01", "gpu-driver", "580.126.20", "open")
    assert evidence(lab.apply(plan))["changed"] == []
    assert lab.drift(plan) == ()


def test_the_operators_driver_stands_beside_no_other(lab: HostLab) -> None:
    plan = gpu_plan(lab, gpu_driver="operator")
    refused = lab.apply(plan)
    assert "the GPU operator would load another one" in refused.stderr
    lab.fault("gpu01", "gpu-driver", "none", "open")
    assert evidence(lab.apply(plan))["changed"] == []


def test_the_module_of_the_old_guides_is_refused_with_its_successor(lab: HostLab) -> None:
    plan = gpu_plan(lab, gpu_direct="nv_peer_mem")
    refused = lab.apply(plan)
    assert refused.exit_status != 0
    assert "580.126.20 of this host brings nvidia_peermem, which took the place" in refused.stderr


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (("disk-full", "/", "half"), "disk-full takes a folder and on or off"),
        (("secure-boot", "maybe"), "secure-boot is on, off or enrolled"),
        (("kernel-upgrade", "new"), "'new' is no kernel release"),
        (("gpu-driver", "1", "closed"), "are open or proprietary, not 'closed'"),
    ],
)
def test_a_fault_of_the_drivers_that_cannot_be(
    lab: HostLab, fault: tuple[str, ...], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        lab.fault("gpu01", *fault)
