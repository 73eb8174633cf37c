"""The changes and refusals of an update on the hosts, as text for people. Pure.

Both come from the observed and the planned state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from components.core.difference import Effect
from components.core.key_values import HostState
from components.core.problem import Finding, on_device
from components.core.templates import fault_text, finding_of, read_table
from components.hosts import software
from components.hosts.host_plan import HostPlan
from components.hosts.keys.ask import effect_of, find_row
from components.hosts.look import LOOK_PREFIX, parse_look
from components.model.cluster import ClusterSpec

IN_SERVICE: Final = "pending.in_service"
"""The host's own answer: `yes` if pods or containers may run."""
_NOTICED: Final = {Effect.CLASS: "changes its class", Effect.TRAFFIC: "loses a moment"}
OWN_CARDS: Final = "correct its pci in hosts; `lspci -D -d 15b3:` on the host lists its cards"
_NO_VALUE: Final = frozenset({"", "absent", "unsupported", "unknown", "hidden"})
_OFED: Final = frozenset({"doca_ofed", "mlnx_ofed", "other"})
_CARD_SETTINGS: Final = frozenset({"netdev", "eswitch_now", "lldpad", "serial"})
"""Settings of a card that are compared, and that no step changes."""
_VERSIONS: Final = ("driver.gpu_host", "driver.gpu_modules", "driver.dma_buf")


def host_changes(plans: Iterable[HostPlan], facts: Mapping[str, object]) -> tuple[str, ...]:
    """The firmware settings to write to each observed host's cards, and when they are active."""
    found: list[str] = []
    for plan in plans:
        seen = facts.get(plan.name)
        is_seen = isinstance(seen, HostState)
        pending = software.pending_firmware(seen, plan.desired) if is_seen else ()
        lines = [f"{plan.name}: firmware of its cards"]
        for pci in dict.fromkeys(each.pci for each in pending):
            own = [each for each in pending if each.pci == pci]
            shown = [each for each in own if each.current != "hidden"]
            needs = software.NEEDS_WORDS[own[0].needs]
            if coming := _list(each for each in shown if not each.set):
                lines.append(f"{pci}: {coming} is set for its next start; needs {needs}")
            if waiting := _list(each for each in shown if each.set):
                lines.append(f"{pci}: {waiting} is set and waits for {needs}")
            if hidden := ", ".join(each.parameter for each in own if each.current == "hidden"):
                lines.append(fault_text(__file__, "hidden", pci=pci, names=hidden))
        found += ["\n  ".join(lines)] if pending else []
    return tuple(found)


def class_changes(plans: Iterable[HostPlan], facts: Mapping[str, object]) -> tuple[str, ...]:
    """The settings whose change moves running traffic to another class or interrupts it briefly.

    No rule refuses them: jobs go on, and existing connections keep their class. `facts` has the
    observed, or else the last applied, state; a host without jobs is left out.
    """
    found: list[str] = []
    for plan in plans:
        seen = facts.get(plan.name)
        if not isinstance(seen, HostState) or seen.values.get(IN_SERVICE) == "no":
            continue
        for effect, what in _NOTICED.items():
            # Each setting once, with all of its cards.
            alike: dict[str, list[str]] = {}
            for key, wanted in sorted(plan.desired.values.items()):
                now, (place, _, setting) = seen.values.get(key, wanted), key.rpartition(".")
                if now != wanted and effect_of(find_row(key)) is effect:
                    places = alike.setdefault(f"{setting}: {now} -> {wanted}", [])
                    places.append(place.replace(".", " ", 1))
            if words := "; ".join(f"{text} ({', '.join(at)})" for text, at in alike.items()):
                found.append(f"{plan.name}: running traffic {what}: {words}")
    return tuple(found)


def _list(changes: Iterable[software.PendingBoot]) -> str:
    return ", ".join(f"{each.parameter} {each.current} -> {each.next}" for each in changes)


def hosts_refused(
    spec: ClusterSpec, plans: Iterable[HostPlan], facts: Mapping[str, object]
) -> tuple[Finding, ...]:
    """Why an observed card cannot get the wanted settings; asked before any change.

    A virtual machine may lack a card: its hypervisor passes it through in the same update.
    """
    found: list[Finding] = []
    for plan in plans:
        seen, host = facts.get(plan.name), spec.host(plan.name)
        if not isinstance(seen, HostState) or host is None:
            continue
        for key, uid in plan.desired.values.items():
            # useradd and usermod refuse the uid of another user.
            if key.startswith("user.") and (owner := seen.values.get(f"{key}_owner")):
                user = key.removeprefix("user.").removesuffix(".uid")
                words = {"uid": uid, "owner": owner, "user": user}
                found.append(finding_of(__file__, "foreign-uid", device=plan.name, **words))
        for port in (*host.nics, *host.hca_sriov):
            found += _card_faults(plan, seen, port.pci, passed_through=bool(spec.hypervisors))
    return tuple(found)


def _card_faults(
    plan: HostPlan, seen: HostState, pci: str, *, passed_through: bool
) -> Iterator[Finding]:
    """The faults of a card; another card has only that one."""
    fault = partial(finding_of, __file__, device=plan.name, pci=pci)
    keys = ("model", "vfs", "fw_floor", "fw_num_of_vfs", "fw_vfs_offered")
    want = {key: plan.desired.values.get(f"nic.{pci}.{key}", "") for key in keys}
    has = {key: seen.values.get(f"nic.{pci}.{key}", "") for key in keys}
    model, there = want["model"], has["model"]
    if "absent" in {there, has["vfs"]}:
        if not passed_through:
            yield fault("absent-card", fix=OWN_CARDS)
    elif there == "unknown":
        yield fault("unknown-card", model=model, fix=OWN_CARDS)
    elif there and there not in software.NOT_THERE and there != model:
        yield fault("other-card", there=there, model=model)
    else:
        floor, runs = want["fw_floor"], has["fw_floor"]
        if floor and runs and runs != floor and runs not in software.NOT_THERE:
            yield fault("old-firmware", model=model, runs=runs, floor=floor)
        asked, offered = "" if want["fw_num_of_vfs"] else want["vfs"], has["fw_vfs_offered"]
        if asked.isdigit() and offered.isdigit() and int(asked) > int(offered):
            yield fault("few-vfs", asked=asked, offered=offered)


def _fault(device: str, cause: str, actual: str, wanted: str, pci: str = "") -> Finding:
    """The finding of a cause in `faults.yaml`."""
    row: Mapping[str, str] = read_table(__file__, "faults")[cause]
    what, rule = row["what"].format(pci=pci), row.get("rule", cause)
    return on_device(device, rule, what, actual, wanted, row["fix"])


def judge_settings(plan: HostPlan, seen: Mapping[str, str]) -> tuple[Finding, ...]:
    """Settings that no step may change, and that differ from the file."""
    wanted, device = plan.desired.values, plan.name
    found: list[Finding] = []
    for key, want in wanted.items():
        pci, _, setting = key.removeprefix("nic.").rpartition(".")
        has, runs = seen.get(key, ""), setting == "lldpad"
        differs = has == "running" if runs else has != want and has not in _NO_VALUE
        if key.startswith("nic.") and setting in _CARD_SETTINGS and differs:
            found.append(_fault(device, setting, has, "not running" if runs else want, pci))
    # NetworkManager has a card: the update takes it, unless that would remove a needed setting.
    for key in (key for key in wanted if key.endswith(".network_manager")):
        pci, has = key.split(".", 1)[1].rpartition(".")[0], seen.get(key, "")
        if has == "managed":
            found.append(_fault(device, "network-manager", pci, "unmanaged").rated("warning"))
        elif has.startswith("managed"):
            found.append(_fault(device, "network-manager-profile", f"{pci} {has}", "none"))
    return (*found, *_drivers(device, wanted, seen))


def _drivers(device: str, wanted: Mapping[str, str], seen: Mapping[str, str]) -> Iterator[Finding]:
    kind, has = wanted.get("driver.kind", ""), seen.get("driver.kind", "")
    if kind and has in _OFED and has != kind:
        yield _fault(device, "driver other", has, kind)
    present, there = wanted.get("driver.present", ""), seen.get("driver.present", "")
    if present and there and there != present:
        # The last word of the look's `<kind> <version> <flaw>`.
        flaw = " ".join(there.split()[2:])
        known = flaw in {"without-modules", "not-loaded", "too-old"}
        yield _fault(device, f"driver {flaw if known else 'absent'}", there, present)
    for key in _VERSIONS:
        want, runs = wanted.get(key, ""), seen.get(key, "")
        if want and runs and runs not in {want, "unsupported"}:
            yield _fault(device, key, runs, want)


def judge_gpus(device: str, wanted: int, seen: Mapping[str, str]) -> tuple[Finding, ...]:
    """Whether the host has as many GPUs as the file says, by its PCI devices."""
    lines = (f"{key}={value}" for key, value in seen.items() if key.startswith(LOOK_PREFIX))
    look = parse_look(lines)
    if not look.seen or len(look.gpus) == wanted:
        return ()
    return (_fault(device, "gpus", str(len(look.gpus)), str(wanted)),)
