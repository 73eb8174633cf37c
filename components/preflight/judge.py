"""Judge the answers of hosts, switches, UFM and hypervisors, and failed sessions. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from components.catalogue.environments import FIRST_ATS, parse_release
from components.catalogue.upstream import (
    K3S_SELINUX,
    PROBE_CUDA,
    PROBE_DRIVERS,
    PROBE_DRIVERS_SINCE,
)
from components.core.problem import Finding, Severity, on_device
from components.drift.applied import Applied
from components.drift.device_drift import DeviceDrift, Unreachable
from components.fabric.fabric_plan import SwitchPlan
from components.fabric.parts import Identity
from components.fabric.state import SwitchState
from components.fabric.systems import UFM, system_of
from components.hosts.host_plan import HostPlan
from components.hypervisor.hypervisor_plan import HypervisorPlan
from components.model.fabric import Switch
from components.model.infiniband import Ufm
from components.preflight.artefacts import LATER, judge_artefacts
from components.preflight.report import Neighbors
from components.preflight.wants import DRIVER_ROOM_KIB, HostWants
from components.update.seen import Seen

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
    find: Callable[[str, str, str, str, str], Finding]
    """`on_device` of this host."""

    def fact(self, key: str) -> str:
        return self.answers.facts.get(key, "")

    @property
    def is_dnf(self) -> bool:
        return self.fact("packages") == "dnf"


def judge_host(wants: HostWants, answers: HostAnswers) -> tuple[Finding, ...]:
    """Return all findings for this host, in bring-up order."""
    case = _Case(wants, answers, partial(on_device, wants.device))
    artefacts = judge_artefacts(wants.artefacts, answers.facts)
    found = (each for judge in _JUDGES for each in judge(case))
    return (*found, *(case.find(*words) for words in artefacts))


def _clock(case: _Case) -> Iterator[Finding]:
    text = case.fact("time")
    if not text.isdigit():
        return
    theirs, answers = float(text), case.answers
    # The host reports whole seconds, so one second does not count.
    ahead = theirs - answers.answered_at_s
    behind = answers.asked_at_s - (theirs + 1)
    off_s = max(ahead, behind)
    if off_s <= CLOCK_OFF_S:
        return
    units = (("h", 3600), ("min", 60))
    long = (f"{off_s / size:.1f} {unit}" for unit, size in units if off_s >= size)
    shown = next(long, f"{off_s:.0f} s")
    found = case.find(
        "clock",
        "the clock differs from this machine's, and certificates made here are not valid there.",
        f"{shown} {'ahead of' if ahead > behind else 'behind'} this machine",
        f"within {CLOCK_OFF_S:g} s",
        f"run a time service on both: {'dnf' if case.is_dnf else 'apt-get'} install chrony, and"
        " `chronyc makestep`",
    )
    yield found if off_s > CLOCK_WRONG_S else found.rated("warning")


def _programs(case: _Case) -> Iterator[Finding]:
    for tool in case.wants.tools:
        if all(case.fact(f"tool.{name}") == "no" for name in tool.names):
            names = " or ".join(tool.names)
            what = f"the host lacks {names}, which it needs to {tool.why}."
            yield case.find(f"tool-{tool.names[0]}", what, "not on PATH", names, tool.fix)
    says = case.fact("python")
    version = tuple(int(part) for part in says.split(".") if part.isdigit())
    if case.wants.ansible and version < PYTHON_FROM:
        what = "the host lacks a Python for kubespray's Ansible modules."
        wanted = f"Python {PYTHON_FROM[0]}.{PYTHON_FROM[1]} or later"
        fix = "apt-get install python3, or on RHEL 8: dnf install python3.12"
        yield case.find("python", what, says or "none", wanted, fix)
    for name in case.wants.modules:
        if case.fact(f"module.{name}") == "absent":
            fix = "install the driver that brings it"
            if name == "nvidia_peermem":
                fix = "install a GPU driver of 470 or later, or set host_defaults.gpu_direct"
            what = f"the running kernel lacks the module {name}."
            shown = f"none for {case.fact('kernel') or 'this kernel'}"
            yield case.find(f"module-{name}", what, shown, name, fix)


def _kubelet(case: _Case) -> Iterator[Finding]:
    wants = case.wants
    if wants.cgroup_v2 and case.fact("cgroup") == "v1":
        what = "the host runs on cgroup v1, on which this Kubernetes does not start."
        fix = (
            "boot with systemd.unified_cgroup_hierarchy=1 on the kernel's command line, or take"
            " kubernetes.version 1.34"
        )
        yield case.find("cgroup", what, "cgroup v1", "cgroup v2 (Kubernetes 1.35 and later)", fix)
    if wants.kubelet and (swap := case.fact("swap")):
        kib, _, names = swap.partition(" ")
        size = f"{int(kib) // 1024} MiB" if kib.isdigit() else f"{kib} KiB"
        what = "swap is on: pods cannot use it, and the host slows down when it swaps."
        fix = "swapoff -a, and take its line out of /etc/fstab"
        yield case.find("swap", what, f"{size} on {names}", "none", fix).rated("warning")
    enforcing = wants.kubelet and wants.unit == "k3s" and case.fact("selinux") == "1"
    if enforcing and not case.fact("k3s_policy") and not (wants.selinux_policy and case.is_dnf):
        found = case.find(
            "selinux",
            "SELinux is enforcing without K3s' policy, which its install script does not bring.",
            "no /usr/share/selinux/packages/k3s.pp",
            "the packages container-selinux and k3s-selinux",
            f"write kubernetes.source.selinux_policy: {K3S_SELINUX} (on release 8 its el8 package) "
            "and run `railyard pin`: then the node gets it by dnf before K3s; or install it "
            f"yourself: dnf install -y container-selinux, then that package, {LATER}",
        )
        yield found.rated("warning") if case.fact("k3s") else found


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
    builds = case.wants.driver_room and not case.is_dnf and not case.fact("ofed")
    if builds and case.fact("secure_boot") and not case.fact("build_key"):
        what = "Secure Boot is on, and no key is enrolled that signs the RDMA driver built here."
        fix = f"at the console: mokutil --import the key ({_KEYS}; update-secureboot-policy"
        fix += f" --new-key makes Ubuntu's), {_ENROL}; or keep driver.kind: inbox"
        yield case.find("secure-boot", what, "none of this host", "an enrolled key", fix)


def _network(case: _Case) -> Iterator[Finding]:
    if names := case.fact("ipoib"):
        what = "HCAs lack an IPoIB network device, so the device plugin does not find them."
        wanted = "a network device of each HCA, for its linkTypes: [infiniband]"
        fix = "modprobe ib_ipoib; echo ib_ipoib >/etc/modules-load.d/ib_ipoib.conf"
        yield case.find("ipoib", what, names, wanted, fix)
    cni, found = case.wants.cni, case.fact("cni")
    if cni is not None and found not in {"", "good"}:
        what = "the node's own network plugin is elsewhere, so kubelet reads other CNI folders."
        wanted = f"its configuration in {cni.net_d}, its program in {cni.bin}"
        fix = "write kubernetes.distribution, or kubernetes.cni with net_d and bin"
        yield case.find("cni-folders", what, found, wanted, fix)
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
            clean = "dnf clean all" if case.is_dnf else "apt-get clean"
            fix = f"free it: {clean}, old kernels, old images; or move it to a larger disk"
            lack = case.find(f"disk{folder}", what, f"{int(free) >> 10} MiB free", wanted, fix)
            yield lack.rated(full)


_PACKAGES: Final = (
    (
        "half-installed",
        "packages are half installed, and no other can be installed before they are finished.",
        "none",
        ("dpkg --configure -a; apt-get -f install", "dnf check; dnf remove --duplicates"),
    ),
    (
        "package-db",
        "the database of installed packages is damaged.",
        "`rpm --verifydb` that ends well",
        ("rpm --rebuilddb", "rpm --rebuilddb"),
    ),
    (
        "package-lock",
        "another process holds the lock of the package manager.",
        "free",
        (
            "wait for it, or stop it: systemctl stop unattended-upgrades apt-daily",
            "wait for it, or stop it: systemctl stop dnf-automatic.timer packagekit",
        ),
    ),
)
"""Rule, fault, wanted value, and the fix with apt-get and with dnf."""


def _packages(case: _Case) -> Iterator[Finding]:
    severity = "error" if case.wants.packages else "warning"
    for rule, what, wanted, fixes in _PACKAGES:
        fact = "lock" if rule == "package-lock" else rule.replace("-", "_")
        if actual := case.fact(fact):
            yield case.find(rule, what, actual, wanted, fixes[case.is_dnf]).rated(severity)
    if case.wants.packages and not case.fact("packages"):
        what = "there is neither apt-get nor dnf, and the file asks for packages."
        fix = "take another system, or install the packages yourself and take them out of the file"
        yield case.find("package-manager", what, "none", "apt-get or dnf", fix)


_ADVISED: Final = "GPU driver 580"
"""The last branch for Volta (NVIDIA's release notes of 580)."""


def _gpus(case: _Case) -> Iterator[Finding]:
    of_host, version = case.wants.gpu_driver == "host", case.fact("gpu_driver")
    if of_host and not version:
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
        ).rated("warning")
    if of_host and version and not case.fact("refused.nvidia") and not case.fact("gpu_loaded"):
        what = "the GPU driver is installed and not loaded."
        fix = "modprobe nvidia; dmesg says why it does not load"
        yield case.find("gpu-driver-loaded", what, f"{version}, not loaded", "loaded", fix)


def _connections(case: _Case) -> Iterator[Finding]:
    wants = case.wants
    for name in wants.names:
        if case.fact(f"name.{name}") == "unknown" and name == wants.device:
            what = "the host does not resolve its own name."
            fix = "write the name into /etc/hosts or the site's DNS"
            # Its step writes the names of the site into /etc/hosts.
            yield case.find("own-name", what, "unknown", "an address", fix).rated("warning")
        elif case.fact(f"name.{name}") == "unknown":
            fix = "look at /etc/resolv.conf, and at what that DNS server may answer"
            yield case.find(
                f"name-{name}", f"{name} is not resolved.", "unknown", "an address", fix
            )
    for port in () if case.fact(wants.unit) else wants.ports:  # else Kubernetes has them already
        if case.fact(f"port.{port}") == "used":
            what = f"something listens on port {port}, which Kubernetes needs."
            fix = f"find the program (ss -ltnp 'sport = {port}') and stop it"
            yield case.find(f"port-{port}", what, "in use", "free", fix)
    for address, port in wants.peers:
        says = case.fact(f"peer.{address}:{port}")
        if says and says != "answers":
            what = f"{address} is not reached on port {port}, which the hosts need of each other."
            fix = f"open TCP port {port} between the hosts in firewalls and security groups"
            yield case.find(f"peer-{port}", what, says, "an answer, also a refusal", fix)


_JUDGES: Final[tuple[Callable[[_Case], Iterator[Finding]], ...]] = (
    _clock,
    _programs,
    _kubelet,
    _signatures,
    _network,
    _disk,
    _packages,
    _gpus,
    _connections,
)
_YES: Final = re.compile(r": *['\"]?(true|1|on|yes|template)\b", re.IGNORECASE)
"""Values that cloud-init 22.4.2 treats as true (`util.translate_bool`), and an old word for it."""


def judge_files(plan: HostPlan, facts: Mapping[str, str]) -> Iterator[Finding]:
    """Report files and cloud-init settings of a host that would undo Railyard's settings."""
    wanted = plan.desired.values
    for pci in (key[4:-5] for key in wanted if key.startswith("nic.") and key.endswith(".link")):
        if files := facts.get(f"files.{pci}", ""):
            what = (
                "a file of the host sets up a rail card, too: two then set address, MTU and link."
            )
            fix = "take the card out of that file, and write its address in hosts[].nics[].address"
            has = f"{pci} in {files}"
            yield on_device(plan.name, "card-file", what, has, "none", fix).rated("warning")
    hosts, name = (
        facts.get(f"cloud.{key}", "") for key in ("manage_etc_hosts", "preserve_hostname")
    )
    if _YES.search(hosts) and any(key.startswith("hosts") for key in wanted):
        what = "cloud-init writes /etc/hosts again at each boot, without the names of the site."
        yield _cloud_init(plan.name, "hosts", what, hosts, "manage_etc_hosts: false")
    if name and not _YES.search(name) and "hostname" in wanted:
        what = "cloud-init names the host again when it takes it for a new instance."
        yield _cloud_init(plan.name, "hostname", what, name, "preserve_hostname: true")


def _cloud_init(device: str, topic: str, what: str, actual: str, wanted: str) -> Finding:
    fix = f"echo '{wanted}' >/etc/cloud/cloud.cfg.d/99-railyard.cfg; user data that says else wins"
    return on_device(device, f"cloud-init-{topic}", what, actual, wanted, fix).rated("warning")


_SESSIONS: Final[Mapping[str, tuple[str, str, str, Severity]]] = {
    r"\bsudo\b": (
        "sudo",
        "the login cannot become root without a password.",
        "add as root, with visudo: USER ALL=(root) NOPASSWD: ALL",
        "error",
    ),
    r"refuse[sd]? (?:the|our) (?:key|password)|Permission denied|no private key": (
        "login",
        "the login is refused.",
        (
            "look at ssh.user, and at the secret that the device's ssh names; an ESXi host takes a"
            " key of ECDSA or RSA, and none of ed25519"
        ),
        "error",
    ),
    "accepted the login, but did not finish": (
        "answer",
        "the device let us in, and its answer did not come.",
        (
            "look at its load; where short answers come and long ones do not, the MTU of the way is"
            " too large: ping -M do -s 1472 ADDRESS"
        ),
        "unreachable",
    ),
}
"""Pattern in a session's error to rule, fault, fix and severity."""


def judge_session(device: str, failed: Unreachable) -> Finding:
    """Explain why a device could not be read."""
    reason, _, own_fix = (" ".join(part.split()) for part in failed.reason.partition("\n  fix "))
    text = f"{reason}; {own_fix}" if own_fix else reason
    rows = (row for pattern, row in _SESSIONS.items() if re.search(pattern, text))
    fix = own_fix or "look at its power, its address in ssh.address, and the firewall on the way"
    away = ("reach", "the device is not reached.", fix, "unreachable")
    rule, what, fix, severity = next(rows, away)
    if failed.stranger:
        rule, what, severity = "host-key", "the host key is not the pinned one.", "unreachable"
        fix = "compare the key on the device's console, and pin it as ssh.host_key"
    says = reason if rule == "reach" else text
    return on_device(device, rule, what, says, "a session that reads", fix).rated(severity)


def judge_switch(switch: Switch, identity: Identity) -> Iterator[Finding]:
    """Check that a switch matches the file, and that this login may configure it."""
    system, release, model = system_of(switch.os), identity.release, identity.model
    parts = (("release", release, switch.release), ("model", model, switch.model))
    for part, has, wanted in parts:
        if not has:
            what = f"the switch does not say its {part}, which is then not compared with the file."
            fix = f"compare the {part} yourself, on the switch"
            lack = on_device(switch.name, f"switch-{part}", what, "no answer", wanted, fix)
            yield lack.rated("warning")
    if release and system.parse_release(release) != system.parse_release(switch.release):
        what = (
            "the switch runs another release than the file says; the plan depends on the release."
        )
        fix = f"write the release that it runs, such as {system.a_release}, or update it"
        yield on_device(switch.name, "switch-release", what, release, switch.release, fix)
    # `DCS-7060DX5-64S-F` is DCS-7060DX5-64S, and `DellEMC-Z9332f-O32` is Z9332F-ON.
    says, name = (re.sub(r"[^a-z0-9]", "", text.lower()) for text in (model, switch.model))
    if model and name not in says and name.removesuffix("on") not in says:
        what = "the switch is another model than the file says."
        fix = "write its model in switches[].model, or correct the address"
        yield on_device(switch.name, "switch-model", what, model, switch.model, fix)
    if identity.rights:
        what = "the switch does not let this login configure it."
        wanted = f"a user who may configure {system.title}"
        fix = "give the user the role that configures, or name another one in ssh.user"
        yield on_device(switch.name, "switch-rights", what, identity.rights, wanted, fix)


def judge_ufm(ufm: Ufm, identity: Identity) -> Iterator[Finding]:
    """Check that UFM's release is new enough, and that this login may create partitions."""
    system = system_of(UFM)
    least = system.show_release(system.min_release)
    if not identity.release:
        what = "UFM does not say its release, so Railyard cannot know whether it takes partitions."
        fix = "compare the release yourself, in its Settings"
        yield on_device(ufm.name, "ufm-release", what, "no answer", least, fix).rated("warning")
    elif system.parse_release(identity.release) < system.min_release:
        what = f"this release of UFM {system.older}."
        fix = f"update UFM to {least} or later, such as {system.a_release}"
        yield on_device(ufm.name, "ufm-release", what, identity.release, f"{least} or later", fix)
    if identity.rights:
        what = "UFM does not let this login make partitions."
        wanted = "a user of System_Admin, Fabric_Admin or Fabric_Operator"
        fix = "add the user to one group of the list, or name another one in infiniband.ufm.user"
        yield on_device(ufm.name, "ufm-rights", what, identity.rights, wanted, fix)


_PCI: Final = re.compile(r"pci\.(.*)\.current_owner")
_VM: Final = re.compile(r"vm\.(.*)\.power")


def judge_hypervisor(plan: HypervisorPlan, seen: Mapping[str, str]) -> Iterator[Finding]:
    """Report faults that would make the step of an ESXi host refuse."""
    runs, wanted = seen.get("release", ""), plan.desired.values.get("release", "")
    known, name = parse_release(runs), plan.name
    if known is not None and known < FIRST_ATS:
        what = f"ESXi {runs} is not supported: atsSupport begins with {FIRST_ATS.text}."
        fix = f"update ESXi to {FIRST_ATS.text} or later"
        yield on_device(name, "esxi-release", what, runs, FIRST_ATS.text, fix)
    elif runs and runs != wanted:
        what = "the hypervisor runs another release than the file says."
        fix = "write the release that it runs; it decides about atsSupport"
        yield on_device(name, "esxi-release", what, runs, wanted, fix)
    # 6.x answers the other questions differently or not at all.
    old = known is not None and known.ats == "absent"
    for key in () if old else (key for key, value in seen.items() if value == "absent"):
        if key not in plan.desired.values:
            continue
        if key == "kernel.atsSupport.configured":
            what = "the hypervisor lacks the kernel setting atsSupport."
            fix = "update ESXi: it begins with 7.0U2"
            yield on_device(name, "ats-support", what, runs, "7.0U2 or later", fix)
        elif pci := _PCI.fullmatch(key):
            what = f"the hypervisor lacks the PCI device {pci[1]}."
            fix = "correct environment.hypervisors[].vms[]: esxcli hardware pci list"
            yield on_device(name, "esxi-pci", what, "absent", pci[1], fix)
        elif vm := _VM.fullmatch(key):
            what = f"exactly one virtual machine must have the name {vm[1]}."
            fix = "make it, or write the name that `vim-cmd vmsvc/getallvms` lists"
            yield on_device(name, "esxi-vm", what, "absent", vm[1], fix)


def list_neighbors(
    plans: Iterable[SwitchPlan], applied: Applied, seen: Seen
) -> Iterator[Neighbors]:
    """Count the BGP neighbours of each routed switch that was read."""
    for plan in plans:
        facts, links = seen.switch(plan.name), plan.links
        if links is None or not isinstance(facts, SwitchState) or facts.sessions is None:
            continue
        known, unread = facts.sessions.neighbors, facts.sessions.unread
        down = tuple(
            f"{end.port} to {end.to}: {known[name].state if name in known else 'never heard'}"
            for name, end in links.ends.items()
            if name not in known or not known[name].is_up
        )
        note = f"not known: {unread}" if unread else ""
        if down and applied.step(plan.step) is None:
            note = note or "no update has set them up yet"
        planned = len(links.ends)
        shown = () if unread else down
        yield Neighbors(plan.name, planned - len(down), planned, shown, note)


_SEVERITIES: Final[dict[str, Severity]] = {
    "lost": "warning",
    "unread": "unreachable",
    "unsaid": "warning",
}
"""An update neither needs nor restores BGP sessions; an unread switch counts as unreachable."""


def judge_links(drifts: Iterable[DeviceDrift]) -> Iterator[Finding]:
    """Report links that carry fewer routes than applied, in the words of `railyard drift`."""
    for device, lost in ((drift.device, lost) for drift in drifts for lost in drift.routing):
        what = "a routed link does not carry the planned routes."
        says, wanted = f"{lost.where}: {lost.what}", "every neighbour and network of the file"
        found = on_device(device, "routing", what, says, wanted, lost.fix)
        yield found.rated(_SEVERITIES[lost.kind])
