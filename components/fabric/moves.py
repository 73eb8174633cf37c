"""What a run changed, in the lines of its evidence. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

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
