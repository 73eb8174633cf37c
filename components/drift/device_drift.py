"""Drift, edits and repair notes: what was applied against what is there, as plain values.

Drift is measured against what was last applied, never against a file that has just been edited:
an edit is an ordinary diff, and a preview shows the two apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from components.core.difference import Beside, Difference, LostWay
from components.core.key_values import HostState, parse_state
from components.core.key_values import diff_states as diff_settings
from components.core.plain_text import Facts, fill_known, matches
from components.core.settings import overlay
from components.drift.applied import Applied
from components.remote.step import RemoteStep
from components.remote.tools import ToolCall

RUN_PARAMETERS: Final = frozenset({"stack", "repair"})
"""Keys on every step's stdin that say how a run is done, and are no settings."""


@dataclass(frozen=True, slots=True)
class Watched:
    """One step, the settings that it leaves behind, and the script that reads them.

    The step's stdin is the settings and the parameters of the run (`PARAMETERS` and the room's
    own). The reading script gets the settings as `key=value` lines, and prints their present
    values in the same form.
    """

    device: str
    """As reports name it: the host, or the host and what runs on it (`lb-0 haproxy`)."""
    step: RemoteStep
    desired: HostState
    observe: ToolCall
    """A verb that only reads."""
    parameters: frozenset[str] = frozenset()
    """Keys of the step's stdin that are no settings."""
    looks: str = ""
    """A line for the reading script alone: what else it shall look at."""
    beside: HostState = field(default_factory=lambda: HostState({}))
    """Settings that are not ours and are read with ours, each with a value that it may have: for
    the reading script alone."""

    def known(self, facts: Facts) -> Watched:
        """The same with what is known of the instances in its holes."""
        values = {key: fill_known(value, facts) for key, value in self.desired.values.items()}
        return replace(self, step=self.step.known(facts), desired=HostState(values))

    def settings_in(self, stdin: str) -> HostState:
        """The settings in a recorded stdin of the step, without the parameters of that run."""
        left_out = RUN_PARAMETERS | self.parameters
        values = parse_state(stdin).values
        return HostState({key: value for key, value in values.items() if key not in left_out})


_LACKING: Final = "missing or altered on the host; `pulumi up` sends it again"


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A device that could not be read, and why, in words."""

    reason: str
    stranger: bool = False
    """It presented another host key than the pinned one."""


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A card or a GPU that is not where the file says."""

    text: str
    """What is wrong and how to mend it."""
    refused: bool = False
    """No update may start over it."""


@dataclass(frozen=True, slots=True)
class DeviceDrift:
    """One device: what differs from what was applied, and whether the file asks for a change."""

    device: str
    step: str
    observed: bool
    unreachable: str | None
    stranger: bool
    """It may be another device: refused, whether or not anything is to do there."""
    applied: bool
    """Something was applied before; without it there is nothing to drift from."""
    edited: bool
    """The plan differs from what was applied."""
    differences: tuple[Difference, ...]
    last_note: str
    cabling: tuple[str, ...] = ()
    """Ports of a switch where the file names another device than is plugged in. No update mends
    that, so it is no difference."""
    placement: tuple[Misplaced, ...] = ()
    """Cards and GPUs of a host that are not where the file says: no update mends that either."""
    tools: tuple[str, ...] = ()
    """Tools that were sent to the host, and are missing or altered there: an update sends them."""
    beside: tuple[Beside, ...] = ()
    """Settings that are not ours and break our traffic. No update mends them unless the file says
    `repair`, and then they are ours: so they are no difference."""
    routing: tuple[LostWay, ...] = ()
    """Routed links of a switch without a session, or that bring too little. No update mends that.
    """
    ahead: str = ""
    """How far an update that did not end has brought it; what that update set is no difference."""

    @property
    def note(self) -> str:
        """The repair note of this run: counted, so that the same drift twice is repaired twice."""
        if not self.differences:
            return self.last_note
        return next_note(self.last_note, "; ".join(map(str, self.differences)))


def next_note(last: str, words: str) -> str:
    """The repair note that follows another one; the first where that is empty."""
    number = int(last.partition(":")[0] or 0) + 1 if last else 1
    return f"{number}: {words}"


def asked_of_step(watched: Watched, applied: Applied) -> HostState:
    """What to read of a watched device: as above.

    Where both name a setting, the applied value is asked for: drift is from that.
    """
    recorded = applied.step(watched.step.name)
    wanted = overlay(watched.beside, watched.desired)
    if recorded is None or not recorded.stdin:
        return wanted
    return overlay(wanted, watched.settings_in(recorded.stdin))


def drift_of_step(
    watched: Watched, applied: Applied, facts: HostState | Unreachable | None
) -> DeviceDrift:
    """Compare what a watched step left behind with what is there."""
    recorded = applied.step(watched.step.name)
    if recorded is None or not recorded.stdin:
        return make_drift(watched.device, watched.step.name, facts, (), edited=True, note=None)
    was = watched.settings_in(recorded.stdin)
    note = parse_state(recorded.stdin).values.get("repair", "")
    found = diff_settings(facts, was) if isinstance(facts, HostState) else ()
    edited = not matches(watched.desired.render(), was.render())
    return make_drift(watched.device, watched.step.name, facts, found, edited=edited, note=note)


def make_drift(
    device: str,
    step: str,
    facts: object,
    found: tuple[Difference, ...],
    *,
    edited: bool,
    note: str | None,
) -> DeviceDrift:
    """The drift of one device.

    Args:
        device: Its name in reports.
        step: The step that applies its settings.
        facts: Its state as read; `Unreachable` where that failed, None where it was not read.
        found: What differs from what was applied.
        edited: The plan differs from what was applied.
        note: The last repair note; None where nothing was ever applied.
    """
    unread = isinstance(facts, Unreachable)
    return DeviceDrift(
        device=device,
        step=step,
        observed=facts is not None and not unread,
        unreachable=facts.reason if unread else None,
        stranger=unread and facts.stranger,
        applied=note is not None,
        edited=edited,
        differences=found,
        last_note=note or "",
    )


def render_drift(drifts: tuple[DeviceDrift, ...]) -> str:
    """The report of `railyard drift`: a line per device, its differences under it."""
    lines: list[str] = []
    for drift in drifts:
        lines.append(f"{drift.device:<12} {_verdict(drift)}")
        lines += [f"{'':<12}   {found}" for found in (*drift.differences, *drift.cabling)]
        lines += [f"{'':<12}   {found.text}" for found in drift.placement]
        lines += [f"{'':<12}   tool {name}: {_LACKING}" for name in drift.tools]
        lines += [f"{'':<12}   {found}" for found in drift.beside]
        lines += [f"{'':<12}   {found}" for found in drift.routing]
        lines += [f"{'':<12}   {drift.ahead}"] if drift.ahead else []
    return "\n".join(lines) + "\n"


def _verdict(drift: DeviceDrift) -> str:
    if drift.unreachable is not None:
        return f"unreachable: {drift.unreachable}"
    if not drift.applied:
        return "never applied"
    if not drift.observed:
        return "not observed"
    if drift.differences:
        return f"drift: {len(drift.differences)} setting(s) differ from what was applied"
    if drift.tools:
        return f"drift: {len(drift.tools)} tool(s) of Railyard are missing or altered"
    return _plugged(drift)


def _plugged(drift: DeviceDrift) -> str:
    if drift.ahead:
        return "in the middle of an upgrade"
    if drift.cabling:
        return f"cabling: {len(drift.cabling)} port(s) are not plugged as the file says"
    if drift.placement:
        return f"placement: {len(drift.placement)} thing(s) are not plugged in as the file says"
    if drift.beside:
        return f"beside: {len(drift.beside)} setting(s) that are not ours break our traffic"
    return _routed(drift)


def _routed(drift: DeviceDrift) -> str:
    lost = [each for each in drift.routing if each.kind == "lost"]
    if lost:
        return f"routing: {len(lost)} link(s) do not carry what the file says"
    if any(each.kind == "unread" for each in drift.routing):
        return "routing: not observed"
    return "no drift"


def drift_exit_code(drifts: tuple[DeviceDrift, ...]) -> int:
    """0: no drift, 3: drift, 4: a device could not be read (4 wins over 3)."""
    if any(drift.unreachable is not None or _is_blind(drift) for drift in drifts):
        return 4
    return 3 if any(map(_is_wrong, drifts)) else 0


def _is_blind(drift: DeviceDrift) -> bool:
    return any(each.kind == "unread" for each in drift.routing)


def _is_wrong(drift: DeviceDrift) -> bool:
    lost = any(each.kind == "lost" for each in drift.routing)
    plugged = drift.cabling or drift.placement or lost
    return bool(drift.differences or drift.tools or drift.beside or drift.ahead or plugged)
