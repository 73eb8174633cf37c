"""`show roce` as what the one-shot set on every port: only where it names no exception."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, cast

from components.fabric.state import EcnState
from components.fabric.systems.onyx.read import Trust

_HEAD: Final = re.compile(r"^RoCE mode *: *(?:lossless|semi-lossless|lossy)$", re.MULTILINE)
_TRUST: Final = re.compile(r"^Port trust mode *: *(L2|L3|both|port)$", re.MULTILINE)
_ECN: Final = re.compile(
    r"^Port congestion-control:\n +Mode *: *ecn, absolute\n +Min \(KB\) *: *(\d+)\n"
    r" +Max \(KB\) *: *(\d+)$",
    re.MULTILINE,
)
_CLASS: Final = re.compile(r"^ +\d +(\d) +(RoCE|CNP) +(?:WRR (\d+)%|(Strict)) *$", re.MULTILINE)
_NO_EXCEPTION: Final = re.compile(r"^Exception list:\s+N/A\s*\Z", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class OneShot:
    """Settings of every port that has no line of its own; at first the factory's, as without it."""

    trust: Trust = "L2"
    ecn: dict[int, EcnState] = field(default_factory=dict[int, EcnState])
    strict: frozenset[int] = frozenset()
    weights: dict[int, int] = field(default_factory=dict[int, int])
    """Percent, of the class of RoCE alone: those of the others are not in the answer."""


def parse_one_shot(text: str) -> OneShot | None:
    """Read an answer in the form of capture C1; None: it has another, or names an exception."""
    trust, ecn = _TRUST.search(text), _ECN.search(text)
    rows = _CLASS.findall(text)
    if not (_HEAD.search(text) and _NO_EXCEPTION.search(text)) or trust is None or ecn is None:
        return None
    marked = [int(tc) for tc, use, _, _ in rows if use == "RoCE"]
    if len(marked) != 1:
        return None
    return OneShot(
        cast("Trust", trust[1]),
        {marked[0]: EcnState(min_kib=int(ecn[1]), max_kib=int(ecn[2]))},
        frozenset(int(tc) for tc, _, _, strict in rows if strict),
        {int(tc): int(percent) for tc, _, percent, _ in rows if percent},
    )
