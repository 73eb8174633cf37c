"""What a site can lack, each set wrong by itself, and what preflight then finds: by cause.

The facts are literal lines of `components/preflight/scripts/host.sh`, whose own reading of hosts is
tested over real SSH (`tests/over_ssh/test_preflight.py`) and with the real curl (`test_sources`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from components.artefacts.listing import Artefact
from components.artefacts.lock import Lock
from components.artefacts.pin import Reach
from components.catalogue.cluster_parts import CniPaths
from components.checks.site import load_checked_site
from components.core.key_values import HostState
from components.core.problem import Finding
from components.drift.device_drift import Unreachable
from components.fabric.parts import Identity
from components.hosts.host_plan import plan_hosts
from components.hosts.preview import judge_gpus, judge_settings
from components.hypervisor.hypervisor_plan import plan_hypervisors
from components.model.infiniband import Ufm
from components.model.units import SecretRef
from components.plan.make import make_plan
from components.preflight.artefacts import judge_pins, look_at_store, look_here
from components.preflight.judge import (
    HostAnswers,
    judge_files,
    judge_host,
    judge_hypervisor,
    judge_session,
    judge_switch,
    judge_ufm,
)
from components.preflight.wants import HostWants, wants_of
from components.project.engine import Engine, Plugin, judge_engine, judge_lab_parts
from tests.acceptance.stores import OTHER, spec_of
from tests.golden.site import EXAMPLES, load_example
from tests.graph.locked import lock_of

ROCE: Final = load_example("dgx-roce")
ESXI: Final = load_example("esxi-roce")
LOCK: Final = lock_of(ROCE)
WANTS: Final = wants_of(ROCE, make_plan(ROCE, "site", LOCK), LOCK)
SPRAY: Final = load_checked_site(EXAMPLES / "dgx-roce" / "kubespray.yaml").spec_or_raise()
SPRAYED: Final = wants_of(SPRAY, make_plan(SPRAY, "site", LOCK), LOCK)
HA: Final = load_checked_site(EXAMPLES / "dgx-roce" / "k3s-ha.yaml").spec_or_raise()
BALANCED: Final = wants_of(HA, make_plan(HA, "site", LOCK), LOCK)
LARGE: Final = {
    name: replace(each, pod_mtu_bytes=1480, pod_overhead_bytes=50) for name, each in SPRAYED.items()
}
"""The same, whose pods have an MTU for a network without encapsulation."""
BUILDING: Final = {name: replace(each, driver_room=True) for name, each in WANTS.items()}
UFM: Final = Ufm(
    address="192.168.1.30", password=SecretRef(secret="ufm_password"), certificate_sha256="0" * 64
)
LOCAL_CHART: Final = Artefact(
    "gpu-operator", "chart", "charts/none", "v1.0.0", "here", ("operators", "gpu", "chart", "chart")
)
NOW_S: Final = 1_790_000_000.0
GOOD: Final = {
    "time": "1790000000",
    "kernel": "5.15.0-113-generic",
    "cgroup": "v2",
    "python": "3.10",
    "disk./": "419430400",
    "disk./var/lib": "419430400",
    "gpu_driver": "580.126.20",
    "gpu_loaded": "yes",
    "packages": "apt-get",
    "tool.flock": "yes",
    "tool.mlnx_qos": "yes",
    "tool.dcb": "yes",
    "tool.ethtool": "yes",
    "tool.setpci": "yes",
    "tool.curl": "yes",
    "tool.nvidia-container-runtime": "yes",
    "module.rdma_cm": "there",
    "module.nvidia_peermem": "there",
    "name.gpu01": "127.0.1.1",
    "port.10250": "free",
    "peer.192.168.1.10:6443": "answers",
    "sum.k3s": LOCK.entries["file", "k3s"].sha256,
    "sum.k3s-install-script": LOCK.entries["file", "k3s-install-script"].sha256,
    "image.image-jobs": "200",
    "end": "yes",
}
"""A worker of the example as it should be."""


def host(
    changes: Mapping[str, str],
    device: str = "gpu01",
    wants: Mapping[str, HostWants] = WANTS,
) -> tuple[Finding, ...]:
    """The example's worker with some facts otherwise; an empty one is no line."""
    facts = {key: value for key, value in {**GOOD, **changes}.items() if value}
    return judge_host(wants[device], HostAnswers(facts, NOW_S, NOW_S + 1))


def foreign(cni: str) -> tuple[Finding, ...]:
    """A node of a cluster that is there, as it answers where its network plugin is."""
    wants = HostWants("gpu01", cni=CniPaths("/etc/cni/net.d", "/opt/cni/bin"))
    return judge_host(wants, HostAnswers({**GOOD, "cni": cni}, NOW_S, NOW_S + 1))


def files(changes: Mapping[str, str]) -> tuple[Finding, ...]:
    """The example's worker, on which other files set up its cards and names."""
    plan = next(each for each in plan_hosts(ROCE) if each.name == "gpu01")
    return tuple(judge_files(plan, {**GOOD, **changes}))


def settings(key: str, value: str, wanted: Mapping[str, str] | None = None) -> tuple[Finding, ...]:
    """The example's worker as planned, but for one setting."""
    plan = next(each for each in plan_hosts(ROCE) if each.name == "gpu01")
    desired = HostState({**plan.desired.values, **(wanted or {})})
    return judge_settings(replace(plan, desired=desired), {**desired.values, key: value})


def esxi(key: str, value: str) -> tuple[Finding, ...]:
    plan = plan_hypervisors(ESXI)[0]
    return tuple(judge_hypervisor(plan, {**plan.desired.values, key: value}))


def session(reason: str, *, stranger: bool = False) -> tuple[Finding, ...]:
    return (judge_session("gpu01", Unreachable(reason, stranger)),)


WHOLE: Final = Engine(
    wanted="3.250.0",
    program=Path("/usr/bin/pulumi"),
    version="3.250.0",
    language=Path("/usr/bin/pulumi-language-python"),
    plugins=(
        Plugin("command", "1.2.1", Path("/usr/bin/pulumi-resource-command")),
        Plugin("kubernetes", "4.34.2", Path("/usr/bin/pulumi-resource-kubernetes")),
    ),
    backend="s3://ours",
)
"""An engine that lacks nothing."""


def switch(
    release: str = "3.9.2504", model: str = "MSN2700-CS2F", rights: str = ""
) -> tuple[Finding, ...]:
    return tuple(judge_switch(ROCE.switches[0], Identity(release, model, rights)))


LACKS: Final[Mapping[str, Callable[[], tuple[Finding, ...]]]] = {
    "reach": lambda: session("gpu01 (root@10.0.0.1:22) is not reachable within 20 s: no answer"),
    "host-key": lambda: session("the host key is not the pinned one", stranger=True),
    "login": lambda: session("gpu01 (root@10.0.0.1:22) refuses the key of user root"),
    "login-key": lambda: session(
        "gpu01 (root@10.0.0.1:22): the secret opener does not open the private key key. Nothing was"
        " sent.\n  fix        correct one of the two"
    ),
    "sudo": lambda: session("gpu01 (nvidia@10.0.0.1:22) wants a password for sudo. Add as root"),
    "answer": lambda: session("gpu01 accepted the login, but did not finish within 60 s: check"),
    "clock": lambda: host({"time": "1789992800"}),
    "tool-mlnx_qos": lambda: host({"tool.mlnx_qos": "no", "tool.dcb": "no"}),
    "tool-ethtool": lambda: host({"tool.ethtool": "no"}),
    "tool-setpci": lambda: host({"tool.setpci": "no"}),
    "tool-flock": lambda: host({"tool.flock": "no"}),
    "tool-nvidia-container-runtime": lambda: host({"tool.nvidia-container-runtime": "no"}),
    "module-nvidia_peermem": lambda: host({"module.nvidia_peermem": "absent"}),
    "cgroup": lambda: host({"cgroup": "v1"}),
    "signature-nvidia": lambda: host({"refused.nvidia": "it has no signature", "gpu_loaded": ""}),
    "secure-boot": lambda: host({"secure_boot": "on"}, wants=BUILDING),
    "ipoib": lambda: host({"ipoib": "mlx5_0 mlx5_1"}),
    "cni-folders": lambda: foreign("no configuration in /etc/cni/net.d"),
    "swap": lambda: host({"swap": "2097152 /dev/sda2"}),
    "disk/var/lib": lambda: host({"disk./var/lib": "1048576"}),
    "pod-mtu": lambda: host({"node": "eno1 1500"}, wants=LARGE),
    "half-installed": lambda: host({"half_installed": "linux-firmware"}),
    "python": lambda: host({"python": "3.6"}, wants=SPRAYED),
    "package-db": lambda: host({"packages": "dnf", "package_db": "error: h#12 BAD"}),
    "package-lock": lambda: host({"lock": "process 4242 (unattended-upgr)"}),
    "gpu-driver": lambda: host({"gpu_driver": ""}),
    "gpu-driver-cuda": lambda: host({"gpu_driver": "525.147.05"}),
    "gpu-driver-loaded": lambda: host({"gpu_loaded": ""}),
    "own-name": lambda: host({"name.gpu01": "unknown"}),
    "port-10250": lambda: host({"port.10250": "used"}),
    "port-6443": lambda: host({"port.6443": "used"}, "mgmt01"),
    "peer-6443": lambda: host({"peer.192.168.1.10:6443": "no answer within 5 s"}),
    "artefact-k3s": lambda: host({"sum.k3s": "absent"}),
    "artefact-k3s-install-script": lambda: host({"sum.k3s-install-script": "1" * 64}),
    "image-jobs": lambda: host({"image.image-jobs": "401"}),
    "netdev": lambda: settings("nic.0000:05:00.0.netdev", "enp5s0np0"),
    "network-manager": lambda: settings("nic.0000:05:00.0.network_manager", "managed"),
    "network-manager-profile": lambda: settings(
        "nic.0000:05:00.0.network_manager", "managed, has the default route"
    ),
    "card-file": lambda: files({"files.0000:05:00.0": "/etc/netplan/50-cloud-init.yaml"}),
    "cloud-init-hosts": lambda: files(
        {"cloud.manage_etc_hosts": "/etc/cloud/cloud.cfg:manage_etc_hosts: template"}
    ),
    "cloud-init-hostname": lambda: files({"cloud.preserve_hostname": "unset"}),
    "eswitch": lambda: settings("nic.0000:05:00.0.eswitch_now", "switchdev"),
    "lldpad": lambda: settings("nic.0000:05:00.0.lldpad", "running"),
    "serial": lambda: settings(
        "nic.0000:05:00.0.serial", "MT1", {"nic.0000:05:00.0.serial": "MT2304XZ02VD"}
    ),
    "rdma-driver": lambda: settings("driver.present", "inbox 6.8.0-71-generic"),
    "gpu-driver-version": lambda: settings(
        "driver.gpu_host", "570.133.20", {"driver.gpu_host": "580.126.20"}
    ),
    "gpu-modules": lambda: settings(
        "driver.gpu_modules", "proprietary", {"driver.gpu_modules": "open"}
    ),
    "dma-buf": lambda: settings("driver.dma_buf", "old-kernel", {"driver.dma_buf": "ready"}),
    "gpus": lambda: judge_gpus("gpu01", 8, {"look.host.seen": "yes"}),
    "switch-release": lambda: switch(release="3.9.1014"),
    "switch-model": lambda: switch(model="SN3700"),
    "switch-rights": lambda: switch(rights="monitor"),
    "ufm-release": lambda: (*judge_ufm(UFM, Identity(release="6.12.0")),),
    "ufm-rights": lambda: (*judge_ufm(UFM, Identity("6.19.3", rights="Monitoring_Only")),),
    "esxi-release": lambda: esxi("release", "7.0U3"),
    "esxi-pci": lambda: esxi("pci.0000:3b:00.0.current_owner", "absent"),
    "esxi-vm": lambda: esxi("vm.vm01.power", "absent"),
    "ats-support": lambda: esxi("kernel.atsSupport.configured", "absent"),
    "unpinned": lambda: judge_pins(ROCE, Lock(), lab=False),
    "chart-gpu": lambda: look_here(Reach(ROCE, {}), LOCAL_CHART, LOCK, Path("/nowhere")),
    "evidence-store": lambda: look_at_store(
        spec_of("/dev/null"), "dev", {"evidence_key": OTHER.secret}
    ),
    "pulumi": lambda: tuple(judge_engine(replace(WHOLE, version="3.100.0"))),
    "language": lambda: tuple(judge_engine(replace(WHOLE, language=None))),
    "plugin-command": lambda: tuple(
        judge_engine(replace(WHOLE, plugins=(Plugin("command", "1.2.1", None),)))
    ),
    "backend": lambda: tuple(judge_engine(replace(WHOLE, backend=""))),
    "lab-passphrase": lambda: tuple(
        judge_lab_parts(WHOLE, {"PULUMI_CONFIG_PASSPHRASE": "railyard-lab"})
    ),
}
"""Cause to the look in which exactly that is wrong."""
