"""Find drift and edits of a device, and write its repair note.

Drift is the difference between a device and its last applied settings. The edited file does not
count: a preview shows edits and drift apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from components.core.difference import Difference, ForeignSetting, RoutingFault
from components.core.key_values import HostState, parse_state
from components.core.key_values import diff_states as diff_settings
from components.core.plain_text import Facts, fill_known, matches
from components.core.problem import DIFFERS, Finding, Severity, exit_code
from components.core.record import field, record, replace
from components.core.settings import overlay
from components.core.templates import read_table
from components.drift.applied import Applied
from components.remote.step import RemoteStep
from components.remote.tools import ToolCall

RUN_PARAMETERS: Final = frozenset({"stack", "repair"})
"""Keys on every step's stdin that control the run and are not settings."""
_LACKING: Final = "missing or altered on the host; `pulumi up` sends it again"
_OF_ROUTES: Final[Mapping[str, Severity]] = {"unread": "unreachable", "unsaid": "warning"}


@record
class Watched:
    """A step, its settings, and the script that reads them back.

    The step's stdin has these settings and the run's parameters (`RUN_PARAMETERS` and
    `parameters`). The reading script gets the settings as `key=value` lines, and prints their
    present values in the same form.
    """

    device: str
    """Name in reports: the host, or the host and a service on it (`lb-0 haproxy`)."""
    step: RemoteStep
    desired: HostState
    observe: ToolCall
    """A command that only reads."""
    parameters: frozenset[str] = frozenset()
    """Keys on the step's stdin that are not settings."""
    looks: str = ""
    """One more line for the reading script, with further things to read."""
    beside: HostState = field(default_factory=lambda: HostState({}))
    """Settings that Railyard does not own, each with an accepted value; only the reading script
    gets them."""

    def known(self, facts: Facts) -> Watched:
        """Return the same step with the placeholders for known instance facts filled in."""
        values = {key: fill_known(value, facts) for key, value in self.desired.values.items()}
        return replace(self, step=self.step.known(facts), desired=HostState(values))

    def settings_in(self, stdin: str) -> HostState:
        """The settings in a recorded stdin of the step, without the parameters of that run."""
        left_out = RUN_PARAMETERS | self.parameters
        values = parse_state(stdin).values
        return HostState({key: value for key, value in values.items() if key not in left_out})


@record
class Unreachable:
    """A device that could not be read, and the reason."""

    reason: str
    stranger: bool = False
    """The device showed another host key than the pinned one."""


@record
class PlacementFault:
    """A card or a GPU in another place than the file says."""

    text: str
    """The fault and its fix."""
    refused: bool = False
    """No update may start while this lasts."""


@record
class DeviceDrift:
    """How one device differs from its last applied settings, and whether the file edits it."""

    device: str
    step: str
    observed: bool
    unreachable: str | None
    stranger: bool
    """It may be another device, so every update is refused, even without a change on it."""
    applied: bool
    """The step was applied before; otherwise drift has no base."""
    edited: bool
    """The plan differs from the last applied settings."""
    differences: tuple[Difference, ...]
    last_note: str
    cabling: tuple[str, ...] = ()
    """Switch ports that connect another device than the file names. No update can repair that, so
    it does not count as a difference."""
    placement: tuple[PlacementFault, ...] = ()
    """Cards and GPUs of a host in other places than the file says; no update can repair that
    either."""
    tools: tuple[str, ...] = ()
    """Tools missing or altered on the host; an update sends them again."""
    beside: tuple[ForeignSetting, ...] = ()
    """Settings that Railyard does not own but that break RDMA traffic. An update changes them only
    if the file says `repair`, and then they count as settings."""
    routing: tuple[RoutingFault, ...] = ()
    """Routed links of a switch without a session, or with too few routes."""
    ahead: str = ""
    """Progress of an unfinished update; the settings that it made do not count as differences."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All differences from the last update, and unknown facts, in print order.

        `rule` is the kind; an update changes `setting`, `tool` and `upgrade`.
        """
        known: Mapping[str, Iterable[object]] = {
            "unread": () if self.unreachable is None else (self.unreachable,),
            "setting": self.differences,
            "cabling": self.cabling,
            "placement": (each.text for each in self.placement),
            "tool": (f"tool {name}: {_LACKING}" for name in self.tools),
            "foreign": self.beside,
            "routing": self.routing,
            "upgrade": filter(None, (self.ahead,)),
        }
        found: list[Finding] = []
        for rule, each in ((rule, each) for rule, faults in known.items() for each in faults):
            severity: Severity = "unreachable" if rule == "unread" else "error"
            if isinstance(each, RoutingFault):
                severity = _OF_ROUTES.get(each.kind, "error")
            found.append(Finding(str(each), (), "", severity, rule, self.device))
        return tuple(found)

    @property
    def note(self) -> str:
        """The repair note; its number lets a second repair of the same drift run."""
        if not self.differences:
            return self.last_note
        return next_note(self.last_note, "; ".join(map(str, self.differences)))


def next_note(last: str, words: str) -> str:
    """Return the next repair note after `last`; number 1 if `last` is empty."""
    number = int(last.partition(":")[0] or 0) + 1 if last else 1
    return f"{number}: {words}"


def asked_of_step(watched: Watched, applied: Applied) -> HostState:
    """Choose the settings to read for a watched step; drift is measured from the recorded ones."""
    recorded = applied.stdin(watched.step.name)
    wanted = overlay(watched.beside, watched.desired)
    return overlay(wanted, watched.settings_in(recorded)) if recorded else wanted


def drift_of_step(
    watched: Watched, applied: Applied, facts: HostState | Unreachable | None
) -> DeviceDrift:
    """Compare the last applied settings of a step with the device."""
    recorded = applied.stdin(watched.step.name)
    if not recorded:
        return make_drift(watched.device, watched.step.name, facts, (), edited=True, note=None)
    was = watched.settings_in(recorded)
    note = parse_state(recorded).values.get("repair", "")
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
    """Build the drift of one device: `facts` is None if unread, `note` if never applied."""
    unread = isinstance(facts, Unreachable)
    return DeviceDrift(
        device=device, step=step, observed=facts is not None and not unread,
        unreachable=facts.reason if unread else None, stranger=unread and facts.stranger,
        applied=note is not None, edited=edited, differences=found, last_note=note or "",
    )  # fmt: skip


def render_drift(drifts: tuple[DeviceDrift, ...]) -> str:
    """Render the report of `railyard drift`: a line per device, its findings under it."""
    lines: list[str] = []
    texts: Mapping[str, list[str]] = read_table(__file__, "verdicts")
    for drift in drifts:
        if drift.unreachable is not None:
            verdict = f"unreachable: {drift.unreachable}"
        elif not (drift.applied and drift.observed):
            verdict = "not observed" if drift.applied else "never applied"
        else:
            counts = Counter(each.rule for each in drift.findings if each.severity == "error")
            blind = any(each.severity == "unreachable" for each in drift.findings)
            found = ((counts[kind], words) for kind, words in texts.items() if counts[kind])
            wrong = (words[count > 1].format(count) for count, words in found)
            verdict = next(wrong, "routing: not observed" if blind else "no drift")
        lines.append(f"{drift.device:<12} {verdict}\n")
        lines += (f"{'':<12}   {each.what}\n" for each in drift.findings if each.rule != "unread")
    return "".join(lines)


def drift_exit_code(drifts: tuple[DeviceDrift, ...]) -> int:
    """Return 0 for no drift, 3 for drift, 4 if a device could not be read (4 wins over 3)."""
    return exit_code([found for drift in drifts for found in drift.findings], DIFFERS)
