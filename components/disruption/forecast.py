"""Predict from the observed facts which hosts an update will drain or reboot.

The host itself reports its waiting changes: the `pending` lines of `service.sh`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from components.core.key_values import HostState, parse_state
from components.core.problem import Finding
from components.core.record import record
from components.core.templates import finding_of
from components.disruption.disruption_plan import HostRebootStep, RebootGroup
from components.disruption.leave_plan import denied
from components.drift.applied import Applied
from components.hosts.keys import ask
from components.hosts.software import BACK, needs_of, released_settings
from components.remote.lines import parse_lines

BOOT: Final = "pending.boot."
DRAIN: Final = "pending.drain."
POWER: Final = "pending.power."
BEGUN: Final = "pending.begun"
IN_SERVICE: Final = "pending.in_service"
WAITS: Final = "waits "
"""Start of the part of a step's note that lists its host's waiting changes."""
_RELOADS: Final = "reboots unless the modules can be reloaded"
_OWN: Final = re.compile(rf"{WAITS}\d+: .*")


@record
class Waiting:
    """Changes that wait on a host."""

    boot_id: str
    begun: str | None
    """Boot id at which an earlier run began to take the host out of service. None if none did;
    empty if a full disk stored only the mark's file name."""
    boots: tuple[str, ...]
    """Changes that need a boot, in words."""
    drains: tuple[str, ...]
    """Changes that the host must be out of service for, in words."""
    ends_vfs: bool = False
    """A card will lose its VFs, or return to the number from before Railyard."""
    powers: tuple[str, ...] = ()
    """Firmware changes that need a power cycle, since neither a drain nor a reboot loads them."""

    @property
    def words(self) -> list[str]:
        """All waiting changes."""
        return [*self.boots, *self.drains]

    @property
    def names(self) -> list[str]:
        """Devices that udev has not renamed: `nic 0000:05:00.0 boot_rdma a -> b`."""
        return [words for words in self.boots if " boot_name " in words or " boot_rdma " in words]

    @property
    def anything(self) -> bool:
        """Whether the host has work to do."""
        return self.begun is not None or bool(self.words)


def read_waiting(text: str, without: Collection[str] = ()) -> Waiting:
    """Parse the answer of `maintain.sh look`; the drains in `without` are left out."""
    values = dict(parse_state(text).values)
    for key in without:
        values.pop(f"{DRAIN}{key}", None)
    return Waiting(
        boot_id=values.get("boot_id", ""),
        begun=values.get(BEGUN),
        boots=_waiting_words(values, BOOT),
        drains=_waiting_words(values, DRAIN),
        ends_vfs=any(  # for a card that left the file, the host reports only that they wait
            value == "waits" or value.endswith("-> 0")
            for key, value in values.items()
            if key.startswith(f"{DRAIN}nic.") and key.endswith(".vfs")
        ),
        powers=_waiting_words(values, POWER),
    )


def _waiting_words(values: Mapping[str, str], prefix: str) -> tuple[str, ...]:
    """Return the lines of one kind, such as `nic 0000:05:00.0 vfs 8 -> 4`."""
    return tuple(
        _setting_words(key.removeprefix(prefix), value)
        for key, value in sorted(values.items())
        if key.startswith(prefix)
    )


def _setting_words(key: str, value: str) -> str:
    """Format a setting for people: `nic 0000:05:00.0 vfs 8 -> 4`."""
    where, _, setting = key.rpartition(".")
    kind, _, rest = where.partition(".")
    return " ".join(part for part in (kind, rest, setting, value) if part)


@record
class Departure:
    """One host that will leave service."""

    host: str
    group: int
    groups: int
    boots: tuple[str, ...]
    """Changes that need a boot; empty if a drain is enough."""
    drains: tuple[str, ...]
    """Changes that need a host without jobs."""
    reloads: tuple[str, ...] = ()
    """Driver changes: only the installation shows whether they need a boot."""

    def __str__(self) -> str:
        """Format the line of the preview."""
        verb = "WILL LEAVE SERVICE" if self.drains else "MAY REBOOT"
        verb = "WILL REBOOT" if self.boots else verb
        return f"{verb} (group {self.group} of {self.groups}): {self.host}: {self.why}"

    @property
    def why(self) -> str:
        """All waiting changes, in words."""
        named = dict.fromkeys((*self.boots, *self.drains, *self.reloads))
        return "; ".join((*named, _RELOADS) if self.reloads and not self.boots else named)

    @property
    def fate(self) -> str:
        """The host's fate, in words after its name and `would`."""
        fate = "be drained" if self.drains else "perhaps be rebooted"
        return "be rebooted" if self.boots else fate


def forecast_departures(
    groups: Sequence[RebootGroup], seen: Mapping[str, HostState]
) -> tuple[Departure, ...]:
    """Return the hosts with facts that leave service in this update, in order."""
    found: list[Departure] = []
    for group in groups:
        for step in group.steps:
            name = step.request.endpoint.device
            if (facts := seen.get(name)) is None:
                continue
            what = [tuple(words(step, facts.values)) for words in (_boots, _drains, _reloads)]
            if any(what):
                found.append(Departure(name, group.number, len(groups), *what))
    return tuple(found)


def departure_notes(
    groups: Sequence[RebootGroup], seen: Mapping[str, HostState], applied: Applied
) -> dict[str, str]:
    """Return, by step, why it runs although neither the plan nor its host's settings changed.

    A note has a number, and the last one stays, so it changes only if another change waits.
    """
    waiting = {each.host: each for each in forecast_departures(groups, seen)}
    found: dict[str, str] = {}
    for step in (step for group in groups for step in group.steps):
        # The step's own part of its recorded note; the other part comes from its host.
        note = parse_lines(applied.stdin(step.name)).get("repair")
        own = _OWN.search(str(note or ""))
        last = own[0] if own else ""
        departure = waiting.get(step.request.endpoint.device)
        if departure is not None:
            number = int(last.removeprefix(WAITS).partition(":")[0] or 0) + 1
            found[step.name] = f"{WAITS}{number}: {departure.why}"
        elif last:
            found[step.name] = last
    return found


def departures_refused(
    groups: Sequence[RebootGroup], seen: Mapping[str, HostState]
) -> tuple[Finding, ...]:
    """Refuse, at preview, departures that the file denies; the steps refuse unobserved hosts."""
    return tuple(
        denied(f"{each.host} would {each.fate}: {each.why}", each.host)
        for each in forecast_departures(groups, seen)
    )


def passing_refused(
    groups: Sequence[RebootGroup], seen: Mapping[str, HostState], away: Mapping[str, str]
) -> tuple[Finding, ...]:
    """Refuse to continue to a group while a host of an earlier group does not answer.

    It may be the host that did not return after the last update: only that host knows that it left.
    `away` has the reason for each device's silence, and nothing with `railyard:observe: never`.
    """
    leaving = forecast_departures(groups, seen)
    if not leaving:
        return ()
    last = leaving[-1]
    find = partial(finding_of, __file__, "passing", last=last, count=len(groups))
    return tuple(
        find(device=host, why=away[host], group=group)
        for group in groups
        if group.number < last.group
        for host in group.hosts
        if host in away
    )


def _boots(step: HostRebootStep, values: Mapping[str, str]) -> Iterator[str]:
    """Yield changes that wait for a boot already, and those that this update adds."""
    own = {
        key: value
        for key, value in values.items()
        if step.request.loads_firmware
        or not ask.find_row(key.removeprefix(BOOT).removeprefix(BACK)).parameter
    }
    changes = {
        key: (now, wanted)
        for key, wanted, now in _differing(step, own)
        if ask.find_row(key).loads_at_start and _loaded_by_boot(key, values)
    }
    released = {key: each for key, *each in released_settings(own, step.request.settings)}
    yield from _waiting_words(
        {key: own[key] for key in own if key[len(BOOT) :] not in {*changes, *released}}, BOOT
    )
    for key, (now, before) in released.items():
        if now != before and _loaded_by_boot(key, values):
            yield _setting_words(key, f"{now} -> {before}, as before Railyard")
    for key, (following, wanted) in changes.items():
        now, waits, _ = own.get(f"{BOOT}{key}", "").partition(" -> ")
        runs = now if waits else following  # the next boot loads another value
        if runs not in {wanted, "absent"}:
            yield _setting_words(key, f"{runs} -> {wanted}")


def _loaded_by_boot(key: str, values: Mapping[str, str]) -> bool:
    """Whether a boot loads it; some firmware needs a power cycle or a card reset."""
    pci = key.removeprefix("nic.").rpartition(".")[0]
    return not ask.find_row(key).parameter or needs_of(HostState(values), pci) == "reboot"


def _drains(step: HostRebootStep, values: Mapping[str, str]) -> Iterator[str]:
    if BEGUN in values:
        at = f" at boot {values[BEGUN]}" if values[BEGUN] else ""
        yield f"an earlier run took it out of service{at}, and did not finish"
    changes: dict[str, str] = {}
    if values.get(IN_SERVICE) == "yes":  # otherwise converge changes all at once
        for key, wanted, now in _differing(step, values):
            if not ask.is_idle(key, wanted):
                changes[key] = f"{now} -> {wanted}"
        for key in sorted(values.keys() - step.request.settings.keys()):
            # Link settings may be observed for a guard only, and not be Railyard's.
            if key.startswith("nic.") and ask.find_row(key).interrupts != "takes_link":
                changes[key] = f"{values[key]} -> as before Railyard"
    changes = {k: v for k, v in changes.items() if ask.needs_drain(k) and _has_vfs(k, values)}
    yield from (_setting_words(key, value) for key, value in changes.items())
    waiting = {k: v for k, v in values.items() if k.removeprefix(DRAIN) not in changes}
    yield from _waiting_words(waiting, DRAIN)


def _has_vfs(key: str, values: Mapping[str, str]) -> bool:
    """Whether a job may use the changed part: the link, the VF, or a VF of the card."""
    kind, _, rest = key.partition(".")
    where = rest.rpartition(".")[0]
    if ask.find_row(key).interrupts == "takes_link":
        return True
    if kind == "vf":
        return values.get(key) != "absent" and _has_vfs(f"nic.{where}", values)
    return kind != "nic" or values.get(f"nic.{where}.vfs") not in {"0", "absent"}


def _reloads(step: HostRebootStep, values: Mapping[str, str]) -> Iterator[str]:
    """Yield driver changes that may need a reload; without a loaded driver nothing must reload."""
    if "absent" in {values.get("driver.kind"), values.get("driver.loaded")}:
        return
    for key, wanted, now in _differing(step, values):
        if ask.find_row(key).interrupts == "always" and not ask.is_idle(key, wanted):
            yield _setting_words(key, f"{now} -> {wanted}")


def _differing(step: HostRebootStep, values: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for key, wanted in sorted(step.request.settings.items()):
        now = values.get(key, wanted)
        if now != wanted:
            yield key, wanted, now
