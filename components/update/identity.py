"""Which machine is behind a name: what was recorded of each device against what the file says.

A step is named after its device. So a device that only gets another name would be set up under the
new one, and undone under the old one at the end of the same update. Here the devices of the state
are compared with those of the plan, by their address, their host key and their recorded identity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, cast

from pydantic import JsonValue

from components.drift.applied import Applied, AppliedStep
from components.fabric.cabling import contradictions
from components.fabric.state import SwitchState
from components.model.cluster import ClusterSpec
from components.plan.make import ClusterPlan
from components.remote.lines import parse_lines
from components.remote.sending import TOOLS_SUFFIX
from components.remote.step import Endpoint, bracketed
from components.update.machine import MachineIds, machine_ids
from components.update.seen import Seen

_SWITCH_SUFFIX: Final = "-apply"
_PAGE: Final = "docs/howto/rename-and-replace.md"
_SHOWN: Final = 4
"""Wrong cables that a refusal names."""
_NOTHING: Final = "Nothing was changed on any device."


@dataclass(frozen=True, slots=True)
class Device:
    """One device, as a state recorded it or as a plan has it."""

    name: str
    kind: str
    """`host`, which is a hypervisor too, or `switch`."""
    place: str
    """Address and port, behind its jump hosts: two machines may share an address."""
    host_key: str

    @property
    def noun(self) -> str:
        """What people call it."""
        return "switch" if self.kind == "switch" else "machine"


@dataclass(frozen=True, slots=True)
class _Claim:
    """One device of the plan, and the recorded device of another name that it seems to be."""

    new: Device
    old: Device
    proof: str
    """What they share, in words; empty if only the address is the same."""

    def __str__(self) -> str:
        if not self.proof:
            return f"{self.new.name} has the address that {self.old.name} had, {self.old.place}"
        what = f"{self.new.name} is the {self.new.noun} that was {self.old.name}"
        return f"{what} ({self.proof})"


def identity_refused(
    spec: ClusterSpec, plan: ClusterPlan, applied: Applied, seen: Seen
) -> tuple[str, ...]:
    """Refuse an update for which a name now means another machine, one text for each cause.

    A device with the same host key and another address has moved, and one with another host key at
    a new address was replaced: both are accepted, but for the only server of a cluster.

    Args:
        spec: The site.
        plan: What is wanted of it.
        applied: What was last applied.
        seen: What was observed.
    """
    renames = renames_of(spec, applied)
    common = _compare(spec, plan, applied, seen)
    was, now, claims = common.was, common.now, common.claims
    false = [
        f"identity: {new} is not the {now[new].noun} that was {old}: neither its address nor its"
        f" host key is the recorded one ({was[new].place})\n"
        f"  where  renamed, {now[new].place}. {_NOTHING}\n"
        f"  fix    take {new} out of `renamed`; {_PAGE}"
        for old, new in renames.items()
        if new in now and not common.is_same(now[new], was[new])
    ]
    causes = [_words(group, was, now, plan.stack) for group in _groups(claims)]
    claimed = {claim.new.name for claim in claims}
    cabling = [
        _cabling_words(switch.name, wrong)
        for switch in plan.switches
        if spec.guards.cabling == "refuse"
        and isinstance(facts := seen.switch(switch.name), SwitchState)
        if (wrong := contradictions(switch.cables, facts.neighbours))
    ]
    others = [
        _other_words(*found)
        for found in common.ids.contradictions
        if found[0] not in claimed and not common.is_reinstalled(found[0], spec)
    ]
    return (*false, *causes, *others, *cabling, *_only_server(common, applied, claimed, renames))


def _cabling_words(name: str, wrong: tuple[str, ...]) -> str:
    more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
    return (
        f"identity: {name} may be another switch: LLDP contradicts the file on {len(wrong)} of its"
        f" ports: {'; '.join(wrong[:_SHOWN])}{more}\n"
        f"  where  {name}. {_NOTHING}\n"
        "  fix    correct its `ssh` or its `ports`; if its neighbours only tell other names than"
        f" the file has, write `guards: {{cabling: warn}}`; {_PAGE}"
    )


def _other_words(name: str, now: str, was: str) -> str:
    return (
        f"identity: {name} is another device: it says that it is {now}, and {was}\n"
        f"  where  the serial number of a switch, or the machine id of a host. {_NOTHING}\n"
        f"  fix    correct its `ssh`; or, if {name} was replaced, write `serial: {now}` for the"
        f" switch or `machine_id: {now}` for the host; {_PAGE}"
    )


def renamed_unsaid(
    spec: ClusterSpec, plan: ClusterPlan, applied: Applied, seen: Seen
) -> frozenset[str]:
    """Former names of devices that the file has under another name, without saying so."""
    common = _compare(spec, plan, applied, seen)
    return frozenset(each.old.name for each in common.claims if each.old.name not in common.now)


def _compare(spec: ClusterSpec, plan: ClusterPlan, applied: Applied, seen: Seen) -> _Compared:
    renames = renames_of(spec, applied)
    was = {
        renames.get(name, name): replace(device, name=renames.get(name, name))
        for name, device in recorded_devices(applied).items()
    }
    return _Compared(was, planned_devices(plan), machine_ids(spec, applied, seen, renames))


def recorded_devices(applied: Applied) -> dict[str, Device]:
    """Every device that a state has steps of, by the name that it had."""
    found: dict[str, Device] = {}
    for name, step in applied.steps.items():
        if name.endswith((TOOLS_SUFFIX, _SWITCH_SUFFIX)) and (end := _endpoint(step)):
            device = _device(end)
            if name in (device.name + TOOLS_SUFFIX, device.name + _SWITCH_SUFFIX):
                found[device.name] = device
    return found


def _endpoint(step: AppliedStep) -> Mapping[str, JsonValue] | None:
    text = step.stdin
    if not text.lstrip().startswith("{"):  # that is how an earlier release recorded it
        text = "".join(
            line for line in text.splitlines(keepends=True) if line.startswith("endpoint.")
        )
    try:
        return cast("Mapping[str, JsonValue] | None", parse_lines(text).get("endpoint"))
    except ValueError:
        return None


def _device(end: Mapping[str, JsonValue]) -> Device:
    hops = cast("list[Mapping[str, JsonValue]]", end.get("jump") or [])
    way = " by ".join(_place(hop) for hop in (end, *reversed(hops)))
    kind = "switch" if end.get("kind") == "switch" else "host"
    return Device(str(end.get("device")), kind, way, str(end.get("host_key") or ""))


def _place(end: Mapping[str, JsonValue]) -> str:
    return f"{bracketed(str(end.get('address')))}:{end.get('port')}"


def planned_devices(plan: ClusterPlan) -> dict[str, Device]:
    """Every device that a plan has steps of, but those whose address a cloud has yet to tell."""
    ends = [switch.endpoint for switch in plan.switches]
    ends += [each.sending.endpoint for each in (*plan.hypervisors, *plan.hosts)]
    return {end.device: _planned(end) for end in ends if end.reachable}


def _planned(end: Endpoint) -> Device:
    way = " by ".join(each.place for each in (end, *reversed(end.jump)))
    return Device(end.device, "switch" if end.kind == "switch" else "host", way, end.host_key)


def renames_of(spec: ClusterSpec, applied: Applied) -> dict[str, str]:
    """Former name to new name of the renames that the file declares and the state has not yet."""
    known = recorded_devices(applied)
    declared = {**spec.renamed.hosts, **spec.renamed.switches}
    return {old: new for new, old in declared.items() if old in known and new not in known}


class _Compared:
    """The devices of a state and of a plan, with what tells one machine from another."""

    def __init__(
        self, was: Mapping[str, Device], now: Mapping[str, Device], ids: MachineIds
    ) -> None:
        self.was, self.now, self.ids = was, now, ids
        keys = [Counter(each.host_key for each in devices.values()) for devices in (was, now)]
        self._shared = {key for counts in keys for key, count in counts.items() if count > 1}
        self._by_place = {each.place: each for each in was.values()}
        self._by_key = {each.host_key: each for each in was.values() if self._is_proof(each)}
        self._by_id = {
            ids.recorded[name]: each for name, each in was.items() if name in ids.recorded
        }

    def is_reinstalled(self, name: str, spec: ClusterSpec) -> bool:
        """Whether the file pins another key for a host: a new system has a new machine id too."""
        new, old = self.now.get(name), self.was.get(name)
        host = spec.host(name)
        written = host is not None and host.machine_id is not None
        if new is None or old is None or written or new.kind != "host":
            return False
        return new.host_key != old.host_key

    @property
    def claims(self) -> list[_Claim]:
        """What the names of the plan claim to be."""
        return [claim for device in self.now.values() if (claim := self._claim_of(device))]

    def _is_proof(self, device: Device) -> bool:
        """Machines that were made from one image may share a host key, and that proves nothing."""
        return bool(device.host_key) and device.host_key not in self._shared

    def is_same(self, new: Device, old: Device) -> bool:
        """Whether the identity, the host key or the address says so."""
        if self.ids.proves(new.name):
            return True
        return new.place == old.place or (self._is_proof(new) and new.host_key == old.host_key)

    def _claim_of(self, new: Device) -> _Claim | None:
        """The recorded device of another name that this one is, or whose address it takes."""
        own = self.was.get(new.name)
        if own is not None and (new.place, new.host_key) == (own.place, own.host_key):
            return None
        proven = own is not None and self.ids.proves(new.name)
        if proven and new.name in self.ids.seen:
            return None
        by_id = self._by_id.get(self.ids.present.get(new.name, ""))
        by_key = self._by_key.get(new.host_key) if self._is_proof(new) else None
        by_place = None if proven else self._by_place.get(new.place)
        for old in (by_id, by_key, by_place):
            if old is not None and old.name != new.name and old.kind == new.kind:
                return _Claim(new, old, self._proof(new, old))
        return None

    def _proof(self, new: Device, old: Device) -> str:
        number = self.ids.recorded.get(old.name)
        same_id = number is not None and number == self.ids.present.get(new.name)
        same_key = bool(new.host_key) and new.host_key == old.host_key
        said = [f"same identity {number}"] if same_id else []
        said += [f"same host key {new.host_key}"] if same_key else []
        said += [f"same address {new.place}"] if said and new.place == old.place else []
        return ", ".join(said)


def _groups(claims: list[_Claim]) -> Iterator[list[_Claim]]:
    """The claims of each cause: those that share a name, as the two of a swap do."""
    left = list(claims)
    while left:
        group, names = [left.pop(0)], set[str]()
        while len(names) < len(
            names := names | {n for c in group for n in (c.new.name, c.old.name)}
        ):
            more = [claim for claim in left if names & {claim.new.name, claim.old.name}]
            group += more
            left = [claim for claim in left if claim not in more]
        yield group


def _words(
    group: list[_Claim], was: Mapping[str, Device], now: Mapping[str, Device], stack: str
) -> str:
    first, single = group[0], len(group) == 1
    old, new = first.old.name, first.new.name
    if single and old not in now and new not in was and first.proof:
        kind = first.new.kind
        why = f"{new} would be set up, and then {old} be undone on the same {first.new.noun}"
        fix = f"`railyard rename {kind} {old} {new} --stack {stack}`, or write {old} again; {_PAGE}"
    elif single and old not in now:
        why = f"{old} leaves the file, and its settings would be taken back at the same address"
        fix = (
            f"take {old} out in an update of its own, and then let {new} have its address; {_PAGE}"
        )
    elif not first.proof:
        why = "addresses that move between devices in one update cannot be told from a mistake"
        fix = f"give {old} its new address in an update of its own, and then {new}; {_PAGE}"
    else:
        why = "each of them would get the settings of another one"
        fix = f"write the `ssh` of each machine under its own name again; {_PAGE}"
    what = "; ".join(map(str, group))
    return f"identity: {what}\n  where  {why}. {_NOTHING}\n  fix    {fix}"


def recorded_nodes(applied: Applied, role: str, renames: Mapping[str, str]) -> tuple[str, ...]:
    """The hosts on which K3s was last installed as `server` or as `agent`, by today's names."""
    found = (
        name.removesuffix("-k3s")
        for name, step in applied.steps.items()
        if name.endswith("-k3s") and f"\nrole={role}\n" in step.stdin
    )
    return tuple(renames.get(name, name) for name in found)


def _only_server(
    common: _Compared, applied: Applied, claimed: set[str], renames: Mapping[str, str]
) -> Iterator[str]:
    """Another machine as the only server would begin a second cluster, which is empty."""
    servers = recorded_nodes(applied, "server", renames)
    for name in servers if len(servers) == 1 else ():
        new, old = common.now.get(name), common.was.get(name)
        if new is None or old is None or new.place == old.place or name in claimed:
            continue
        known = common.ids.recorded.get(name)
        if common.ids.proves(name) and (known or new.host_key == old.host_key):
            continue
        proof = f"`machine_id: {known}`" if known else "its `machine_id`"
        yield (
            f"identity: {name} would be another machine: it was at {old.place}, and the file says"
            f" {new.place}. It is the only server, so a second, empty cluster would begin there\n"
            f"  where  ssh.address of {name}; a host key alone does not prove it, since a copy of"
            f" the machine has it too. {_NOTHING}\n"
            f"  fix    write the old address; or, if it is the same machine, write {proof} (`cat"
            f" /etc/machine-id`) for the host; {_PAGE}"
        )
