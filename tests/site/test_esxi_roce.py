"""The ESXi site: from nothing to a proof, a hand on every layer, a killed engine, and back."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil
import pytest
import yaml

from components.checks.site import load_checked_site
from components.plan.make import make_plan
from tests.lab.test_site import differing
from tests.over_ssh.host_lab import PACKAGE_PATHS
from tests.site.conftest import END_DEADLINE_S, play_example
from tests.site.leftovers import POLL_S
from tests.site.playground import COMMAND_DEADLINE_S, PROJECT, Done, Playground

pytestmark = pytest.mark.story
EXAMPLE: Final = "esxi-roce"
PROBES: Final = (
    "mpi-hosts",
    "mpi-gpus",
    "perftest-rail-0-vm01-vm02",
    "nccl-all-reduce",
    "resnet50",
)
PROVEN_AGAIN: Final = {"acceptance-evidence": "update", "acceptance-gate": "update"}
DOCKER_STATE: Final = "var/lib/docker/railyard-lab.json"
CARD: Final = "0000:0b:00.0"


@pytest.fixture(scope="module")
def esxi(mark: str) -> Generator[Playground]:
    """The lab of the example, before anything was ever applied to it."""
    with play_example(mark, EXAMPLE) as site:
        yield site


@pytest.fixture(scope="module")
def cold(esxi: Playground) -> Done:
    """What the very first `make up` said."""
    done = esxi.up()
    done.must()
    return done


@pytest.fixture
def standing(esxi: Playground, cold: Done) -> Playground:
    """The site with a good update behind it; a test leaves it as it found it."""
    del cold
    if not esxi.resources():
        esxi.up().must()
    return esxi


def edited(site: Playground, folder: Path, pattern: str, replacement: str) -> Path:
    """A copy of the stack's configuration and its site, the pattern's first match replaced."""
    assert site.config is not None
    written = site.config.with_name("site.yaml").read_text()
    text, count = re.subn(pattern, replacement, written, count=1, flags=re.DOTALL)
    assert count == 1
    document = yaml.safe_load(site.config.read_text())
    del document["config"]["railyard:site"]
    document["config"]["railyard:cluster"] = yaml.safe_load(text)
    copy = folder / site.config.name
    copy.write_text(yaml.safe_dump(document, sort_keys=False))
    return copy


@contextmanager
def door(site: Playground, host: str, fault: str) -> Generator[None]:
    """A hypervisor whose door is shut meanwhile."""
    site.fault(host, fault, "on")
    try:
        yield
    finally:
        site.fault(host, fault, "off")


def settings(site: Playground) -> object:
    """The snapshot without what Docker writes at each start of a container and at each boot.

    Of a `.vmx` its lines count, and not their order: a key that was gone is added at the end.
    """
    document = json.loads(site.snapshot())["snapshot"]
    for host in document["hosts"].values():
        host["files"].pop(DOCKER_STATE, None)
    for hypervisor in document["hypervisors"].values():
        files = hypervisor["files"]
        for path in [path for path in files if path.endswith((".vmx", ".before"))]:
            del files[path]
        for vm in hypervisor["vms"].values():
            vm["vmx"].sort()
    return document


def without_packages(snapshot: str) -> object:
    """A snapshot without the files of packages, which an undo leaves."""
    document = json.loads(snapshot)["snapshot"]
    for host in document["hosts"].values():
        files = host["files"]
        for path in [path for path in files if path.startswith(PACKAGE_PATHS)]:
            del files[path]
    return document


def marks(site: Playground, host: str) -> list[Path]:
    """The marks of begun reboots on a hypervisor's datastores."""
    return [*(site.lab / "hypervisors" / host).rglob(f"railyard/{EXAMPLE}/reboot")]


def test_make_up_proves_the_path_and_then_is_quiet(cold: Done, standing: Playground) -> None:
    for probe in PROBES:
        assert re.search(rf"^PASSED +{probe} ", cold.text, re.MULTILINE), cold.text
    assert "acceptance passed" in cold.text

    assert "nothing changed" in standing.up().must()
    assert not [host for host in ("esx01", "esx02", "esx03", "esx04") if marks(standing, host)]
    # The switch, four hypervisors, and of four guests the host, its ATS and its container.
    assert standing.railyard("drift", EXAMPLE).must().count("no drift") == 1 + 4 + 4 * 3


def test_a_closed_door_and_a_device_that_is_not_there(standing: Playground, tmp_path: Path) -> None:
    left = settings(standing)
    smaller = edited(standing, tmp_path, r"(name: vm03\n.*?mmio_gib: )128", r"\g<1>64")
    for fault, words in (("lockdown", "lockdown mode"), ("ssh-refused", "TSM-SSH")):
        with door(standing, "esx03", fault):
            unchanged = standing.preview()
            assert unchanged.quiet
            assert any("esx03: not observed: " in t and words in t for t in unchanged.messages)
            refused = standing.preview(smaller).done.refused()
            assert "unreachable: esx03" in refused
            assert "Nothing was changed on any device" in refused

    absent = edited(standing, tmp_path, r"(name: vm01\n *gpu: )0000:3b:00.0", r"\g<1>0000:99:00.0")
    failed = standing.pulumi(
        "up", "--yes", "--skip-preview", "--config-file", str(absent)
    ).refused()
    assert "0000:99:00.0" in failed
    assert "0000:3b:00.0 NVIDIA Corporation" in failed
    assert differing(settings(standing), left) == []
    assert standing.preview().quiet


def test_a_hand_on_every_layer(standing: Playground) -> None:
    left = settings(standing)
    faults = (
        ("leaf-01", "mtu", "1/1", "1500"),
        ("esx01", "kernel", "atsSupport", "FALSE"),
        ("vm01", "address-lost", "ens224"),
        ("vm02", "qos-lost"),
        ("vm04", "module-lost", "nvidia_peermem"),
        ("vm04", "firmware", "ens224", "ATS_ENABLED", "0"),
        ("vm01", "container-removed", "mpicont"),
        ("vm04", "file-changed", "/home/nvidia/.ssh/id_ed25519_host", "another"),
    )
    for device, *change in faults:
        standing.fault(device, *change)
    report = standing.railyard("drift", EXAMPLE).must(3)
    for words in (
        "mtu_bytes of port 1/1 is 1500, want 9216",
        "configured of kernel.atsSupport is FALSE, want TRUE",
        f"address of nic {CARD} is ",
        f"trust of nic {CARD} is pcp, want dscp",
        "nvidia_peermem of module is absent, want loaded",
        f"ats of nic {CARD} is ",
        "state of container is absent, want running",
        "host of key is another key, want 600 nvidia",
    ):
        assert words in report
    assert "unreachable" not in report

    # Two more that take a guest down, and so hide it.
    standing.fault("esx02", "vmx", "vm02", "pciPassthru.allowP2P", "unset")
    standing.fault("esx03", "vm-power", "vm03", "off")
    standing.fault("esx03", "maintenance", "on")
    preview = standing.preview()
    assert preview.done.code == 0
    said = preview.done.text
    assert "esx02: drift: allowP2P of vm.vm02.vmx.pciPassthru is absent, want TRUE" in said
    assert "esx03: drift: power of vm.vm03 is off, want on" in said
    assert "esx03: drift: maintenance of host is Enabled, want Disabled" in said
    assert "vm03: not observed" in said
    repaired = {
        name
        for name in preview.changes
        # A reboot step looks again whenever what it serves was set again.
        if not name.startswith("reboots-") and not name.endswith("-reboot")
    }
    assert repaired == {
        "leaf-01-apply",
        "esx01-hypervisor",
        "esx02-hypervisor",
        "esx03-hypervisor",
        "vm01-host",
        "vm02-host",
        "vm04-host",
        "vm01-container",
        "vm04-container",
        *PROVEN_AGAIN,
    }
    assert standing.railyard("drift", EXAMPLE).must(4)

    done = standing.up().must()
    assert "acceptance passed" in done
    assert differing(settings(standing), left) == []
    assert standing.preview().quiet


def test_an_engine_killed_in_the_middle_of_a_reboot(standing: Playground, tmp_path: Path) -> None:
    left = settings(standing)
    standing.fault("esx02", "kernel", "atsSupport", "FALSE")
    standing.railyard("lab", "reboot", "--stack", EXAMPLE, "esx02").must()
    drifted = settings(standing)
    denied = edited(standing, tmp_path, "reboots: allow", "reboots: deny")
    refused = standing.preview(denied).done.refused()
    assert "esx02 would be rebooted: kernel.atsSupport.runtime is FALSE, want TRUE" in refused
    assert "disruption.reboots = deny" in refused
    assert differing(settings(standing), drifted) == []

    _kill_once_begun(standing, "esx02")
    assert marks(standing, "esx02")
    again = standing.up().must()
    assert "recovered: " in again
    assert not (PROJECT / f"Pulumi.{EXAMPLE}.yaml").exists(), "its configuration is the lab's"
    assert "acceptance passed" in again
    assert not marks(standing, "esx02")
    assert not standing.strays()
    assert differing(settings(standing), left) == []
    assert standing.preview().quiet


def _kill_once_begun(site: Playground, host: str) -> None:
    """Kill the engine when the mark of a hypervisor's reboot is there."""
    with subprocess.Popen(
        site.command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as child:
        deadline = time.monotonic() + COMMAND_DEADLINE_S
        while not marks(site, host):
            assert child.poll() is None, f"make up ended before: {child.communicate()[0]}"
            assert time.monotonic() < deadline, "make up never came to the reboot"
            time.sleep(POLL_S)
        below = psutil.Process(child.pid).children()
        next(process for process in below if process.name() == "pulumi").kill()
        text, _ = child.communicate(timeout=COMMAND_DEADLINE_S)
    Done(child.returncode, text).must(1)
    deadline = time.monotonic() + END_DEADLINE_S
    while (strays := site.strays()) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    assert not strays, f"these outlived the engine: {strays}"


def test_destroy_puts_every_device_back(standing: Playground) -> None:
    standing.pulumi("destroy", "--yes", "--skip-preview").must()
    assert differing(without_packages(standing.snapshot()), without_packages(standing.before)) == []
    assert not standing.resources()
    assert not standing.strays()


def test_kubernetes_is_one_changed_block() -> None:
    folder = PROJECT / "examples" / EXAMPLE
    ours = yaml.safe_load((folder / "site.yaml").read_text())
    other = yaml.safe_load((folder / "with-kubernetes.yaml").read_text())
    differing = {key for key in ours | other if ours.get(key) != other.get(key)}
    assert differing == {
        "containers",
        "kubernetes",
        "operators",  # the device plugin of the cluster
        "pod_network",
        "jobs",  # MPI jobs instead of mpirun
        "hosts",  # one more, for the control plane
        "acceptance",  # ResNet-50 runs in the containers
    }
    assert [host for host in other["hosts"] if host not in ours["hosts"]] == [
        host for host in other["hosts"] if host["role"] == "control_plane"
    ]
    assert [host for host in other["hosts"] if host["role"] == "worker"] == ours["hosts"]
    del ours["acceptance"]["resnet50"]
    assert other["acceptance"] == ours["acceptance"]

    spec = load_checked_site(folder / "with-kubernetes.yaml").spec_or_raise()
    plan = make_plan(spec, EXAMPLE)
    assert plan.payload is None
    assert plan.kubernetes is not None
    assert len(plan.hypervisors) == len(ours["environment"]["hypervisors"])
