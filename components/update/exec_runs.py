"""Which exec requests this update sends again, and which it must not undo: plain values.

The engine runs an exec when its text changed. A text that was sent and not found good must be sent
again although nothing in the file changed, so a repeated run carries a number.
"""

from __future__ import annotations

from collections.abc import Iterable

from components.drift.applied import Applied, AppliedStep
from components.drift.device_drift import DeviceDrift
from components.fabric.exec_plan import digest_of, number_of, numbered
from components.fabric.plan import SwitchPlan
from components.remote.lines import parse_lines
from components.remote.script import OWN_CLIENT
from components.remote.step import RemoteStep


def exec_notes(
    switches: tuple[SwitchPlan, ...], applied: Applied, drifts: tuple[DeviceDrift, ...]
) -> dict[str, str]:
    """Exec step to the number of its run; a first run has none."""
    drifted = {drift.device for drift in drifts if drift.differences}
    notes: dict[str, str] = {}
    for switch in switches:
        sent = applied.step(switch.exec_step)
        if switch.exec is None or sent is None:
            continue
        again = switch.name in drifted or not _was_good(switch, applied)
        number = number_of(sent.create) + again
        if number:
            notes[switch.exec_step] = str(number)
    return notes


def is_sent(switch: SwitchPlan, applied: Applied, drifts: tuple[DeviceDrift, ...]) -> bool:
    """Whether this update sends the exec of a switch: its text is new, or of another run."""
    sent = applied.step(switch.exec_step)
    if switch.exec is None or sent is None:
        return switch.exec is not None
    run = exec_notes((switch,), applied, drifts).get(switch.exec_step, "")
    return sent.create != numbered(switch.os, switch.exec.apply, run)


def _was_good(switch: SwitchPlan, applied: Applied) -> bool:
    """Whether both texts that were last sent were judged, and found good."""
    pairs = ((switch.exec_step, switch.step), (switch.save_step, switch.saved_step))
    return all(_vouches(applied.step(judge), applied.step(sent)) for sent, judge in pairs)


def _vouches(judge: AppliedStep | None, sent: AppliedStep | None) -> bool:
    """A judge that failed leaves no state, or that of the text before."""
    if judge is None or sent is None or not judge.stdin:
        return False
    judged = parse_lines(judge.stdin).get("judges")
    return isinstance(judged, dict) and judged.get("text") == digest_of(sent.create)


def changed_client(steps: Iterable[RemoteStep], applied: Applied) -> tuple[str, ...]:
    """Refuse an update that would end by undoing what it did: another SSH client has the steps.

    The steps of a host are resources of the provider, or calls of `railyard`: two types, so that
    the engine would make the new ones first and delete the old ones after, and their undo runs.
    """
    found: dict[str, tuple[str, str]] = {}
    for step in steps:
        recorded = applied.step(step.name)
        if recorded is None or not recorded.create or step.dialect == "device":
            continue
        had, has = OWN_CLIENT in recorded.create, bool(step.endpoint.why_own_client)
        if had != has:
            device, why = step.endpoint.device, step.endpoint.why_own_client
            found.setdefault(device, (step.name, why or "the command provider can reach it now"))
    return tuple(
        f"reach: {device} would be reached by another SSH client: {why}.\n"
        f"  where  the state holds {name}: this update would make new steps and then undo what"
        " the old ones did. Nothing was changed on any device.\n"
        f"  fix    reach {device} as before; or take it out of the file with one update, and put it"
        " back with the next"
        for device, (name, why) in found.items()
    )


def left_by_exec(switches: tuple[SwitchPlan, ...], applied: Applied) -> tuple[str, ...]:
    """Refuse an update that would end by undoing what it did: another executor was chosen."""
    return tuple(
        f"executor: {switch.name} was configured by a plain exec, and the file now says"
        f" `executor: device`.\n"
        f"  where  the state holds {switch.exec_step}: this update would remove it, and so reset"
        " the switch to factory values.\n"
        f"  fix    remove the steps {switch.exec_step} and {switch.save_step} with `pulumi state"
        " delete`, which sends nothing; the values from before the first exec are not recorded"
        for switch in switches
        if switch.exec is None and applied.step(switch.exec_step) is not None
    )
