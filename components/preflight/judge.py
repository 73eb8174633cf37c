"""Judge the answers of hosts, switches, UFM and hypervisors, and failed sessions. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import Final

from components.catalogue import upstream
from components.catalogue.environments import FIRST_ATS, parse_release
from components.core.problem import Finding, Severity
from components.core.record import record
from components.core.templates import read_table
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
from components.preflight.artefacts import judge_artefacts
from components.preflight.report import Neighbors, lack
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
_KEYS: Final = "/var/lib/shim-signed/mok/MOK.der on Ubuntu, /var/lib/dkms/mok.pub elsewhere"
_OF_VENDOR: Final = re.compile("mellanox|nvidia", re.IGNORECASE)
"""Signer of a module that came compiled, and was not signed with a key of this host."""
_YES: Final = re.compile(r": *['\"]?(true|1|on|yes|template)\b", re.IGNORECASE)
"""Values that cloud-init 22.4.2 treats as true (`util.translate_bool`), and an old word for it."""
_SESSIONS: Final = {
    r"Nothing was sent\.": "login-key",
    r"\bsudo\b": "sudo",
    r"refuse[sd] (the|our) (SSH )?(key|password)|user \S+ is refused|Permission denied": "login",
    "accepted the login, but did not finish": "answer",
}
"""Pattern in a session's error to the finding."""
NO_SESSION: Final = frozenset({*_SESSIONS.values(), "reach", "host-key"})
"""The rules of devices that could not be read."""
LOGINS: Final = frozenset({"login", "login-key"})
"""Those of a login without its secret."""
_ABSENT: Final = (
    (r"kernel\.atsSupport\.configured", "ats-support"),
    (r"pci\.(.*)\.current_owner", "esxi-pci"),
    (r"vm\.(.*)\.power", "esxi-vm"),
)
"""Pattern of a key that the hypervisor lacks, and the finding."""


@record
class HostAnswers:
    """One host's answers, and their time."""

    facts: Mapping[str, str]
    asked_at_s: float
    """This machine's clock before the question, in seconds since 1970."""
    answered_at_s: float


@record
class _Case:
    wants: HostWants
    answers: HostAnswers

    def fact(self, key: str) -> str:
        return self.answers.facts.get(key, "")

    @property
    def manager(self) -> str:
        return "dnf" if self.fact("packages") == "dnf" else "apt-get"

    def lack(self, row: str, actual: str, /, **words: object) -> Finding:
        own: Mapping[str, str] = read_table(__file__, "managers")[self.manager]
        return lack(self.wants.device, row, actual, manager=self.manager, **own, **words)

    def clock(self) -> Iterator[Finding]:
        text = self.fact("time")
        if not text.isdigit():
            return
        # The host reports whole seconds, so one second does not count.
        ahead = float(text) - self.answers.answered_at_s
        behind = self.answers.asked_at_s - (float(text) + 1)
        off_s = max(ahead, behind)
        if off_s > CLOCK_OFF_S:
            units = (("h", 3600), ("min", 60))
            long = (f"{off_s / size:.1f} {unit}" for unit, size in units if off_s >= size)
            side = "ahead of" if ahead > behind else "behind"
            shown = f"{next(long, f'{off_s:.0f} s')} {side} this machine"
            found = self.lack("clock", shown, limit=f"{CLOCK_OFF_S:g}")
            yield found.rated("error" if off_s > CLOCK_WRONG_S else "warning")

    def programs(self) -> Iterator[Finding]:
        for tool in self.wants.tools:
            if all(self.fact(f"tool.{name}") == "no" for name in tool.names):
                words = {"tool": tool.names[0], "names": " or ".join(tool.names), "why": tool.why}
                yield self.lack("tool", "not on PATH", **words, fix=tool.fix)
        says = self.fact("python")
        version = tuple(int(part) for part in says.split(".") if part.isdigit())
        if self.wants.unit == "kubelet" and version < PYTHON_FROM:
            yield self.lack("python", says or "none", least=".".join(map(str, PYTHON_FROM)))
        for name in self.wants.modules:
            if self.fact(f"module.{name}") == "absent":
                fix = "install the driver that brings it"
                if name == "nvidia_peermem":
                    fix = "install a GPU driver of 470 or later, or set host_defaults.gpu_direct"
                shown = f"none for {self.fact('kernel') or 'this kernel'}"
                yield self.lack("module", shown, module=name, fix=fix)

    def kubelet(self) -> Iterator[Finding]:
        wants = self.wants
        if wants.cgroup_v2 and self.fact("cgroup") == "v1":
            yield self.lack("cgroup", "cgroup v1")
        if wants.unit and (swap := self.fact("swap")):
            kib, _, names = swap.partition(" ")
            size = f"{int(kib) // 1024} MiB" if kib.isdigit() else f"{kib} KiB"
            yield self.lack("swap", f"{size} on {names}")
        enforcing = wants.unit == "k3s" and self.fact("selinux") == "1"
        by_step = wants.selinux_policy and self.manager == "dnf"
        if enforcing and not self.fact("k3s_policy") and not by_step:
            shown = "no /usr/share/selinux/packages/k3s.pp"
            found = self.lack("selinux", shown, policy=upstream.K3S_SELINUX)
            yield found.rated("warning" if self.fact("k3s") else "error")

    def signatures(self) -> Iterator[Finding]:
        """Report modules that Secure Boot refuses, now or at the next boot."""
        for module in ("mlx5_core", "nvidia"):
            if says := self.fact(f"refused.{module}"):
                key = f"the certificate of its key (if DKMS builds it: {_KEYS})"
                if _OF_VENDOR.search(says):
                    key = "NVIDIA's public key, which the page on Secure Boot of this driver has"
                yield self.lack("signature", says, module=module, key=key)
        builds = self.wants.driver_room and self.manager != "dnf" and not self.fact("ofed")
        if builds and self.fact("secure_boot") and not self.fact("build_key"):
            yield self.lack("secure-boot", "none of this host", keys=_KEYS)

    def network(self) -> Iterator[Finding]:
        if names := self.fact("ipoib"):
            yield self.lack("ipoib", names)
        cni, found = self.wants.cni, self.fact("cni")
        if cni is not None and found not in {"", "good"}:
            yield self.lack("cni-folders", found, net_d=cni.net_d, bin=cni.bin)
        link, _, text = self.fact("node").partition(" ")
        added, mtu = self.wants.pod_overhead_bytes, int(text) if text.isdecimal() else 0
        needed = self.wants.pod_mtu_bytes + added
        if self.wants.pod_mtu_bytes and 0 < mtu < needed:
            words = {"needed": needed, "added": added, "over": needed - mtu, "link": link}
            yield self.lack("pod-mtu", f"{link} carries {mtu}", **words)

    def system(self) -> Iterator[Finding]:
        """Report too little room on the disk, and faults of the package manager."""
        wants = self.wants
        needs: tuple[tuple[bool, str, int, Severity], ...] = (
            (wants.unit != "", "/var/lib", POD_ROOM, "warning"),
            (wants.driver_room, "/", DRIVER_ROOM_KIB, "error"),
        )
        for is_needed, folder, kib, severity in needs:
            free = self.fact(f"disk.{folder}")
            if is_needed and free.isdigit() and int(free) < kib:
                shown = f"{int(free) >> 10} MiB free"
                found = self.lack("disk", shown, folder=folder, mib=kib >> 10)
                yield found.rated(severity if int(free) else "error")
        for fact in ("half_installed", "package_db", "lock"):
            row = "package-lock" if fact == "lock" else fact.replace("_", "-")
            if actual := self.fact(fact):
                yield self.lack(row, actual).rated("error" if wants.packages else "warning")
        if wants.packages and not self.fact("packages"):
            yield self.lack("package-manager", "none")

    def gpus(self) -> Iterator[Finding]:
        of_host, version = self.wants.gpu_driver == "host", self.fact("gpu_driver")
        if of_host and not version:
            yield self.lack("gpu-driver", "none")
        branch = int(version.partition(".")[0]) if version[:1].isdigit() else 0
        since, others = upstream.PROBE_DRIVERS_SINCE, upstream.PROBE_DRIVERS
        if branch and branch < since and branch not in others:
            words = {"cuda": upstream.PROBE_CUDA, "since": since}
            yield self.lack("gpu-driver-cuda", version, **words, others=", ".join(map(str, others)))
        is_unloaded = not self.fact("refused.nvidia") and not self.fact("gpu_loaded")
        if of_host and version and is_unloaded and self.wants.gpus:
            yield self.lack("gpu-driver-loaded", f"{version}, not loaded")

    def connections(self) -> Iterator[Finding]:
        wants = self.wants
        for name in wants.names:
            if self.fact(f"name.{name}") == "unknown":
                row = "own-name" if name == wants.device else "name"
                yield self.lack(row, "unknown", name=name)
        # An earlier update gave the ports to Kubernetes, or on a balancer to HAProxy.
        for port in () if self.fact(wants.unit or "railyard-haproxy") else wants.ports:
            if self.fact(f"port.{port}") == "used":
                yield self.lack("port", "in use", port=port)
        for address, port in wants.peers:
            says = self.fact(f"peer.{address}:{port}")
            if says and says != "answers":
                yield self.lack("peer", says, address=address, port=port)


def judge_host(wants: HostWants, answers: HostAnswers) -> tuple[Finding, ...]:
    """Return all findings for this host, in bring-up order."""
    case = _Case(wants, answers)
    return (
        *case.clock(), *case.programs(), *case.kubelet(), *case.signatures(), *case.network(),
        *case.system(), *case.gpus(), *case.connections(),
        *judge_artefacts(wants.device, wants.artefacts, answers.facts),
    )  # fmt: skip


def judge_files(plan: HostPlan, facts: Mapping[str, str]) -> Iterator[Finding]:
    """Report files and cloud-init settings of a host that would undo Railyard's settings."""
    wanted = plan.desired.values
    for pci in (key[4:-5] for key in wanted if key.startswith("nic.") and key.endswith(".link")):
        if files := facts.get(f"files.{pci}", ""):
            yield lack(plan.name, "card-file", f"{pci} in {files}")
    hosts = facts.get("cloud.manage_etc_hosts", "")
    if _YES.search(hosts) and any(key.startswith("hosts") for key in wanted):
        yield lack(plan.name, "cloud-init-hosts", hosts)
    name = facts.get("cloud.preserve_hostname", "")
    if name and not _YES.search(name) and "hostname" in wanted:
        yield lack(plan.name, "cloud-init-hostname", name)


def judge_session(device: str, failed: Unreachable) -> Finding:
    """Explain why a device could not be read."""
    reason, _, own_fix = (" ".join(part.split()) for part in failed.reason.partition("\n  fix "))
    text = f"{reason}; {own_fix}" if own_fix else reason
    row = next((row for pattern, row in _SESSIONS.items() if re.search(pattern, text)), "reach")
    row = "host-key" if failed.stranger else row
    fix = own_fix or "look at its power, its address in ssh.address, and the firewall on the way"
    return lack(device, row, reason if row in {"reach", "login-key"} else text, fix=fix)


def judge_switch(switch: Switch, identity: Identity) -> Iterator[Finding]:
    """Check that a switch matches the file, and that this login may configure it."""
    system, release, model = system_of(switch.os), identity.release, identity.model
    find = partial(lack, switch.name)
    parts = (("release", release, switch.release), ("model", model, switch.model))
    for part, wanted in ((part, wanted) for part, has, wanted in parts if not has):
        yield find("switch-silent", "no answer", part=part, wanted=wanted)
    if release and system.parse_release(release) != system.parse_release(switch.release):
        words = {"wanted": switch.release, "release": system.a_release}
        yield find("switch-release", release, **words)
    # `DCS-7060DX5-64S-F` is DCS-7060DX5-64S, and `DellEMC-Z9332f-O32` is Z9332F-ON.
    says, name = (re.sub(r"[^a-z0-9]", "", text.lower()) for text in (model, switch.model))
    if model and name not in says and name.removesuffix("on") not in says:
        yield find("switch-model", model, wanted=switch.model)
    if identity.rights:
        yield find("switch-rights", identity.rights, title=system.title)


def judge_ufm(ufm: Ufm, identity: Identity) -> Iterator[Finding]:
    """Check that UFM's release is new enough, and that this login may create partitions."""
    system = system_of(UFM)
    least = system.show_release(system.min_release)
    if not identity.release:
        yield lack(ufm.name, "ufm-silent", "no answer", least=least)
    elif system.parse_release(identity.release) < system.min_release:
        words = {"least": least, "older": system.older, "release": system.a_release}
        yield lack(ufm.name, "ufm-release", identity.release, **words)
    if identity.rights:
        yield lack(ufm.name, "ufm-rights", identity.rights)


def judge_hypervisor(plan: HypervisorPlan, seen: Mapping[str, str]) -> Iterator[Finding]:
    """Report faults that would make the step of an ESXi host refuse."""
    runs, wanted = seen.get("release", ""), plan.desired.values.get("release", "")
    known = parse_release(runs)
    if known is not None and known < FIRST_ATS:
        yield lack(plan.name, "esxi-old", runs, runs=runs, first=FIRST_ATS.text)
    elif runs and runs != wanted:
        yield lack(plan.name, "esxi-release", runs, wanted=wanted)
    # 6.x answers the other questions differently or not at all.
    old = known is not None and known.ats == "absent"
    absent = [key for key, value in seen.items() if value == "absent" and not old]
    keys = (each for each in absent if each in plan.desired.values)
    for key, (pattern, row) in product(keys, _ABSENT):
        if found := re.fullmatch(pattern, key):
            shown = runs if row == "ats-support" else "absent"
            yield lack(plan.name, row, shown, name="".join(found.groups()))


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


def judge_links(drifts: Iterable[DeviceDrift]) -> Iterator[Finding]:
    """Report links that carry fewer routes than applied, in the words of `railyard drift`."""
    for device, lost in ((drift.device, lost) for drift in drifts for lost in drift.routing):
        found = lack(device, "routing", f"{lost.where}: {lost.what}", fix=lost.fix)
        # An update neither needs nor restores BGP sessions.
        yield found.rated("unreachable" if lost.kind == "unread" else "warning")
