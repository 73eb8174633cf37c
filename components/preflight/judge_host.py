"""Judge a host's answers and find what it lacks. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from components.catalogue.upstream import (
    K3S_SELINUX,
    PROBE_CUDA,
    PROBE_DRIVERS,
    PROBE_DRIVERS_SINCE,
)
from components.core.problem import Finding, Severity, on_device
from components.preflight.artefacts import LATER, judge_files, judge_images
from components.preflight.wants import DRIVER_ROOM_KIB, HostWants

CLOCK_WRONG_S: Final = 60.0
"""A server's certificates are valid from its own clock's time, so a node refuses them if its clock
is behind by more than a join takes. Kerberos and S3 allow 300 s, so this limit is stricter."""
CLOCK_OFF_S: Final = 1.0
"""etcd warns about clock differences from one second (rafthttp, `the clock difference`)."""
PYTHON_FROM: Final = (3, 8)
"""The oldest Python of a managed node for ansible-core 2.18 and 2.19 (its support matrix);
kubespray v2.31.0 uses 2.18."""
POD_ROOM: Final = 10 << 20
"""KiB in /var/lib, where K3s unpacks images; a guess, since some GPU images have 10 GB."""


@dataclass(frozen=True, slots=True)
class HostAnswers:
    """One host's answers, and their time."""

    facts: Mapping[str, str]
    asked_at_s: float
    """This machine's clock before the question, in seconds since 1970."""
    answered_at_s: float


@dataclass(frozen=True, slots=True)
class _Case:
    wants: HostWants
    answers: HostAnswers

    def fact(self, key: str) -> str:
        return self.answers.facts.get(key, "")

    @property
    def installer(self) -> str:
        return "dnf" if self.fact("packages") == "dnf" else "apt-get"

    def find(
        self,
        cause: str,
        what: str,
        actual: str,
        wanted: str,
        fix: str,
        severity: Severity = "error",
    ) -> Finding:
        return on_device(self.wants.device, cause, what, actual, wanted, fix).rated(severity)


def judge_host(wants: HostWants, answers: HostAnswers) -> tuple[Finding, ...]:
    """Return all findings for this host, in bring-up order."""
    case = _Case(wants, answers)
    return tuple(found for judge in _JUDGES for found in judge(case))


def _clock(case: _Case) -> Iterator[Finding]:
    text = case.fact("time")
    if not text.isdigit():
        return
    theirs, answers = float(text), case.answers
    # The host reports whole seconds, so one second does not count.
    ahead = theirs - answers.answered_at_s
    behind = answers.asked_at_s - (theirs + 1)
    off_s = max(ahead, behind, 0.0)
    if off_s <= CLOCK_OFF_S:
        return
    shown = f"{_duration(off_s)} {'ahead of' if ahead > behind else 'behind'} this machine"
    yield case.find(
        "clock",
        "the clock differs from this machine's, and certificates made here are not valid there.",
        shown,
        f"within {CLOCK_OFF_S:g} s",
        f"run a time service on both: {case.installer} install chrony, and `chronyc makestep`",
        "error" if off_s > CLOCK_WRONG_S else "warning",
    )


def _duration(seconds: float) -> str:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _tools(case: _Case) -> Iterator[Finding]:
    for tool in case.wants.tools:
        if all(case.fact(f"tool.{name}") == "no" for name in tool.names):
            names = " or ".join(tool.names)
            what = f"the host lacks {names}, which it needs to {tool.why}."
            yield case.find(f"tool-{tool.names[0]}", what, "not on PATH", names, tool.fix)


def _python(case: _Case) -> Iterator[Finding]:
    says = case.fact("python")
    if case.wants.ansible and _minor(says) < PYTHON_FROM:
        what = "the host lacks a Python for kubespray's Ansible modules."
        wanted = f"Python {PYTHON_FROM[0]}.{PYTHON_FROM[1]} or later"
        fix = "apt-get install python3, or on RHEL 8: dnf install python3.12"
        yield case.find("python", what, says or "none", wanted, fix)


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _modules(case: _Case) -> Iterator[Finding]:
    for name in case.wants.modules:
        if case.fact(f"module.{name}") == "absent":
            fix = "install the driver that brings it"
            if name == "nvidia_peermem":
                fix = "install a GPU driver of 470 or later, or set host_defaults.gpu_direct"
            what = f"the running kernel lacks the module {name}."
            shown = f"none for {case.fact('kernel') or 'this kernel'}"
            yield case.find(f"module-{name}", what, shown, name, fix)


def _kubelet(case: _Case) -> Iterator[Finding]:
    if case.wants.cgroup_v2 and case.fact("cgroup") == "v1":
        what = "the host runs on cgroup v1, on which this Kubernetes does not start."
        fix = (
            "boot with systemd.unified_cgroup_hierarchy=1 on the kernel's command line, or take"
            " kubernetes.version 1.34"
        )
        yield case.find("cgroup", what, "cgroup v1", "cgroup v2 (Kubernetes 1.35 and later)", fix)
    if case.wants.kubelet and (swap := case.fact("swap")):
        kib, _, names = swap.partition(" ")
        what = "swap is on: pods cannot use it, and the host slows down when it swaps."
        fix = "swapoff -a, and take its line out of /etc/fstab"
        yield case.find("swap", what, f"{_mib(kib)} on {names}", "none", fix, "warning")


def _selinux(case: _Case) -> Iterator[Finding]:
    if not case.wants.kubelet or case.wants.unit != "k3s" or case.fact("selinux") != "1":
        return
    installs = case.wants.selinux_policy and case.fact("packages") == "dnf"
    if not case.fact("k3s_policy") and not installs:
        yield case.find(
            "selinux",
            "SELinux is enforcing without K3s' policy, which its install script does not bring.",
            "no /usr/share/selinux/packages/k3s.pp",
            "the packages container-selinux and k3s-selinux",
            f"write kubernetes.source.selinux_policy: {K3S_SELINUX} (on release 8 its el8 package) "
            "and run `railyard pin`: then the node gets it by dnf before K3s; or install it "
            f"yourself: dnf install -y container-selinux, then that package, {LATER}",
            "warning" if case.fact("k3s") else "error",
        )


_ENROL: Final = "reboot, and confirm in MOK manager; or switch Secure Boot off"
_KEYS: Final = "/var/lib/shim-signed/mok/MOK.der on Ubuntu, /var/lib/dkms/mok.pub elsewhere"
_OF_VENDOR: Final = re.compile("mellanox|nvidia", re.IGNORECASE)
"""Signer of a module that came compiled, and was not signed with a key of this host."""


def _signatures(case: _Case) -> Iterator[Finding]:
    """Report modules that Secure Boot refuses, now or at the next boot."""
    for module in ("mlx5_core", "nvidia"):
        if says := case.fact(f"refused.{module}"):
            what = f"Secure Boot is on, and the kernel refuses the installed module {module}."
            key = f"the certificate of its key (if DKMS builds it: {_KEYS})"
            if _OF_VENDOR.search(says):
                key = "NVIDIA's public key, which the page on Secure Boot of this driver has"
            fix = f"at the console: mokutil --import {key}, {_ENROL}"
            wanted = "a signature by an enrolled key"
            yield case.find(f"signature-{module}", what, says, wanted, fix)
    builds = case.wants.driver_room and case.fact("packages") != "dnf" and not case.fact("ofed")
    if builds and case.fact("secure_boot") and not case.fact("build_key"):
        what = "Secure Boot is on, and no key is enrolled that signs the RDMA driver built here."
        fix = f"at the console: mokutil --import the key ({_KEYS}; update-secureboot-policy"
        fix += f" --new-key makes Ubuntu's), {_ENROL}; or keep driver.kind: inbox"
        yield case.find("secure-boot", what, "none of this host", "an enrolled key", fix)


def _ipoib(case: _Case) -> Iterator[Finding]:
    if names := case.fact("ipoib"):
        what = "HCAs lack an IPoIB network device, so the device plugin does not find them."
        wanted = "a network device of each HCA, for its linkTypes: [infiniband]"
        fix = "modprobe ib_ipoib; echo ib_ipoib >/etc/modules-load.d/ib_ipoib.conf"
        yield case.find("ipoib", what, names, wanted, fix)


def _cni(case: _Case) -> Iterator[Finding]:
    found = case.fact("cni")
    if case.wants.cni is not None and found not in {"", "good"}:
        what = "the node's own network plugin is elsewhere, so kubelet reads other CNI folders."
        wanted = f"its configuration in {case.wants.cni.net_d}, its program in {case.wants.cni.bin}"
        fix = "write kubernetes.distribution, or kubernetes.cni with net_d and bin"
        yield case.find("cni-folders", what, found, wanted, fix)


def _mib(kib: str) -> str:
    return f"{int(kib) // 1024} MiB" if kib.isdigit() else f"{kib} KiB"


def _disk(case: _Case) -> Iterator[Finding]:
    needs = {"/var/lib": (POD_ROOM, "warning")} if case.wants.kubelet else {}
    if case.wants.driver_room:
        needs |= {"/": (DRIVER_ROOM_KIB, "error")}
    for folder, (kib, severity) in needs.items():
        free = case.fact(f"disk.{folder}")
        if free.isdigit() and int(free) < kib:
            full: Severity = "error" if severity == "error" or not int(free) else "warning"
            what = f"there is little room in {folder}."
            wanted = f"{kib >> 10} MiB free"
            clean = "dnf clean all" if case.installer == "dnf" else "apt-get clean"
            fix = f"free it: {clean}, old kernels, old images; or move it to a larger disk"
            yield case.find(f"disk{folder}", what, f"{int(free) >> 10} MiB free", wanted, fix, full)


def _packages(case: _Case) -> Iterator[Finding]:
    dnf = case.fact("packages") == "dnf"
    finish = (
        "dnf check; dnf remove --duplicates" if dnf else "dpkg --configure -a; apt-get -f install"
    )
    units = "dnf-automatic.timer packagekit" if dnf else "unattended-upgrades apt-daily"
    severity = "error" if case.wants.packages else "warning"
    for fact, cause, what, wanted, fix in (
        (
            "half_installed",
            "half-installed",
            "packages are half installed, and no other can be installed before they are finished.",
            "none",
            "dnf check; dnf remove --duplicates" if dnf else finish,
        ),
        (
            "package_db",
            "package-db",
            "the database of installed packages is damaged.",
            "`rpm --verifydb` that ends well",
            "rpm --rebuilddb",
        ),
        (
            "lock",
            "package-lock",
            "another process holds the lock of the package manager.",
            "free",
            f"wait for it, or stop it: systemctl stop {units}",
        ),
    ):
        if actual := case.fact(fact):
            yield case.find(cause, what, actual, wanted, fix, severity)
    if case.wants.packages and not case.fact("packages"):
        what = "there is neither apt-get nor dnf, and the file asks for packages."
        fix = "take another system, or install the packages yourself and take them out of the file"
        yield case.find("package-manager", what, "none", "apt-get or dnf", fix)


_ADVISED: Final = "GPU driver 580"
"""The last branch for Volta (NVIDIA's release notes of 580)."""


def _gpus(case: _Case) -> Iterator[Finding]:
    owner, version = case.wants.gpu_driver, case.fact("gpu_driver")
    if owner == "host" and not version:
        what = "the host lacks a GPU driver, and the file says that the host brings it."
        fix = (
            f"install {_ADVISED} from the distribution or from NVIDIA, its closed modules on Volta"
            " and older (V100), or set operators.gpu.driver: operator"
        )
        yield case.find("gpu-driver", what, "none", "a driver for the running kernel", fix)
    branch = int(version.partition(".")[0]) if version[:1].isdigit() else 0
    if branch and branch < PROBE_DRIVERS_SINCE and branch not in PROBE_DRIVERS:
        yield case.find(
            "gpu-driver-cuda",
            f"an image of `railyard image build` has CUDA {PROBE_CUDA}, and would not start.",
            version,
            f"{PROBE_DRIVERS_SINCE} or later, or of {', '.join(map(str, PROBE_DRIVERS))}",
            f"install {_ADVISED}, or build jobs.image on an older --base (docs/reference/"
            "probe-image.md)",
            "warning",
        )
    refused = case.fact("refused.nvidia")
    if owner == "host" and version and not refused and not case.fact("gpu_loaded"):
        what = "the GPU driver is installed and not loaded."
        fix = "modprobe nvidia; dmesg says why it does not load"
        yield case.find("gpu-driver-loaded", what, f"{version}, not loaded", "loaded", fix)


def _pod_mtu(case: _Case) -> Iterator[Finding]:
    device, _, text = case.fact("node").partition(" ")
    added, mtu = case.wants.pod_overhead_bytes, int(text) if text.isdecimal() else 0
    needed = case.wants.pod_mtu_bytes + added
    if case.wants.pod_mtu_bytes and 0 < mtu < needed:
        yield case.find(
            "pod-mtu",
            "the cluster's own network drops the large packets of pods, and none of the small.",
            f"{device} carries {mtu}",
            f"{needed}: kubernetes.mtu_bytes, and {added} of Calico's",
            f"raise {device} and its switches to {needed}, or take {needed - mtu} from"
            " kubernetes.mtu_bytes, or leave it out",
        )


def _names(case: _Case) -> Iterator[Finding]:
    for name in case.wants.names:
        if case.fact(f"name.{name}") == "unknown":
            own = name == case.wants.device
            yield case.find(
                "own-name" if own else f"name-{name}",
                "the host does not resolve its own name." if own else f"{name} is not resolved.",
                "unknown",
                "an address",
                "write the name into /etc/hosts or the site's DNS"
                if own
                else "look at /etc/resolv.conf, and at what that DNS server may answer",
                # Its step writes the names of the site into /etc/hosts.
                "warning" if own else "error",
            )


def _ports(case: _Case) -> Iterator[Finding]:
    if case.fact(case.wants.unit):
        return  # this Kubernetes uses the ports itself
    for port in case.wants.ports:
        if case.fact(f"port.{port}") == "used":
            what = f"something listens on port {port}, which Kubernetes needs."
            fix = f"find the program (ss -ltnp 'sport = {port}') and stop it"
            yield case.find(f"port-{port}", what, "in use", "free", fix)


def _peers(case: _Case) -> Iterator[Finding]:
    for address, port in case.wants.peers:
        says = case.fact(f"peer.{address}:{port}")
        if says and says != "answers":
            what = f"{address} is not reached on port {port}, which the hosts need of each other."
            fix = f"open TCP port {port} between the hosts in firewalls and security groups"
            yield case.find(f"peer-{port}", what, says, "an answer, also a refusal", fix)


def _artefacts(case: _Case) -> Iterator[Finding]:
    facts = case.answers.facts
    yield from (case.find(*words) for words in judge_files(case.wants.artefacts, facts))
    yield from (case.find(*words) for words in judge_images(case.wants.images, facts))


_JUDGES: Final[tuple[Callable[[_Case], Iterator[Finding]], ...]] = (
    _clock,
    _tools,
    _python,
    _modules,
    _kubelet,
    _selinux,
    _signatures,
    _ipoib,
    _cni,
    _pod_mtu,
    _disk,
    _packages,
    _gpus,
    _names,
    _ports,
    _peers,
    _artefacts,
)
