"""Which hosts an update will drain or reboot, told before it begins, from what was observed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from components.applied import Applied, AppliedStep
from components.hosts.state import HostState
from components.reboots.pending import (
    BEGUN,
    BOOT,
    IN_SERVICE,
    is_firmware,
    needs_boot,
    needs_drain,
    setting_words,
    waiting_words,
)
from components.reboots.plan import HostRebootStep, RebootGroup

WAITS: Final = "waits "
"""Begins the part of a step's note that says what waits on its host."""
_OWN: Final = re.compile(rf"{WAITS}\d+: .*")


@dataclass(frozen=True, slots=True)
class Departure:
    """One host that will leave service."""

    host: str
    group: int
    groups: int
    boots: tuple[str, ...]
    """What only a boot loads; empty where a drain is enough."""
    drains: tuple[str, ...]
    """What can be set only while nothing runs on the host."""

    def __str__(self) -> str:
        """The words of the preview."""
        verb = "WILL REBOOT" if self.boots else "WILL LEAVE SERVICE"
        return f"{verb} (group {self.group} of {self.groups}): {self.host}: {self.why}"

    @property
    def why(self) -> str:
        """Everything that waits, in words."""
        return "; ".join((*self.boots, *self.drains))


def forecast_departures(
    groups: Sequence[RebootGroup], seen: Mapping[str, HostState]
) -> tuple[Departure, ...]:
    """The hosts that will leave service in this update, in the order in which they go.

    Args:
        groups: The plan.
        seen: Host name to what was observed of it; of others nothing is known,
            and a preview names them as not observed.
    """
    found: list[Departure] = []
    for group in groups:
        for step in group.steps:
            facts = seen.get(step.request.endpoint.device)
            if facts is None:
                continue
            boots, drains = tuple(_boots(step, facts.values)), tuple(_drains(step, facts.values))
            if boots or drains:
                name = step.request.endpoint.device
                found.append(Departure(name, group.number, len(groups), boots, drains))
    return tuple(found)


def render_departures(
    groups: Sequence[RebootGroup], seen: Mapping[str, HostState]
) -> tuple[str, ...]:
    """What a preview says; nothing where no host leaves service."""
    return tuple(str(each) for each in forecast_departures(groups, seen))


def departure_notes(
    groups: Sequence[RebootGroup], seen: Mapping[str, HostState], applied: Applied
) -> dict[str, str]:
    """Why a step runs although neither the plan nor its host's settings are new.

    Something may wait for a boot while every setting is as it was left. A note is counted, and the
    last one stays, so that it changes only when something waits anew.

    Returns:
        Step name to note.
    """
    waiting = {each.host: each for each in forecast_departures(groups, seen)}
    found: dict[str, str] = {}
    for step in (step for group in groups for step in group.steps):
        last = _last_note(applied.step(step.name))
        departure = waiting.get(step.request.endpoint.device)
        if departure is not None:
            number = int(last.removeprefix(WAITS).partition(":")[0] or 0) + 1
            found[step.name] = f"{WAITS}{number}: {departure.why}"
        elif last:
            found[step.name] = last
    return found


def _last_note(step: AppliedStep | None) -> str:
    """The step's own part of its recorded note; the other part is its host's."""
    if step is None or not step.stdin:
        return ""
    request = cast("Mapping[str, object]", json.loads(step.stdin))
    match = _OWN.search(str(request.get("repair") or ""))
    return match[0] if match else ""


def departures_refused(
    groups: Sequence[RebootGroup], seen: Mapping[str, HostState]
) -> tuple[str, ...]:
    """Say, at preview, which hosts would leave service although the file denies it.

    Call it only where `disruption.reboots` is `deny`. What was not observed cannot be judged
    here; the steps refuse it.
    """
    return tuple(
        f"disruption: {each.host} would {'be rebooted' if each.boots else 'be drained'}:"
        f" {each.why}\n"
        "  where  disruption.reboots = deny\n"
        "  fix    plan a window and set disruption.reboots to allow, or take the change back"
        for each in forecast_departures(groups, seen)
    )


def _boots(step: HostRebootStep, values: Mapping[str, str]) -> Iterator[str]:
    """What waits for a boot already, and what this update will make wait for one."""
    own = {
        key: value
        for key, value in values.items()
        if step.request.loads_firmware or not is_firmware(key)
    }
    yield from waiting_words(own, BOOT)
    for key, wanted, now in _differing(step, own):
        already = f"{BOOT}{key}" in own
        if needs_boot(key) and not already:
            yield setting_words(key, f"{now} -> {wanted}")


def _drains(step: HostRebootStep, values: Mapping[str, str]) -> Iterator[str]:
    if values.get(BEGUN):
        yield f"an earlier run took it out of service at boot {values[BEGUN]}, and did not finish"
    if values.get(IN_SERVICE) != "yes":
        return  # nothing runs there: its settings are changed at once
    for key, wanted, now in _differing(step, values):
        if needs_drain(key) and wanted != "inbox" and not (key.endswith(".vfs") and now == "0"):
            yield setting_words(key, f"{now} -> {wanted}")


def _differing(step: HostRebootStep, values: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Each setting that is not as wanted: key, wanted and actual value."""
    for key, wanted in sorted(step.request.settings.items()):
        now = values.get(key, wanted)
        if now != wanted:
            yield key, wanted, now
