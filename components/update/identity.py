"""Check which machine has each name: compare the recorded devices with those of the file.

Each device reports an identity: a machine id or a serial number. A step is named after its device.
If a device only gets another name, the update would set it up under the new name, and at the end
undo it under the old one. So this module compares the devices of the state and of the plan by
address, host key and recorded identity.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from operator import itemgetter
from typing import Final, cast

from pydantic import JsonValue

from components.core.key_values import HostState
from components.core.plain_text import shortened
from components.core.problem import Finding
from components.core.record import record, replace
from components.core.templates import finding_of
from components.core.to_json import to_json
from components.drift.applied import Applied
from components.fabric.cabling import contradictions
from components.fabric.parts import other_stack_text
from components.fabric.state import SwitchState
from components.kubernetes.manifest import map_at
from components.model.cluster import ClusterSpec
from components.model.once import once
from components.plan.make import ClusterPlan
from components.remote.lines import parse_lines
from components.remote.sending import TOOLS_SUFFIX
from components.remote.step import bracketed
from components.update.seen import Situation

MACHINE: Final = "machine.id"
"""The host's /etc/machine-id in the reading. It is not a setting."""
_ENDS: Final = {"host": TOOLS_SUFFIX, "switch": "-apply"}
"""Kind of device to the end of the step name whose stdin has its endpoint."""
_SHOWN: Final = 4
"""Wrong cables that a refusal lists."""


def _unique(found: Mapping[str, str]) -> dict[str, str]:
    """Drop shared ids, which prove nothing: machines made from one image may have the same id."""
    counts = Counter(found.values())
    return {name: text for name, text in found.items() if text and counts[text] == 1}


def _machine(stdout: str) -> str:
    """Return the device identity in a step's output."""
    try:
        found = cast("dict[str, object]", json.loads(stdout if stdout.startswith("{") else "{}"))
    except ValueError:
        return ""
    return str(found.get("machine_id") or map_at(found, "identity").get("serial") or "")


@record
class Device:
    """One device of a state or of a plan."""

    name: str
    kind: str
    """`host`, also for a hypervisor, or `switch`."""
    place: str
    """Address and port, with its jump hosts, since two machines may share an address."""
    host_key: str

    def is_same(self, other: Device) -> bool:
        """Whether both have one address or one host key: sites may give a name to two machines."""
        return self.place == other.place or self.host_key == other.host_key != ""

    @property
    def noun(self) -> str:
        """The common word for the device."""
        return "switch" if self.kind == "switch" else "machine"


@record
class _Claim:
    """A device of the plan, and the recorded device of another name that it may be."""

    new: Device
    old: Device
    proof: str
    """The evidence, in words; empty if only the address matches."""

    def __str__(self) -> str:
        if not self.proof:
            return f"{self.new.name} has the address that {self.old.name} had, {self.old.place}"
        what = f"{self.new.name} is the {self.new.noun} formerly named {self.old.name}"
        return f"{what} ({self.proof})"


def judge_identity(at: Situation) -> Iterator[Finding]:
    """Refuse an update if a name now means another machine, one text for each cause.

    Accept a moved device (same host key, another address) and a replaced one (another host key, new
    address), except for the only server of a cluster.
    """
    found = _Compared(at)
    yield from found.false_renames()
    groups: list[list[_Claim]] = []  # claims that share a name, such as the two of a swap
    for claim in found.claims:
        names = {claim.new.name, claim.old.name}
        near = [g for g in groups if any(names & {c.new.name, c.old.name} for c in g)]
        groups = [g for g in groups if g not in near]
        groups.append([*(each for g in near for each in g), claim])
    yield from map(found.cause, groups)
    yield from found.others()
    seen = ((each, at.seen.switch(each.name)) for each in at.plan.switches)
    read = [(switch, facts) for switch, facts in seen if isinstance(facts, SwitchState)]
    for switch, facts in read if at.spec.guards.cabling == "refuse" else ():
        if wrong := contradictions(switch.cables, facts.neighbours):
            ports, count = shortened(wrong, _SHOWN, "; "), len(wrong)
            yield finding_of(__file__, "other-cables", device=switch.name, count=count, ports=ports)
    for switch, facts in read:
        for other in facts.identity.stacks if facts.identity else ():
            if other != at.plan.stack:
                words = f"{switch.name}: {other_stack_text(at.plan.stack, other)}"
                what, _, fix = words.partition("\n  fix    ")
                yield Finding(what, (), fix, rule="identity", device=switch.name)
    servers = recorded_nodes(at.applied, "server")
    yield from found.only_server(servers[0]) if len(servers) == 1 else ()


def known_state(at: Situation) -> Applied:
    """Return the applied state without devices that the file renames without declaring it."""
    found = _Compared(at)
    renamed = {claim.old.name for claim in found.claims} - found.now.keys()
    names = tuple(f"{name}-" for name in renamed)
    left = {name: each for name, each in at.applied.steps.items() if not name.startswith(names)}
    return replace(at.applied, steps=left) if names else at.applied


@once
def recorded_devices(applied: Applied) -> Mapping[str, Device]:
    """Return every device with steps in a state, by its name there."""
    found: dict[str, Device] = {}
    for name, step in applied.steps.items():
        for kind, ending in _ENDS.items():
            device, end = name.removesuffix(ending), None
            if device != name:
                lines = (line for line in step.stdin.splitlines() if line.startswith("endpoint."))
                with suppress(ValueError):
                    end = parse_lines("\n".join(lines)).get("endpoint")
            if isinstance(end, dict) and end and _kind(end) == kind:
                found[device] = replace(_device(end), name=device)  # its endpoint may be renamed
    return found


def _kind(end: Mapping[str, JsonValue]) -> str:
    return "switch" if end.get("kind") == "switch" else "host"


def _device(end: Mapping[str, JsonValue]) -> Device:
    hops = cast("list[Mapping[str, JsonValue]]", end.get("jump") or [])
    ways = (f"{bracketed(str(hop['address']))}:{hop['port']}" for hop in (end, *reversed(hops)))
    return Device(str(end["device"]), _kind(end), " by ".join(ways), str(end.get("host_key") or ""))


def planned_devices(plan: ClusterPlan) -> Mapping[str, Device]:
    """Return every device of a plan, except those whose cloud address is unknown yet."""
    ends = [switch.endpoint for switch in plan.switches]
    ends += [each.sending.endpoint for each in (*plan.hypervisors, *plan.hosts)]
    documents = (cast("dict[str, JsonValue]", to_json(end)) for end in ends if end.reachable)
    return {device.name: device for device in map(_device, documents)}


def renames_of(spec: ClusterSpec, applied: Applied) -> Mapping[str, str]:
    """Map old names to new for declared renames that the state does not have yet."""
    moved = tuple(applied.former)
    return {
        old: new
        for new, old in spec.renamed.all.items()
        if any(step.startswith(f"{new}-") for step in moved)
    }


class _Compared:
    """The devices of a state and of a plan, compared by their identities."""

    def __init__(self, at: Situation) -> None:
        self.spec, self.stack = at.spec, at.plan.stack
        self.renames = renames_of(at.spec, at.applied)
        self.was, self.now = recorded_devices(at.applied), planned_devices(at.plan)
        # The machine id of each host and the serial number of each switch: from the file, which
        # overrides the last update, and so accepts a replaced device; from the last update; and
        # from this reading.
        says = {host.name: host.machine_id or "" for host in at.spec.hosts}
        says |= {switch.name: switch.serial or "" for switch in at.spec.switches}
        known: dict[str, str] = {}
        for end in ("-baseline", "-apply", "-host"):  # the later step wins
            for name, step in at.applied.steps.items():
                if name.endswith(end) and (text := _machine(step.stdout)):
                    known[name.removesuffix(end)] = text
        self.written, self.recorded = _unique(says), _unique(known)
        seen: dict[str, str] = {}
        for name in says:
            facts = at.seen.devices.get(name)
            if isinstance(facts, HostState):
                seen[name] = facts.values.get(MACHINE, "")
            elif isinstance(facts, SwitchState) and facts.identity is not None:
                seen[name] = facts.identity.serial
        self.seen = _unique(seen)
        self.present = {**self.written, **self.seen}
        keys = (Counter(each.host_key for each in part.values()) for part in (self.was, self.now))
        self._shared = {key for counts in keys for key, count in counts.items() if count > 1}

    def proves(self, name: str) -> bool:
        """Whether the device or the file confirms the recorded identity."""
        was, said = self.recorded.get(name), self.written.get(name)
        now = self.seen.get(name, said)
        return now is not None and now == (was or said)

    @cached_property
    def claims(self) -> list[_Claim]:
        """Devices of the plan that match a recorded device of another name."""
        by_place = {each.place: each for each in self.was.values()}
        by_key = {each.host_key: each for each in self.was.values() if self._is_proof(each)}
        by_id = {self.recorded.get(name): each for name, each in self.was.items()}
        claims: list[_Claim] = []
        for new in self.now.values():
            own, proven = self.was.get(new.name), self.proves(new.name)
            if own == new or (own and proven and new.name in self.seen):
                continue
            found = (by_id.get(self.present.get(new.name, "")), by_key.get(new.host_key))
            place = None if own and proven else by_place.get(new.place)
            olds = (old for old in (*found, place) if old and old.kind == new.kind)
            old = next((old for old in olds if old.name != new.name), None)
            if old is None:
                continue
            number = self.recorded.get(old.name)
            same_id = number is not None and number == self.present.get(new.name)
            same_key = bool(new.host_key) and new.host_key == old.host_key
            said = [f"same identity {number}"] if same_id else []
            said += [f"same host key {new.host_key}"] if same_key else []
            said += [f"same address {new.place}"] if said and new.place == old.place else []
            claims.append(_Claim(new, old, ", ".join(said)))
        return claims

    def _is_proof(self, device: Device) -> bool:
        """Whether a host key proves identity; machines made from one image may share it."""
        return bool(device.host_key) and device.host_key not in self._shared

    def cause(self, group: list[_Claim]) -> Finding:
        """Refuse a group of related claims."""
        first, gone = group[0], len(group) == 1 and group[0].old.name not in self.now
        old, new = first.old.name, first.new.name
        words = {"claims": "; ".join(map(str, group)), "old": old, "new": new}
        if not (gone and new not in self.was and first.proof):
            row = "replaced" if gone else "swapped" if first.proof else "moved"
            return finding_of(__file__, row, **words)
        command = f"railyard rename {first.new.kind} {old} {new} --stack {self.stack}"
        # Unlike ESXi hosts and their machines, for which the command does not exist.
        esxi = {each.name for each in self.spec.hypervisors}
        esxi |= {vm.name for each in self.spec.hypervisors for vm in each.vms}
        choices = f"write {old}" if new in esxi else f"`{command}`, or write {old} again"
        return finding_of(__file__, "renamed", choices=choices, noun=first.new.noun, **words)

    def false_renames(self) -> Iterator[Finding]:
        """Refuse a declared rename to another device."""
        for old, name in self.renames.items():
            new, was = self.now.get(name), self.was[name]
            if new is None or self.proves(name) or new.place == was.place:
                continue
            if not (self._is_proof(new) and new.host_key == was.host_key):
                words = {"noun": new.noun, "old": old, "was": was.place, "place": new.place}
                yield finding_of(__file__, "false-rename", name=name, **words)

    def others(self) -> Iterator[Finding]:
        """Refuse devices with another identity than the file's or the recorded one."""
        claimed = {claim.new.name for claim in self.claims}
        for name, says in self.seen.items():
            said, was = self.written.get(name), self.recorded.get(name)
            if says == (said or was or says):
                continue
            wants = f"the file says {said}" if said else f"the last update found {was}"
            new, old, host = self.now.get(name), self.was.get(name), self.spec.host(name)
            written = host is None or host.machine_id is not None
            reinstalled = new and old and not written and new.host_key != old.host_key
            if name in claimed or reinstalled:
                continue  # a reinstalled system has a new machine id, and the file has its new key
            yield finding_of(__file__, "other-device", name=name, says=says, wants=wants)

    def only_server(self, name: str) -> Iterator[Finding]:
        """Refuse another machine as the only server, which would start a second, empty cluster."""
        new, old, known = self.now.get(name), self.was.get(name), self.recorded.get(name)
        claimed = any(claim.new.name == name for claim in self.claims)
        if new is None or old is None or new.place == old.place or claimed:
            return
        if self.proves(name) and (known or new.host_key == old.host_key):
            return
        proof = f"`machine_id: {known}`" if known else "its `machine_id`"
        words = {"was": old.place, "place": new.place, "proof": proof}
        yield finding_of(__file__, "other-server", name=name, **words)


def recorded_nodes(applied: Applied, role: str) -> tuple[str, ...]:
    """Return the hosts with K3s last installed as `server` or as `agent`."""
    steps = sorted(applied.steps.items(), key=itemgetter(0))
    nodes = ((name, step.stdin) for name, step in steps if name.endswith("-k3s"))
    return tuple(name.removesuffix("-k3s") for name, text in nodes if f"\nrole={role}\n" in text)
