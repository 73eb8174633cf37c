"""`railyard preflight` against emulated hosts over real SSH: all lacks at once, nothing moved."""

from __future__ import annotations

import socket
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from components.artefacts.lock import Lock
from components.checks.site import check_site
from components.core.problem import Finding
from components.core.record import record
from components.drift.applied import Applied
from components.model.cards import DriverPackage
from components.model.cluster import ClusterSpec
from components.model.kubernetes import K3sSource
from components.plan.make import make_plan
from components.preflight.run import run_preflight
from lab.keys import client_key
from tests.over_ssh.host_lab import HostLab, running_hosts
from tests.preflight.played import PLAYED

pytestmark = pytest.mark.lab
STACK = "preflight-over-ssh"
IMAGES = (*("jobs", "multus", "whereabouts", "sriov-cni", "sriov-device-plugin", "mpi-operator"),)
UNPLAYED = {
    *(("gpu01", f"image-{each}") for each in IMAGES),
    ("gpu01", "name-ghcr.io"),
    ("gpu01", "name-registry-1.docker.io"),
    ("this machine", "chart-images"),
}
"""Neither a registry, nor the internet, nor a lock is in this lab."""
Edit = Callable[[ClusterSpec], ClusterSpec]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[HostLab]:
    """A lab of its own for each test, since much is broken in it."""
    with running_hosts(STACK, tmp_path / "lab") as running:
        yield running
        unmodelled = running.ask(op="unmodelled")["unmodelled"]
    assert unmodelled == {"mgmt01": [], "gpu01": [], "gpu02": []}


def look(spec: ClusterSpec) -> tuple[Finding, ...]:
    """One preflight of the lab's hosts."""
    site = spec.model_copy(update={"switches": ()})
    key = client_key(STACK).private_openssh
    names = ("k3s_token", "k3s_agent_token", "switch_password")
    secrets = {"ssh_private_key": key, **dict.fromkeys(names, "x")}
    return run_preflight(site, make_plan(site, STACK), secrets, Applied(), Path(), Lock()).findings


def with_host(spec: ClusterSpec, name: str, **changes: object) -> ClusterSpec:
    hosts = tuple(
        host.model_copy(update=changes) if host.name == name else host for host in spec.hosts
    )
    return spec.model_copy(update={"hosts": hosts})


def with_ssh(spec: ClusterSpec, name: str, **changes: object) -> ClusterSpec:
    host = next(host for host in spec.hosts if host.name == name)
    return with_host(spec, name, ssh=host.way.model_copy(update=changes))


def with_nic(spec: ClusterSpec, name: str, **changes: object) -> ClusterSpec:
    host = next(host for host in spec.hosts if host.name == name)
    first, *rest = host.nics
    return with_host(spec, name, nics=(first.model_copy(update=changes), *rest))


def with_defaults(spec: ClusterSpec, **changes: object) -> ClusterSpec:
    defaults = spec.host_defaults.model_copy(update=changes)
    return spec.model_copy(update={"host_defaults": defaults})


@contextmanager
def listening(address: str, port: int) -> Generator[None]:
    """A program of another that has a port of the node."""
    with socket.create_server((address, port)):
        yield


@contextmanager
def silent(address: str, port: int) -> Generator[None]:
    """A port that takes no connection and refuses none, as behind a firewall that drops.

    Its backlog is full, and what Linux then gets is dropped.
    """
    with socket.create_server((address, port), backlog=0), socket.socket() as first:
        first.connect((address, port))
        yield


@record
class Lacking:
    """A lab in which much is wrong at once, and what one look must say of each host."""

    faults: Sequence[tuple[str, ...]]
    """Host, and the fault's words."""
    by_hand: Sequence[tuple[str, str]]
    """Host, and what a person does there as root."""
    edit: Edit
    """What the file says wrong."""
    found: dict[tuple[str, str], str]
    """Host and cause to a part of the value that is shown."""
    taken: Sequence[tuple[str, int]] = ()
    """Host, and a port that another program has there."""
    dropped: Sequence[tuple[str, int]] = ()
    """Host, and a port that a firewall drops what comes to."""


def _wrong_about_much(spec: ClusterSpec) -> ClusterSpec:
    assert spec.k3s is not None
    source = K3sSource(
        binary="/opt/none/k3s",
        binary_sha256="1" * 64,
        install_script="/opt/install.sh",
        install_script_sha256="1" * 64,
    )
    plane = spec.k3s.model_copy(update={"source": source})
    spec = spec.model_copy(update={"kubernetes": plane})
    spec = with_host(spec, "gpu01", gpus=4)
    spec = with_nic(spec, "gpu01", netdev="enp5s0np0", serial="MT0000X00000")
    return with_defaults(spec, gpu_driver_version="590.48.01")


MUCH = Lacking(
    faults=(
        ("gpu01", "cgroup", "v1"),
        ("gpu01", "swap", "2048"),
        ("gpu01", "clock", "-7200"),
        ("gpu02", "clock", "10800"),
        ("gpu01", "package-lock", "4242 (unattended-upgr)"),
        ("gpu01", "disk-full", "/var", "on"),
        ("gpu01", "gpu-driver", "none", "open"),
        ("gpu01", "lldpad", "on"),
        ("gpu02", "module-lost", "nvidia"),
        ("gpu01", "secure-boot", "on"),
        ("gpu02", "selinux", "on"),
        ("mgmt01", "secure-boot", "on"),
    ),
    by_hand=(
        ("gpu02", "devlink dev eswitch set pci/0000:84:00.0 mode switchdev"),
        ("gpu02", "apt-get remove -y ethtool pciutils nvidia-container-toolkit"),
        ("gpu02", "ofed_uninstall.sh --force"),
        ("gpu02", "sed -i /gpu02/d /etc/hosts"),
        ("gpu01", "echo another >/opt/install.sh"),
    ),
    edit=_wrong_about_much,
    taken=(("gpu02", 10250),),
    dropped=(("mgmt01", 6443),),
    found={
        ("gpu01", "cgroup"): "cgroup v1",
        ("gpu01", "swap"): "2048 MiB on /dev/sda2",
        ("gpu01", "clock"): "2.0 h behind this machine",
        ("gpu02", "clock"): "3.0 h ahead of this machine",
        ("gpu01", "package-lock"): "process 4242 (unattended-upgr)",
        ("gpu01", "disk/var/lib"): "0 MiB free",
        ("gpu01", "gpu-driver"): "none",
        ("gpu01", "gpu-driver-version"): "absent",
        ("gpu01", "module-nvidia_peermem"): "none for 5.15",
        ("gpu01", "lldpad"): "running",
        ("gpu01", "netdev"): "enp5s0",
        ("gpu01", "gpus"): "8",
        **{(host, "artefact-k3s"): "absent" for host in ("mgmt01", "gpu01", "gpu02")},
        # sha256sum of `another` and a line feed.
        ("gpu01", "artefact-k3s-install-script"): "33a7b215065f2ee8",
        **{(host, "artefact-k3s-install-script"): "absent" for host in ("mgmt01", "gpu02")},
        ("gpu01", "peer-6443"): "no answer within 5 s",
        ("gpu02", "peer-6443"): "no answer within 5 s",
        ("mgmt01", "port-6443"): "in use",
        ("gpu02", "port-10250"): "in use",
        ("gpu01", "signature-mlx5_core"): "it has no signature",
        ("gpu02", "selinux"): "no /usr/share/selinux/packages/k3s.pp",
        ("gpu02", "gpu-driver-loaded"): "580.126.20, not loaded",
        ("gpu02", "gpu-driver-version"): "580.126.20",
        ("gpu02", "rdma-driver"): "inbox",
        ("gpu02", "eswitch"): "switchdev",
        ("gpu01", "serial"): "MT2304X",
        ("gpu02", "own-name"): "unknown",
        ("gpu02", "tool-ethtool"): "not on PATH",
        ("gpu02", "tool-setpci"): "not on PATH",
        ("gpu02", "tool-nvidia-container-runtime"): "not on PATH",
    },
)


def _wrong_about_drivers(spec: ClusterSpec) -> ClusterSpec:
    driver = DriverPackage(kind="present", flavour="ofed", at_least="23.10-2.1.3.1")
    return with_defaults(spec, driver=driver, gpu_direct="dma_buf")


NO_WAY_IN = Lacking(
    faults=(
        ("mgmt01", "sudo-lost", "on"),
        ("gpu01", "ssh-refused", "on"),
        ("gpu02", "half-installed", "linux-firmware"),
        ("gpu02", "gpu-driver", "580.126.20", "proprietary"),
    ),
    by_hand=(),
    edit=_wrong_about_drivers,
    found={
        ("mgmt01", "sudo"): "wants a password for sudo",
        ("gpu01", "reach"): "is not reachable",
        ("gpu02", "half-installed"): "linux-firmware",
        ("gpu02", "gpu-modules"): "proprietary",
        ("gpu02", "rdma-driver"): "mlnx_ofed 23.10-1.1.9.0 too-old",
    },
)


def _wrong_about_logins(spec: ClusterSpec) -> ClusterSpec:
    strange = spec.hosts[2].way.host_key
    return with_ssh(with_ssh(spec, "gpu01", host_key=strange), "mgmt01", user="stranger")


STRANGERS = Lacking(
    faults=(),
    by_hand=(),
    edit=_wrong_about_logins,
    found={("mgmt01", "login"): "stranger", ("gpu01", "host-key"): ""},
)
PROFILE = "/etc/NetworkManager/system-connections/rail.nmconnection"
NETPLAN = r"network:\n  ethernets:\n    enp5s0: {dhcp4: true}\n"
OTHERS_SET_IT_UP = Lacking(
    faults=(("gpu01", "network-manager", "on"), ("gpu02", "network-manager", "on")),
    by_hand=(
        ("gpu01", "ip addr add 172.16.0.5/24 dev enp5s0"),
        ("gpu01", "mkdir /etc/network; echo '# enp5s0 is a rail' >/etc/network/interfaces"),
        ("gpu01", f"mkdir /etc/netplan; printf '{NETPLAN}' >/etc/netplan/50-cloud-init.yaml"),
        ("gpu02", "mkdir -p /etc/NetworkManager/system-connections /etc/cloud/cloud.cfg.d"),
        ("gpu02", f"echo mac-address=$(tr a-f A-F </sys/class/net/enp132s0/address) >{PROFILE}"),
        ("gpu02", r"printf 'preserve_hostname: false\n' >/etc/cloud/cloud.cfg"),
        ("gpu02", "echo 'manage_etc_hosts: true' >/etc/cloud/cloud.cfg.d/90_vendor.cfg"),
        ("mgmt01", "mkdir /etc/cloud; echo 'preserve_hostname: true' >/etc/cloud/cloud.cfg"),
    ),
    edit=lambda spec: spec,
    found={
        ("gpu01", "network-manager-profile"): "0000:05:00.0 managed, has 172.16.0.5/24",
        ("gpu01", "network-manager"): "0000:84:00.0",
        ("gpu02", "network-manager"): "0000:84:00.0",
        ("gpu01", "card-file"): "0000:05:00.0 in /etc/netplan/50-cloud-init.yaml",
        ("gpu02", "card-file"): f"0000:84:00.0 in {PROFILE}",
        (
            "gpu02",
            "cloud-init-hosts",
        ): "/etc/cloud/cloud.cfg.d/90_vendor.cfg:manage_etc_hosts: true",
        ("gpu02", "cloud-init-hostname"): "/etc/cloud/cloud.cfg:preserve_hostname: false",
    },
)
WORLDS = {
    "much": MUCH,
    "no-way-in": NO_WAY_IN,
    "strangers": STRANGERS,
    "others": OTHERS_SET_IT_UP,
}


def test_a_good_host_lacks_what_the_lab_lacks(lab: HostLab) -> None:
    before = lab.snapshot("gpu01")
    assert {(each.device, each.rule) for each in look(lab.spec)} == UNPLAYED
    assert lab.snapshot("gpu01") == before


@pytest.mark.parametrize("name", WORLDS)
def test_one_look_names_all_that_is_lacking_and_nothing_else(lab: HostLab, name: str) -> None:
    world = WORLDS[name]
    assert not [each for each in check_site(world.edit(lab.spec)) if each.severity == "error"]
    for host, script in world.by_hand:
        lab.sh(lab.plan(host), script)
    for host, *words in world.faults:
        lab.fault(host, *words)
    address = {host.name: host.address for host in lab.spec.hosts}
    before = {host: lab.snapshot(host) for host in address}
    with ExitStack() as ports:
        for host, port in world.taken:
            ports.enter_context(listening(address[host], port))
        for host, port in world.dropped:
            ports.enter_context(silent(address[host], port))
        found = look(world.edit(lab.spec))
    assert {host: lab.snapshot(host) for host in address} == before
    lacks = {(each.device, each.rule): each for each in found}
    assert lacks.keys() - UNPLAYED == world.found.keys()
    for key, shown in world.found.items():
        assert shown in lacks[key].actual, key
        assert lacks[key].what.endswith(".")
        assert lacks[key].fix


def test_these_are_the_causes_that_are_played_here() -> None:
    found = {cause for world in WORLDS.values() for _, cause in world.found}
    here = {cause for device, cause in UNPLAYED if device == "this machine"}
    assert found | here == PLAYED["tests/over_ssh/test_preflight.py"]
