"""From the actual and the wanted state to the exact state a switch must get, or to one exec.

Desired and recorded states have only managed keys. For those keys, a target is complete, with
foreign VLANs and classes, so a driver need not know the reasons. An exec does not read the switch
first, so its text sets every key that the file owns, and its undo sets the factory's values:
decision 13 in docs/decisions.md.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from components.core.errors import Bug
from components.core.settings import drop, join, natives, overlay, restore, unite, without
from components.fabric.effects import describe_changes, find_effects, interrupting
from components.fabric.parts import Frozen
from components.fabric.state import MTU_WORD, PortState, SwitchState, list_vlans
from components.fabric.systems import system_of
from components.fabric.systems.base import Script, flatten
from components.fabric.systems.switch_system import ExecForm, SwitchSystem

LONGEST: Final = 131_071
"""Characters of one argument of a Linux program, here of `bash -c` (execve's manual page)."""
Addresses = dict[str, tuple[str, ...]]


class ExecPlan(Frozen):
    """The texts of one switch. Each is one exec request; none holds a secret."""

    apply: str
    save: str
    """Sent only after the output of `apply` was judged."""
    undo: str
    """Saves too: nothing can judge the output of a delete before it ends."""
    interrupts: tuple[str, ...]
    """What `apply` interrupts at every run, in words."""
    unproven: str = ""
    """Text behind the title of `undo`: its lines that were never seen on a switch."""


def find_form(system: str) -> ExecForm | None:
    """The form of a system's exec requests; None: the system lacks a sound one."""
    form = system_of(system).exec_form
    return form if isinstance(form, ExecForm) else None


def why_no_exec(system: str, desired: SwitchState | None = None) -> str | None:
    """Why a system, or a desired state, cannot use an exec safely; None: it can."""
    form = system_of(system).exec_form
    if isinstance(form, str) or desired is None:
        return form if isinstance(form, str) else None
    states = (desired, *desired.ports.values())
    for name, words in form.lacks.items():
        if any(v and v not in form.given for v in (getattr(s, name, None) for s in states)):
            return f"it reads nothing first, so it could not set and put back {words}"
    return None


def plan_exec(system: str, desired: SwitchState) -> ExecPlan | None:
    """Render the texts from any state to the desired one, and back to the factory's; or None."""
    form, driver, ports = find_form(system), system_of(system), desired.ports
    if form is None or why_no_exec(system, desired) is not None:
        return None
    held = {name: PortState(native=form.native(name, port)) for name, port in ports.items()}
    start = SwitchState(ports=held)
    ours = overlay(start, desired)
    target = target_of_apply(start, desired)
    factory = target_of_restore(ours, desired, driver.factory_state(tuple(ports)), {})
    lines = form.around(desired, plan_lines(driver, start, target))
    undo = form.around_undo(desired, plan_lines(driver, ours, factory))
    enter = (*driver.enter, *driver.configure)
    # Every line is sent each time, whatever the switch has.
    moved = (
        replace(each, actual="any value", desired="the file's")
        for each in interrupting(find_effects(system, start, target))
    )
    return ExecPlan(
        apply=_render(form, *enter, *lines, *form.commit),
        save=_render(form, *enter, driver.save),
        undo=_render(form, *enter, *undo, *form.commit, driver.save),
        interrupts=describe_changes(moved),
        unproven=f" (unproven: {form.unproven})" if form.unproven else "",
    )


def plan_lines(system: SwitchSystem, actual: SwitchState, target: SwitchState) -> tuple[str, ...]:
    """All lines: the one-shot if the system has one, then the settings besides it."""
    plan, without = system.plan_changes, {"roce": None, "pfc_priorities": None}
    changes = plan(actual, target)
    if any(change.settles for change in changes):
        changes += plan(actual.model_copy(update=without), target.model_copy(update=without))
    return flatten(changes)


def _render(form: ExecForm, *lines: str) -> str:
    for line in lines:
        if not isinstance(line, Script) and shlex.join(shlex.split(line)) != line:
            raise Bug(f"the line {line!r} is more than plain words to a shell")
    return " ".join(("cli", *(f'"{line}"' for line in lines))) if form.cli else " &&\n".join(lines)


def numbered(system: str, text: str, run: str) -> str:
    """The text of a run that repeats an earlier one; the first run is not numbered."""
    form = find_form(system)
    if not run or form is None:
        return text
    return f'cli "## run {run}"{text.removeprefix("cli")}' if form.cli else f"# run {run}\n{text}"


def number_of(text: str) -> int:
    """Which run a recorded text was; 0 for the first."""
    found = re.search(r"# run (\d+)\b", text)
    return int(found[1]) if found else 0


def digest_of(text: str) -> str:
    """A short fingerprint of a text: evidence says which one it is about."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_expected(system: str, output: str) -> bool:
    """Whether the output of an apply is exactly that of a good one."""
    form = find_form(system)
    return form is not None and re.fullmatch(form.expects, output) is not None


def target_of_apply(actual: SwitchState, desired: SwitchState) -> SwitchState:
    """The state of a switch after an apply: the wanted settings, and foreign ones."""
    joined = join(actual, desired)
    ports: dict[str, PortState] = {}
    for name, port in desired.ports.items():
        # A new mode removes the list of VLANs; a class that gets a share stops being strict.
        both, changes = joined.ports[name], dict[str, object]()
        if actual.ports.get(name, PortState()).mode != port.mode:
            changes["trunk_vlans"] = port.trunk_vlans
        if both.strict_classes is not None:
            shared = {*port.class_shares} - {*(port.strict_classes or ())}
            changes["strict_classes"] = without(both.strict_classes, tuple(shared))
        ports[name] = both.model_copy(update=changes)
    return joined.model_copy(update={"ports": ports})


def target_of_restore(
    actual: SwitchState,
    owned: SwitchState,
    baseline: SwitchState,
    vlan_holders: Mapping[int, Iterable[str]],
) -> SwitchState:
    """The state after an undo of what we own; a VLAN of foreign ports in `vlan_holders` stays."""
    owned = _with_one_shot(owned, actual, baseline)
    target = restore(actual, owned, baseline)
    going = {name for name, left in (target.addresses or {}).items() if not left}
    held = (
        vlan
        for vlan, names in vlan_holders.items()
        if _is_new(vlan, [name for name in names if name not in going], baseline)
    )
    ours = without(owned.vlans, (*baseline.vlans, *held))
    ports = {
        name: _restored_port(
            actual.ports.get(name, PortState()), owned.ports[name], baseline.ports[name], port
        )
        for name, port in target.ports.items()
    }
    for name, port in ports.items() if owned.roce is not None else ():
        # A one-shot of the whole switch sets every class, and takes its own along when it goes.
        before = baseline.ports[name]
        if owned.ports[name].strict_classes is not None and before.wrr_weights:
            back = unite(port.strict_classes or (), before.strict_classes or ())
            ports[name] = port.model_copy(update={"strict_classes": back})
    # An interface has one MTU: if we brought another, the recorded one comes back.
    addresses = target.addresses and {
        name: unite(left, _mtu(baseline.addresses, name)) if _mtu(owned.addresses, name) else left
        for name, left in target.addresses.items()
    }
    # Ports that we split come back as recorded, or whole, unless others configured a part of one.
    others, recorded = {*(actual.configured_parts or ())} - {*owned.ports}, target.splits or {}
    split = (actual.splits or {}).items()
    used = {whole: parts for whole, parts in split if parts[1:] and others & {*parts} - {whole}}
    splits = owned.splits and {w: used.get(w, recorded.get(w, (w,))) for w in owned.splits}
    return target.model_copy(
        update={
            "vlans": without(actual.vlans, ours),
            "addresses": addresses,
            "splits": splits,
            "native": baseline.native,
            "ports": ports,
        }
    )


def _mtu(addresses: Addresses | None, name: str) -> tuple[str, ...]:
    return tuple(each for each in (addresses or {}).get(name, ()) if each.startswith(MTU_WORD))


def with_all_ports(wanted: SwitchState, names: Iterable[str], keys: PortState) -> SwitchState:
    """A wish for some keys of some ports too, and for PFC of the switch as a whole."""
    more = SwitchState(pfc_priorities=(), pfc_enabled=False, ports=dict.fromkeys(names, keys))
    return wanted.model_copy(update=_added(more, wanted))


def _added(more: SwitchState, owned: SwitchState) -> dict[str, object]:
    """The settings of a state, plus those that a one-shot changes and the state does not name."""
    both = overlay(more, owned)
    return {key: getattr(both, key) for key in ("pfc_priorities", "pfc_enabled", "ports")}


def _with_one_shot(owned: SwitchState, actual: SwitchState, baseline: SwitchState) -> SwitchState:
    """Add what `roce` changed on ports with weights: it resets their queues and PFC."""
    if owned.roce in {None, baseline.roce or "none"}:
        return owned
    taken = {
        name: PortState(
            trust=was.trust,
            ecn=dict.fromkeys([*port.ecn, *was.ecn]),
            strict_classes=(),
            class_shares=dict.fromkeys(was.wrr_weights, 0) if port.class_shares else {},
        )
        for name, port in actual.ports.items()
        if port.wrr_weights and (was := baseline.ports.get(name, PortState())).wrr_weights
    }
    if not taken:
        return owned
    return owned.model_copy(update=_added(actual.model_copy(update={"ports": taken}), owned))


def _is_new(vlan: int, names: Iterable[str], baseline: SwitchState) -> bool:
    """Whether a port names a VLAN that it did not name before the first apply."""
    routed = baseline.addresses or {}
    before = (baseline.ports.get(name, PortState()) for name in names if name not in routed)
    return any(
        vlan != port.access_vlan
        and (port.trunk_vlans in {None, "all"} or vlan not in list_vlans(port.trunk_vlans or ()))
        for port in before
    )


def _restored_port(
    actual: PortState, owned: PortState, baseline: PortState, target: PortState
) -> PortState:
    changes: dict[str, object] = {}
    if owned.mode is not None:
        changes["access_vlan"] = baseline.access_vlan
        if actual.mode != baseline.mode:
            changes["trunk_vlans"] = baseline.trunk_vlans
    if owned.strict_classes is not None:
        # A class that got a share from us is strict again if it was.
        again = {*(baseline.strict_classes or ())} & {*owned.class_shares}
        changes["strict_classes"] = unite(target.strict_classes or (), tuple(again))
        changes["wrr_weights"] = baseline.wrr_weights
    ours = {*natives(owned)}
    changes["native"] = {key: text for key, text in baseline.native.items() if key in ours}
    return target.model_copy(update=changes)


def target_of_update(actual: SwitchState, desired: SwitchState, undone: SwitchState) -> SwitchState:
    """The state of a switch after an edit; `undone` is the target of what the edit drops."""
    target = overlay(undone, target_of_apply(overlay(actual, undone), desired))
    # Settings in the file need no recorded words. A class that was strict before us, and is again,
    # is in the target too, in the words of before.
    ports: dict[str, PortState] = {}
    for name, port in target.ports.items():
        named = {*natives(desired.ports.get(name, PortState()))}
        left = {key: words for key, words in port.native.items() if key not in named}
        ports[name] = port.model_copy(update={"native": left})
    return target.model_copy(update={"ports": ports})


def dropped(previous: SwitchState, desired: SwitchState) -> SwitchState:
    """The settings that an edit no longer wants, and gives back."""
    gone = drop(previous, desired)
    ports = dict(previous.ports)
    for name in desired.ports.keys() & ports.keys():
        # A new mode removes the list of VLANs; dropped shares restore the strict classes too.
        left, changes = gone.ports.get(name, PortState()), dict[str, object]()
        if desired.ports[name].mode not in {None, ports[name].mode}:
            changes["trunk_vlans"] = None
        if left.class_shares and left.strict_classes is None:
            changes["strict_classes"] = ()
        ports[name] = left.model_copy(update=changes)
    was, now = previous.splits or {}, desired.splits or {}
    splits = {whole: parts for whole, parts in was.items() if now.get(whole) != parts}
    ports = {name: port for name, port in ports.items() if port != PortState()}
    return gone.model_copy(update={"splits": splits or None, "ports": ports})
