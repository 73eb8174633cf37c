"""What a run changed, in the lines of its evidence. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from pydantic import TypeAdapter, ValidationError

from components.fabric.alike import fold_ports
from components.fabric.identity import Identity
from components.fabric.state import SwitchState
from components.fabric.systems.base import Change, Reading
from components.fabric.systems.ranges import collapse_vlans

_NUMBERED: Final = re.compile(r"(.*vlan_|dscp_)(\d+)(.*)")
"""Settings of which a port has thousands, or 64."""
_BESIDE: Final = "ports beside the file's"


def describe_moves(
    before: SwitchState, after: SwitchState, ports: AbstractSet[str]
) -> tuple[set[tuple[str, str]], tuple[str, ...]]:
    """The settings that moved, and a line for each; one for all VLANs or DSCPs that moved alike.

    A trunk that carried every VLAN would else bring 4,093 lines, and a map of DSCPs 64 a port, and
    the engine hands the evidence on in one environment variable, of which the kernel takes 128 KiB.
    What a one-shot of the whole switch moved on ports that are not in the file is one line too.

    Args:
        before: What was found.
        after: What is there now.
        ports: Those of the file.
    """
    was, now = before.settings(), after.settings()
    moved = {key for key in {*was, *now} if was.get(key, "") != now.get(key, "")}
    whole = before.roce != after.roce
    alike: dict[tuple[str, str, str, str], list[int]] = {}
    for key in sorted(moved):
        where, setting = key
        if whole and where.startswith("port ") and where.removeprefix("port ") not in ports:
            where = _BESIDE
        found = _NUMBERED.fullmatch(setting)
        head, number, tail = found.groups() if found else (setting, "", "")
        move = f"{was.get(key, 'absent')} -> {now.get(key, 'absent')}"
        alike.setdefault((where, head, tail, move), []).extend([int(number)] if found else [])
    return moved, tuple(
        f"{head}{collapse_vlans({*numbers}) if numbers else ''}{tail} of {where}: {move}"
        for (where, head, tail, move), numbers in alike.items()
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an exchange did."""

    before: SwitchState
    after: SwitchState
    lines: tuple[str, ...]
    interrupts: tuple[str, ...]
    """What it interrupted, one text for each place."""


def outcome_of(
    before: Reading, after: Reading, sent: Sequence[Change], interrupts: tuple[str, ...]
) -> Outcome:
    """What changes between two readings came to."""
    return Outcome(
        before=before.state,
        after=after.state,
        lines=tuple(line for change in sent for line in change.lines),
        interrupts=interrupts,
    )


def join_outcomes(outcomes: Sequence[Outcome]) -> Outcome:
    """What several runs came to together, one after the other."""
    return Outcome(
        before=outcomes[0].before,
        after=outcomes[-1].after,
        lines=tuple(line for each in outcomes for line in each.lines),
        interrupts=tuple(text for each in outcomes for text in each.interrupts),
    )


@dataclass(frozen=True, slots=True)
class SwitchEvidence:
    """What an apply or a restore did; it is on stdout."""

    device: str
    changed: tuple[str, ...]
    unchanged: int
    interrupted: tuple[str, ...]
    saved: bool
    desired: SwitchState
    """What is ours since this run; the next run gives back what it no longer wants."""
    identity: Identity | None = None
    """Which switch it was; None if its system has no published form of that."""
    drained: tuple[str, ...] = ()
    """The nodes that left service for this change and are back."""
    shifted: str = ""
    """How traffic left the switch for this change; it is back. Empty: none was sent away."""


_EVIDENCE = TypeAdapter(SwitchEvidence)


def previous_of(text: str) -> SwitchState | None:
    """What the last run made ours, by its evidence; None if there is none."""
    if not text.strip():
        return None
    try:
        return _EVIDENCE.validate_json(text).desired
    except ValidationError:
        return None


def dump_evidence(evidence: SwitchEvidence) -> str:
    """The evidence as indented JSON."""
    document = _EVIDENCE.dump_python(evidence, mode="json", exclude_defaults=True)
    document["desired"] = fold_ports(document["desired"])
    return json.dumps(document, indent=1) + "\n"
