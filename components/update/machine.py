"""What each device says that it is: as recorded, as the file says, and as it was seen."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, cast

from components.core.key_values import HostState
from components.drift.applied import Applied
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


def machine_ids(spec: ClusterSpec, applied: Applied, seen: Seen) -> MachineIds:
    """All that is known of the devices of a site."""
    said = {host.name: host.machine_id or "" for host in spec.hosts}
    said |= {switch.name: switch.serial or "" for switch in spec.switches}
    recorded: dict[str, str] = {}
    for end in ("-baseline", "-apply", "-host"):  # the later one wins
        for name, step in applied.steps.items():
            if (
                name.endswith(end)
                and step.stdout.startswith("{")
                and (text := _machine(step.stdout))
            ):
                recorded[name.removesuffix(end)] = text
    looked = {name: _told(seen.devices.get(name)) for name in said}
    return MachineIds(_unique(recorded), _unique(said), _unique(looked))


def _unique(found: Mapping[str, str]) -> dict[str, str]:
    """What several have alike tells nothing: machines made from one image may share the id."""
    counts = Counter(found.values())
    return {name: text for name, text in found.items() if text and counts[text] == 1}


def _machine(stdout: str) -> str:
    """What the output of a step recorded of its device."""
    try:
        found = cast("dict[str, str | dict[str, str] | None]", json.loads(stdout))
    except ValueError:
        return ""
    switch = found.get("identity") or {}
    return str(found.get("machine_id") or (isinstance(switch, dict) and switch.get("serial")) or "")


def _told(facts: Facts) -> str:
    if isinstance(facts, HostState):
        return facts.values.get(MACHINE, "")
    if isinstance(facts, SwitchState) and facts.identity is not None:
        return facts.identity.serial
    return ""
