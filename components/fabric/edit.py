"""One update of one switch, from the recorded state to the wanted one, and its text for people.

Ports with the same change share a line: a switch of 64 ports can be read at a glance.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from components.catalogue.switches import find_model
from components.core.difference import ABSENT, Difference, Effect, ForeignSetting, RoutingFault
from components.core.plain_text import counted
from components.core.record import field, record
from components.core.settings import asked
from components.core.templates import fault_text
from components.drift.applied import Applied, AppliedStep
from components.drift.device_drift import DeviceDrift, Unreachable, make_drift
from components.fabric.cabling import Networks, find_routing_faults
from components.fabric.effects import describe_changes, find_effects, group_settings, interrupting
from components.fabric.fabric_plan import SwitchPlan
from components.fabric.parts import IbState
from components.fabric.ports import plan_changes
from components.fabric.state import BgpState, PortState, SwitchState, diff_states
from components.fabric.switch_guards import Look, find_foreign_settings, with_guarded_settings
from components.fabric.systems import system_of
from components.fabric.systems.base import Drain, Reading, Unsettable
from components.fabric.targets import dropped, overlay, target_of_restore, target_of_update
from components.model.texts import fold_names
from components.remote.lines import parse_lines

PACK_ABOVE: Final = 1_000
"""Characters of a baseline. The state holds it twice, and 32 equal ports pack to a tenth; Linux
takes 131,072 characters in one variable, which some 400 ports would fill."""
PACKED: Final = "zlib:"
CHANGES_CLASS: Final = "running traffic changes its class"
"""First words of the line about changes that are not refused but may disturb running jobs."""
MARKS: Final = ("INTERRUPTS", CHANGES_CLASS, "NO TIMED RESTORE", "will be refused")
"""First words of the lines about interruptions, and about changes without a timed restore."""
_UNKNOWN: Final = "interrupts: not known"


def baseline_file(stack: str, device: str) -> Path:
    """The imported baseline of one switch; most switches lack one."""
    return Path(".railyard") / stack / "baseline" / f"{device}.json"


def with_new_ports(baseline: SwitchState, owned: SwitchState, system: str) -> SwitchState:
    """The recorded values, with the factory's for port parts that appeared after the recording."""
    parts = {part for each in (owned.splits or {}).values() for part in each}
    new = tuple(name for name in owned.ports if name in parts and name not in baseline.ports)
    if not new:
        return baseline
    factory = system_of(system).factory_state(new).ports
    return baseline.model_copy(update={"ports": {**baseline.ports, **factory}})


def every_key(ports: Sequence[str], desired: SwitchState) -> SwitchState:
    """A wish for all that a file may own. `roce` only on demand: its `off` text is not public."""
    every = dict.fromkeys(ports, PortState().model_copy(update=asked(PortState)))
    ib = desired.ib and desired.ib.model_copy(update=asked(IbState))
    own = {"roce": desired.roce, "splits": desired.splits or {}, "ports": every, "ib": ib}
    return SwitchState().model_copy(update=asked(SwitchState) | own)


def render_baseline(state: SwitchState) -> str:
    """The recorded values as JSON; equal ports are one entry, with spaces between the names."""
    document = state.model_dump(mode="json")
    alike: dict[str, list[str]] = {}
    for name, port in document.pop("ports").items():
        alike.setdefault(_short(port), []).append(name)
    ports = [f'"{" ".join(names)}":{port}' for port, names in alike.items()]
    others = [f'"{key}":{_short(value)}' for key, value in document.items()]
    return "{" + ",\n".join((*others, '"ports":{\n' + ",\n".join(ports) + "}")) + "}\n"


def read_baseline(text: str) -> dict[str, object]:
    """The recorded values, packed or not, with one entry for each port."""
    packed = text.removeprefix(PACKED)
    document = json.loads(text if packed == text else zlib.decompress(base64.b64decode(packed)))
    ports = document.get("ports", {}).items()
    return {**document, "ports": {name: port for names, port in ports for name in names.split()}}


def _short(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def pack_baseline(text: str) -> str:
    """A recorded baseline for the environment: one line, and packed if it would be too long."""
    line = _short(json.loads(text))
    if len(line) <= PACK_ABOVE:
        return line
    return PACKED + base64.b64encode(zlib.compress(line.encode(), 9)).decode()


@record
class Edit:
    """The common input of a step, its preview and its refusal."""

    system: str
    desired: SwitchState
    previous: SwitchState = field(default_factory=SwitchState)
    """The settings that the last update owned; empty before the first one."""
    baseline: SwitchState | None = None
    """The values from before the first update; None: not known, so nothing is restored."""

    @property
    def gone(self) -> SwitchState:
        """The dropped settings, which get their recorded values back."""
        return dropped(self.previous, self.desired) if self.baseline else SwitchState()

    @property
    def wanted(self) -> SwitchState:
        """Every setting that this update reads."""
        return overlay(self.gone, self.desired)

    def target(
        self, actual: SwitchState, vlan_holders: Mapping[int, tuple[str, ...]]
    ) -> SwitchState:
        """The state of the switch after the update; arguments as in `target_of_restore`."""
        baseline = with_new_ports(self.baseline or SwitchState(), self.previous, self.system)
        back = target_of_restore(actual, self.gone, baseline, vlan_holders)
        return target_of_update(actual, self.desired, back)

    def part(self, later: Collection[str], reading: Reading) -> SwitchState:
        """The target, with some ports left as they are: they change in a later part."""
        target, has = self.target(reading.state, reading.vlan_holders), reading.state.ports
        held = {name: has[name] for name in later if name in has}
        return target.model_copy(update={"ports": {**target.ports, **held}})

    def target_of(self, seen: SwitchState) -> SwitchState:
        """The target from a state that observe read, or from the last applied one."""
        return self.target(seen, seen.others.by_vlan if seen.others else {})

    def drain(self, seen: SwitchState) -> Drain | str:
        """How traffic can leave the switch before this update, or why it cannot."""
        known, was = system_of(self.system).drain, seen.bgp or BgpState()
        wanted = self.target_of(seen).bgp or was
        if isinstance(known, str):
            return known
        if not was.neighbors:
            return "it runs no BGP sessions"
        return known if was.asn == wanted.asn else "this update ends every BGP session itself"

    def effects(self, seen: SwitchState) -> Mapping[Difference, Effect]:
        """How the update affects running traffic, judged by `seen`; see `find_effects`."""
        return find_effects(self.system, seen, self.target_of(seen))


def applied_switch(step: AppliedStep) -> tuple[SwitchState, str]:
    """The state last applied to a switch, and the repair note of that run."""
    request = parse_lines(step.stdin)
    note = request.get("repair")
    return SwitchState.model_validate(request["desired"]), note if isinstance(note, str) else ""


def asked_of_switch(plan: SwitchPlan, applied: Applied) -> SwitchState:
    """The settings to read of a switch: wanted ones, applied ones, and those that guards check."""
    was, asked = last_applied(plan, applied), plan.desired
    if was is not None:
        asked = overlay(asked, was).model_copy(update={"vlans": asked.vlans})
    return with_guarded_settings(asked) if plan.guarded is not None else asked


def ordered(plans: tuple[SwitchPlan, ...], applied: Applied) -> tuple[SwitchPlan, ...]:
    """The plans in waves; without order if no switch was ever changed: nothing runs there yet."""
    if any(applied.step(plan.step) is not None for plan in plans):
        return plans
    return tuple(plan.model_copy(update={"waves": ()}) for plan in plans)


def last_applied(plan: SwitchPlan, applied: Applied) -> SwitchState | None:
    """The state last applied to a switch; None if it was never updated."""
    recorded = applied.step(plan.step)
    return applied_switch(recorded)[0] if recorded and recorded.stdin else None


def foreign_settings_of(
    plan: SwitchPlan, applied: Applied, facts: SwitchState | Unreachable | None
) -> tuple[ForeignSetting, ...]:
    """The foreign settings of a switch that break our traffic."""
    if not isinstance(facts, SwitchState):
        return ()
    was = last_applied(plan, applied) or SwitchState()
    look = Look(plan.os, facts, plan.desired, was, port_order(plan))
    return find_foreign_settings(plan.guarded, look)


def networks_of(plans: Iterable[SwitchPlan], applied: Applied) -> Networks:
    """The networks that each switch is to announce and has been given already."""
    held = {plan.name: (plan.desired.bgp, last_applied(plan, applied)) for plan in plans}
    return {
        name: tuple(each for each in bgp.networks if each in was.bgp.networks)
        for name, (bgp, was) in held.items()
        if bgp and was and was.bgp
    }


def routing_faults(
    plan: SwitchPlan, applied: Applied, facts: SwitchState | Unreachable | None, networks: Networks
) -> tuple[RoutingFault, ...]:
    """The routed links of a switch that carry no routes, or fewer than the file says."""
    was = last_applied(plan, applied)
    if not isinstance(facts, SwitchState) or was is None or was.bgp is None or plan.links is None:
        return ()
    links = plan.links.model_copy(update={"networks": networks})
    return find_routing_faults(links, facts.sessions, was.bgp)


def drift_of_switch(
    plan: SwitchPlan, applied: Applied, facts: SwitchState | Unreachable | None
) -> DeviceDrift:
    """Compare one switch with the state last applied to it."""
    recorded = applied.step(plan.step)
    if recorded is None or not recorded.stdin:
        return make_drift(plan.name, plan.step, facts, (), edited=True, note=None)
    was, note = applied_switch(recorded)
    found = diff_states(facts, was) if isinstance(facts, SwitchState) else ()
    return make_drift(plan.name, plan.step, facts, found, edited=was != plan.desired, note=note)


def preview_switch(
    plan: SwitchPlan,
    was: SwitchState | None,
    seen: SwitchState | None,
    allowed: str,
    baseline: SwitchState | None = None,
) -> str | None:
    """One line for a switch and indented ones below it; None if nothing would change.

    `was` is the last applied state, `seen` the reading, if any; `allowed` is `disruption.ports`.
    """
    has, wanted = (seen or was or SwitchState()).settings(), plan.desired.settings()
    new = {key: value for key, value in wanted.items() if has.get(key, ABSENT) != value}
    moved = {key: f"{has.get(key, ABSENT)} -> {value}" for key, value in new.items()}
    dropped = {key: "restored" for key in (was.settings() if was else {}) if key not in wanted}
    if not moved and not dropped:
        return None
    head = f"{plan.name}: {counted(len(moved) + len(dropped), 'setting')} will change"
    lines = [head, *group_settings(moved | dropped, port_order(plan))]
    edit = Edit(plan.os, plan.desired, was or SwitchState(), baseline)
    lines += _effects(plan, edit, seen, allowed)
    for pattern, why in system_of(plan.os).unproven.items():
        if names := sorted({name for _, name in moved if re.fullmatch(pattern, name)}):
            said = f"UNPROVEN lines for {', '.join(names)}: {why}"
            lines.append(f"{said}; the reading after it decides")
    if plan.timed_restore_s is None:
        lines.append(fault_text(__file__, "no-timer", title=system_of(plan.os).title))
    return "\n  ".join(lines)


def render_waves(
    plans: Sequence[SwitchPlan], changes: Mapping[str, str], canary: int
) -> tuple[str, ...]:
    """A line for each wave with its changes and interruptions; empty if there is one wave."""
    waves = plans[0].waves if plans else ()
    lines: list[str] = []
    for number, names in enumerate(waves):
        alike: dict[str, list[str]] = {}
        for name in names:
            if name in changes:
                form = rf"^ *(?:{MARKS[0]}.*?\): (.*)|{_UNKNOWN})"
                found = re.search(form, changes[name], re.MULTILINE)
                plain = "its impact is unknown" if found else "interrupts nothing"
                alike.setdefault((found and found[1]) or plain, []).append(name)
        words = "; ".join(f"{fold_names(same)} - {what}" for what, same in alike.items())
        if words:
            kind = " (canary)" if number < canary else ""
            lines.append(f"wave {number + 1} of {len(waves)}{kind}: {words}")
    return tuple(lines) if len(waves) > 1 else ()


def interrupted_words(plan: SwitchPlan, changes: Iterable[Difference]) -> str:
    """Changes that interrupt traffic, on one line: `ports 1/1 to 1/4: mtu_bytes: 9216 -> 9000`."""
    return "; ".join(describe_changes(changes, port_order(plan)))


def port_order(plan: SwitchPlan) -> Mapping[str, int]:
    """Port to its number on the switch; empty if the model is not known."""
    model = find_model(plan.model)
    known = model.ports.get(plan.os, ()) if model else ()
    return {name: number for number, name in enumerate(known)}


def _effects(plan: SwitchPlan, edit: Edit, seen: SwitchState | None, allowed: str) -> Iterator[str]:
    head = f"INTERRUPTS (disruption.ports: {allowed})"
    if plan.exec is not None:
        if plan.exec.interrupts:
            yield f"{head}: {'; '.join(plan.exec.interrupts)}"
        return
    if seen is None:
        refuses = "; it is read first, and refuses what interrupts" if allowed == "deny" else ""
        yield f"{_UNKNOWN}, since the switch was not read{refuses}"
        if edit.previous != SwitchState():
            yield from _class_words(plan, edit.effects(edit.previous), ", against the last update")
        return
    try:
        plan_changes(system_of(plan.os), seen, edit.target_of(seen))
    except Unsettable as error:
        yield f"will be refused: {error}"
        return
    effects = edit.effects(seen)
    if found := interrupting(effects):
        yield f"{head}: {interrupted_words(plan, found)}"
        if allowed == "drain":
            drain, name = edit.drain(seen), plan.name
            why = f"no traffic is sent away from {name} first: {drain}"
            yield why if isinstance(drain, str) else f"traffic leaves {name} first ({drain.title})"
    yield from _class_words(plan, effects)


def _class_words(
    plan: SwitchPlan, effects: Mapping[Difference, Effect], against: str = ""
) -> Iterator[str]:
    if moved := [change for change, effect in effects.items() if effect is Effect.CLASS]:
        yield f"{CHANGES_CLASS}{against}: {interrupted_words(plan, moved)}"
