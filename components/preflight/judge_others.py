"""Judge the answers of switches, their BGP neighbours, hypervisors and failed sessions. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from components.catalogue.environments import FIRST_ATS, parse_release
from components.core.problem import Finding, Severity, on_device
from components.drift.applied import Applied
from components.drift.device_drift import Unreachable
from components.fabric.cabling import RoutedLinks
from components.fabric.edit import networks_of, routing_faults
from components.fabric.fabric_plan import SwitchPlan
from components.fabric.parts import Identity, Sessions
from components.fabric.state import SwitchState
from components.fabric.systems import UFM, system_of
from components.hosts.host_plan import HostPlan
from components.hypervisor.hypervisor_plan import HypervisorPlan
from components.model.fabric import Switch
from components.model.infiniband import Ufm
from components.preflight.report import Neighbors
from components.update.seen import Seen

_SUDO: Final = re.compile(r"\bsudo\b")
_KEY: Final = re.compile(
    r"refuse[sd]? (?:the|our) (?:key|password)|Permission denied|no private key"
)
_SLOW: Final = re.compile(r"accepted the login, but did not finish")
_SEVERITIES: Final[dict[str, Severity]] = {
    "lost": "warning",
    "unread": "unreachable",
    "unsaid": "warning",
}
"""An update neither needs nor restores BGP sessions; an unread switch counts as unreachable."""


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
    says = facts.get("cloud.manage_etc_hosts", "")
    if _YES.search(says) and any(key.startswith("hosts") for key in wanted):
        what = "cloud-init writes /etc/hosts again at each boot, without the names of the site."
        yield _cloud_init(plan.name, "hosts", what, says, "manage_etc_hosts: false")
    says = facts.get("cloud.preserve_hostname", "")
    if says and not _YES.search(says) and "hostname" in wanted:
        what = "cloud-init names the host again when it takes it for a new instance."
        yield _cloud_init(plan.name, "hostname", what, says, "preserve_hostname: true")


_YES: Final = re.compile(r": *['\"]?(true|1|on|yes|template)\b", re.IGNORECASE)
"""Values that cloud-init 22.4.2 treats as true (`util.translate_bool`), and an old word for it."""


def _cloud_init(device: str, topic: str, what: str, actual: str, wanted: str) -> Finding:
    fix = f"echo '{wanted}' >/etc/cloud/cloud.cfg.d/99-railyard.cfg; user data that says else wins"
    return on_device(device, f"cloud-init-{topic}", what, actual, wanted, fix).rated("warning")


def judge_session(device: str, failed: Unreachable) -> Finding:
    """Explain why a device could not be read."""
    reason, _, own_fix = (" ".join(part.split()) for part in failed.reason.partition("\n  fix "))
    text = f"{reason}; {own_fix}" if own_fix else reason
    if failed.stranger:
        fix = "compare the key on the device's console, and pin it as ssh.host_key"
        return _session(device, "host-key", "the host key is not the pinned one.", text, fix)
    if _SUDO.search(text):
        what = "the login cannot become root without a password."
        fix = "add as root, with visudo: USER ALL=(root) NOPASSWD: ALL"
        return _session(device, "sudo", what, text, fix, "error")
    if _KEY.search(text):
        what = "the login is refused."
        fix = (
            "look at ssh.user, and at the secret that the device's ssh names; an ESXi host takes"
            " a key of ECDSA or RSA, and none of ed25519"
        )
        return _session(device, "login", what, text, fix, "error")
    if _SLOW.search(text):
        what = "the device let us in, and its answer did not come."
        fix = (
            "look at its load; where short answers come and long ones do not, the MTU of the way"
            " is too large: ping -M do -s 1472 ADDRESS"
        )
        return _session(device, "answer", what, text, fix)
    fix = "look at its power, its address in ssh.address, and the firewall on the way"
    return _session(device, "reach", "the device is not reached.", reason, own_fix or fix)


def _session(
    device: str, cause: str, what: str, actual: str, fix: str, severity: Severity = "unreachable"
) -> Finding:
    return on_device(device, cause, what, actual, "a session that reads", fix).rated(severity)


def judge_switch(switch: Switch, identity: Identity) -> tuple[Finding, ...]:
    """Check that a switch matches the file, and that this login may configure it."""
    return tuple(_judge_switch(switch, identity))


def _judge_switch(switch: Switch, identity: Identity) -> Iterator[Finding]:
    system = system_of(switch.os)
    yield from _silent(switch, identity)
    if identity.release and _numbers(switch, identity.release) != _numbers(switch, switch.release):
        what = (
            "the switch runs another release than the file says; the plan depends on the release."
        )
        fix = f"write the release that it runs, such as {system.a_release}, or update it"
        yield on_device(switch.name, "switch-release", what, identity.release, switch.release, fix)
    if identity.model and not _same_model(identity.model, switch.model):
        what = "the switch is another model than the file says."
        fix = "write its model in switches[].model, or correct the address"
        yield on_device(switch.name, "switch-model", what, identity.model, switch.model, fix)
    if identity.rights:
        what = "the switch does not let this login configure it."
        wanted = f"a user who may configure {system.driver.title}"
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
        yield on_device(
            ufm.name,
            "ufm-rights",
            "UFM does not let this login make partitions.",
            identity.rights,
            "a user of System_Admin, Fabric_Admin or Fabric_Operator",
            "add the user to one group of the list, or name another one in infiniband.ufm.user",
        )


def _silent(switch: Switch, identity: Identity) -> Iterator[Finding]:
    """Report unknown release and model, which cannot be compared with the file."""
    for part, has, wanted in (
        ("release", identity.release, switch.release),
        ("model", identity.model, switch.model),
    ):
        if not has:
            what = f"the switch does not say its {part}, which is then not compared with the file."
            fix = f"compare the {part} yourself, on the switch"
            lack = on_device(switch.name, f"switch-{part}", what, "no answer", wanted, fix)
            yield lack.rated("warning")


def _numbers(switch: Switch, release: str) -> object:
    return system_of(switch.os).parse_release(release)


def _same_model(says: str, wanted: str) -> bool:
    """Compare models: `DCS-7060DX5-64S-F` is DCS-7060DX5-64S, `DellEMC-Z9332f-O32` is Z9332F-ON."""
    said, name = (re.sub(r"[^a-z0-9]", "", text.lower()) for text in (says, wanted))
    return name in said or name.removesuffix("on") in said


def judge_hypervisor(plan: HypervisorPlan, seen: Mapping[str, str]) -> tuple[Finding, ...]:
    """Report faults that would make the step of an ESXi host refuse."""
    runs, wanted = seen.get("release", ""), plan.desired.values.get("release", "")
    release = tuple(_judge_release(plan.name, runs, wanted))
    known = parse_release(runs)
    if known is not None and known.ats == "absent":
        return release  # 6.x answers the other questions differently or not at all
    return (*release, *_judge_parts(plan, seen, runs))


def _judge_release(device: str, runs: str, wanted: str) -> Iterator[Finding]:
    known = parse_release(runs)
    if known is not None and known < FIRST_ATS:
        what = f"ESXi {runs} is not supported: atsSupport begins with {FIRST_ATS.text}."
        fix = f"update ESXi to {FIRST_ATS.text} or later"
        yield on_device(device, "esxi-release", what, runs, FIRST_ATS.text, fix)
    elif runs and runs != wanted:
        what = "the hypervisor runs another release than the file says."
        fix = "write the release that it runs; it decides about atsSupport"
        yield on_device(device, "esxi-release", what, runs, wanted, fix)


def _judge_parts(plan: HypervisorPlan, seen: Mapping[str, str], runs: str) -> Iterator[Finding]:
    for key, value in seen.items():
        if value != "absent" or key not in plan.desired.values:
            continue
        if key == "kernel.atsSupport.configured":
            what = "the hypervisor lacks the kernel setting atsSupport."
            fix = "update ESXi: it begins with 7.0U2"
            yield on_device(plan.name, "ats-support", what, runs, "7.0U2 or later", fix)
        elif key.startswith("pci.") and key.endswith(".current_owner"):
            pci = key.removeprefix("pci.").removesuffix(".current_owner")
            what = f"the hypervisor lacks the PCI device {pci}."
            fix = "correct environment.hypervisors[].vms[]: esxcli hardware pci list"
            yield on_device(plan.name, "esxi-pci", what, "absent", pci, fix)
        elif key.startswith("vm.") and key.endswith(".power"):
            vm = key.removeprefix("vm.").removesuffix(".power")
            what = f"exactly one virtual machine must have the name {vm}."
            fix = "make it, or write the name that `vim-cmd vmsvc/getallvms` lists"
            yield on_device(plan.name, "esxi-vm", what, "absent", vm, fix)


def list_neighbors(plans: Sequence[SwitchPlan], applied: Applied, seen: Seen) -> list[Neighbors]:
    """Count the BGP neighbours of each routed switch that was read."""
    found: list[Neighbors] = []
    for plan in plans:
        facts = seen.switch(plan.name)
        if plan.links is not None and isinstance(facts, SwitchState) and facts.sessions is not None:
            begun = applied.step(plan.step) is not None
            found.append(_count(plan.name, plan.links, facts.sessions, begun=begun))
    return found


def _count(device: str, links: RoutedLinks, sessions: Sessions, *, begun: bool) -> Neighbors:
    why = sessions.unread and f"not known: {sessions.unread}"
    known = sessions.neighbors
    down = tuple(
        f"{end.port} to {end.to}: {known[name].state if name in known else 'never heard'}"
        for name, end in links.ends.items()
        if name not in known or not known[name].is_up
    )
    return Neighbors(
        device=device,
        up=len(links.ends) - len(down),
        planned=len(links.ends),
        down=() if why else down,
        note=why or ("" if begun or not down else "no update has set them up yet"),
    )


def judge_links(plans: Sequence[SwitchPlan], applied: Applied, seen: Seen) -> Iterator[Finding]:
    """Report links that carry fewer routes than applied, in the words of `railyard drift`."""
    networks = networks_of(plans, applied)
    for plan in plans:
        for lost in routing_faults(plan, applied, seen.switch(plan.name), networks):
            yield on_device(
                plan.name,
                "routing",
                "a routed link does not carry the planned routes.",
                f"{lost.where}: {lost.what}",
                "every neighbour and network of the file",
                lost.fix,
            ).rated(_SEVERITIES[lost.kind])
