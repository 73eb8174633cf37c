"""What an update would do to the hosts' cards, for people, and why it must not start.

Pure: from what was observed and what is planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from components.core.difference import Effect
from components.core.key_values import HostState
from components.hosts.firmware_pending import (
    NOT_THERE,
    PendingBoot,
    needs_of,
    pending_firmware,
    words_of,
)
from components.hosts.keys.ask import effect_of_key
from components.hosts.plan import HostPlan
from components.model.cluster import ClusterSpec

IN_SERVICE: Final = "pending.in_service"
"""What a host says of itself: `yes` where pods or containers may run."""
_NOTICED: Final = {Effect.CLASS: "changes its class", Effect.TRAFFIC: "loses a moment"}
OWN_CARDS: Final = "correct its pci in hosts; `lspci -D -d 15b3:` on the host lists its cards"


def host_changes(plans: Iterable[HostPlan], facts: Mapping[str, object]) -> tuple[str, ...]:
    """What will be set in the firmware of each host's cards, and what that waits for.

    Args:
        plans: The hosts as planned.
        facts: Device name to what was seen of it; a host that was not read is left out.

    Returns:
        One text for each host with anything to tell: a line, and an indented one for each card.
    """
    found: list[str] = []
    for plan in plans:
        seen = facts.get(plan.name)
        if isinstance(seen, HostState) and (lines := _cards(plan, seen)):
            found.append("\n  ".join((f"{plan.name}: firmware of its cards", *lines)))
    return tuple(found)


def class_changes(plans: Iterable[HostPlan], facts: Mapping[str, object]) -> tuple[str, ...]:
    """Which settings let running traffic change its class or lose a moment, host by host.

    Nothing refuses them: jobs go on, those that run with the class that they began with.

    Args:
        plans: The hosts as planned.
        facts: Device name to what was seen of it, or else last applied; a host without jobs is left
            out.
    """
    found: list[str] = []
    for plan in plans:
        seen = facts.get(plan.name)
        if not isinstance(seen, HostState) or seen.values.get(IN_SERVICE) == "no":
            continue
        for effect, what in _NOTICED.items():
            if words := "; ".join(_moves(plan, seen, effect)):
                found.append(f"{plan.name}: running traffic {what}: {words}")
    return tuple(found)


def _moves(plan: HostPlan, seen: HostState, effect: Effect) -> Iterator[str]:
    """What changes with this effect: each setting once, with all the cards that have it."""
    alike: dict[str, list[str]] = {}
    for key, wanted in sorted(plan.desired.values.items()):
        now = seen.values.get(key, wanted)
        if now != wanted and effect_of_key(key) is effect:
            place, _, setting = key.rpartition(".")
            alike.setdefault(f"{setting}: {now} -> {wanted}", []).append(place.replace(".", " ", 1))
    yield from (f"{text} ({', '.join(places)})" for text, places in alike.items())


def _cards(plan: HostPlan, seen: HostState) -> list[str]:
    pending = pending_firmware(seen, plan.desired)
    lines: list[str] = []
    for pci in dict.fromkeys(each.pci for each in pending):
        own = [each for each in pending if each.pci == pci]
        shown = [each for each in own if each.current != "hidden"]
        needs = words_of(needs_of(seen, pci))
        if coming := _list(each for each in shown if not each.set):
            lines.append(f"{pci}: {coming} is set for its next start; needs {needs}")
        if waiting := _list(each for each in shown if each.set):
            lines.append(f"{pci}: {waiting} is set and waits for {needs}")
        if hidden := ", ".join(each.parameter for each in own if each.current == "hidden"):
            lines.append(
                f"{pci}: hidden until ADVANCED_PCI_SETTINGS is active: {hidden}. This needs two "
                "card restarts: run `pulumi up` again after the first"
            )
    return lines


def _list(changes: Iterable[PendingBoot]) -> str:
    return ", ".join(f"{each.parameter} {each.current} -> {each.next}" for each in changes)


def hosts_refused(
    spec: ClusterSpec, plans: Iterable[HostPlan], facts: Mapping[str, object]
) -> tuple[str, ...]:
    """Why the cards that were seen cannot become what the file asks: before anything is touched.

    A card that is not there is no reason on virtual machines: their hypervisors pass it through in
    the same update.
    """
    found: list[str] = []
    for plan in plans:
        seen = facts.get(plan.name)
        host = spec.host(plan.name)
        if not isinstance(seen, HostState) or host is None:
            continue
        found += _taken_uids(plan, seen)
        for port in (*host.nics, *host.hca_sriov):
            about = _Card(plan, seen, port.pci, passed_through=bool(spec.hypervisors))
            found += about.reasons()
    return tuple(found)


def _taken_uids(plan: HostPlan, seen: HostState) -> Iterator[str]:
    """A common user whose uid belongs to another one: useradd and usermod refuse it."""
    for key, uid in plan.desired.values.items():
        if key.startswith("user.") and (owner := seen.values.get(f"{key}_owner")):
            name = key.removeprefix("user.").removesuffix(".uid")
            yield (
                f"hosts: the uid {uid} on {plan.name} belongs to {owner}, and the file wants it for"
                f" {name}.\n"
                f"  where  host_defaults.user, and {plan.name} as observed\n"
                f"  fix    name {owner} there, choose another uid, or leave user out: none is made"
                " then"
            )


class _Card:
    """One PF: what is wanted of it and what was seen of it."""

    def __init__(self, plan: HostPlan, seen: HostState, pci: str, *, passed_through: bool) -> None:
        self._host = plan.name
        self._wanted = plan.desired.values
        self._seen = seen.values
        self._pci = pci
        self._passed_through = passed_through

    def _both(self, setting: str) -> tuple[str, str]:
        key = f"nic.{self._pci}.{setting}"
        return self._wanted.get(key, ""), self._seen.get(key, "")

    def reasons(self) -> Iterator[str]:
        model, there = self._both("model")
        _, vfs = self._both("vfs")
        if "absent" in {there, vfs}:
            if not self._passed_through:
                yield self._say(f"{self._host} has no PCI device {self._pci}.", OWN_CARDS)
            return
        if there == "unknown":
            yield self._say(
                f"{self._pci} of {self._host} is no card that Railyard knows, and the file says"
                f" {model}.",
                OWN_CARDS,
            )
            return
        if there and there not in NOT_THERE and there != model:
            yield self._say(
                f"the card at {self._pci} of {self._host} is a {there}, and the file says {model}.",
                "correct hosts[].nics[].model, or the PCI address",
            )
            return
        yield from self._version(model)
        yield from self._vfs()

    def _version(self, model: str) -> Iterator[str]:
        floor, runs = self._both("fw_floor")
        if floor and runs and runs != floor and runs not in NOT_THERE:
            yield self._say(
                f"the firmware of {self._pci} ({model}) of {self._host} is {runs}, and "
                f"{floor} or later is wanted.",
                "update it (mlxfwmanager, or flint with the card's image) and reboot; or lower "
                "firmware.min_versions",
            )

    def _vfs(self) -> Iterator[str]:
        wanted, _ = self._both("vfs")
        _, offered = self._both("fw_vfs_offered")
        managed, _ = self._both("fw_num_of_vfs")
        if managed or not wanted.isdigit() or not offered.isdigit():
            return
        if int(wanted) > int(offered):
            yield self._say(
                f"{self._host} {self._pci} is asked for {wanted} VFs, and its firmware offers "
                f"{offered}.",
                "set firmware.manage to true, so that Railyard sets SRIOV_EN and NUM_OF_VFS, or "
                "ask for fewer VFs; where it offers 0, switch on SR-IOV and the IOMMU in the BIOS",
            )

    def _say(self, what: str, fix: str) -> str:
        return f"hosts: {what}\n  where  {self._host}, as observed\n  fix    {fix}"
