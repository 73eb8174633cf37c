"""What each device says that it is: as recorded, as the file says, and as it was seen."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, cast

from components.core.key_values import HostState
from components.drift.applied import Applied
from components.fabric.identity import recorded_identity
from components.fabric.state import SwitchState
from components.model.cluster import ClusterSpec
from components.update.seen import Facts, Seen

MACHINE: Final = "machine.id"
"""What the look at a host says of itself: its /etc/machine-id. No setting."""


@dataclass(frozen=True, slots=True)
class MachineIds:
    """The machine id of a host, the serial number of a switch, by its name in today's file."""

    recorded: Mapping[str, str]
    """At the last update."""
    written: Mapping[str, str]
    """In the file: it wins over what was recorded, and so accepts a device that was replaced."""
    seen: Mapping[str, str]
    """At this look."""

    @property
    def contradictions(self) -> Iterator[tuple[str, str, str]]:
        """Devices that are not what the file says, else the last update: name, both values."""
        for name, now in self.seen.items():
            said, was = self.written.get(name), self.recorded.get(name)
            if said and said != now:
                yield name, now, f"the file says {said}"
            elif was and not said and was != now:
                yield name, now, f"the last update found {was}"

    def proves(self, name: str) -> bool:
        """Whether the device itself, or who wrote the file, says it is the recorded one."""
        was, said = self.recorded.get(name), self.written.get(name)
        now = self.seen.get(name, said)
        return now is not None and now == (was or said)

    @property
    def present(self) -> Mapping[str, str]:
        """What each device is now, as it says itself, else as the file says."""
        return {**self.written, **self.seen}


def machine_ids(
    spec: ClusterSpec, applied: Applied, seen: Seen, renames: Mapping[str, str]
) -> MachineIds:
    """All that is known of the devices of a site.

    Args:
        spec: The site.
        applied: What was last applied.
        seen: What was observed.
        renames: Former name to new name, of what this update renames.
    """
    before = {new: old for old, new in renames.items()}
    hosts = {host.name: host.machine_id or "" for host in spec.hosts}
    switches = {switch.name: switch.serial or "" for switch in spec.switches}
    recorded = {name: _of_host(applied, before.get(name, name)) for name in hosts}
    recorded |= {name: _of_switch(applied, before.get(name, name)) for name in switches}
    looked = {name: _told(seen.devices.get(name)) for name in recorded}
    return MachineIds(_unique(recorded), _unique(hosts | switches), _unique(looked))


def _unique(found: Mapping[str, str]) -> dict[str, str]:
    """What several have alike tells nothing: machines made from one image may share the id."""
    counts = Counter(found.values())
    return {name: text for name, text in found.items() if text and counts[text] == 1}


def _of_host(applied: Applied, name: str) -> str:
    step = applied.step(f"{name}-host")
    if step is None or not step.stdout.startswith("{"):
        return ""
    try:
        evidence = cast("Mapping[str, object]", json.loads(step.stdout))
    except ValueError:
        return ""
    return str(evidence.get("machine_id") or "")


def _of_switch(applied: Applied, name: str) -> str:
    steps = (applied.step(f"{name}-apply"), applied.step(f"{name}-baseline"))
    found = (recorded_identity(step.stdout) for step in steps if step is not None)
    return next((each.serial for each in found if each is not None and each.serial), "")


def _told(facts: Facts) -> str:
    if isinstance(facts, HostState):
        return facts.values.get(MACHINE, "")
    if isinstance(facts, SwitchState) and facts.identity is not None:
        return facts.identity.serial
    return ""
