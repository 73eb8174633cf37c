"""Faults of the emulated API, each caused on demand and counted down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from components.core.errors import UsageError

KINDS: Final = {
    "401": "answers 401 bad_credential",
    "403": "answers 403 unauthorized",
    "429": "answers 429",
    "500": "answers 500 and does nothing",
    "lost": "does what was asked and never answers",
    "op500": "answers 500 to reads of operations",
    "out_of_stock": "lets the next instances fail with out_of_stock",
    "quota_exceeded": "refuses the next instances for their quota",
}
USAGE: Final = (
    f"usage: fault ({'|'.join(KINDS)}) [TIMES [METHOD]] | gone NAME | stop NAME | "
    "readdress NAME | open RULE | clear"
)


@dataclass(slots=True)
class Fault:
    """One fault that waits for its requests."""

    kind: str
    times: int
    method: str = ""
    """Only requests of this method; empty: all."""


@dataclass(slots=True)
class Faults:
    """The faults that are still to come."""

    waiting: list[Fault] = field(default_factory=list[Fault])

    def cause(self, args: Sequence[str]) -> str:
        """Take one order of `railyard lab fault`.

        Raises:
            UsageError: There is no such fault.
        """
        if not args or args[0] not in KINDS or len(args) > 3:  # noqa: PLR2004 - kind, times, method
            raise UsageError(USAGE)
        number = args[1] if args[1:] else "1"
        if not number.isdecimal():
            raise UsageError(USAGE)
        method = args[2].upper() if args[2:] else ""
        self.waiting.append(Fault(args[0], int(number), method))
        return f"for {number} request(s) the cloud {KINDS[args[0]]}"

    def take(self, kinds: Sequence[str], method: str) -> str:
        """The next waiting fault of these kinds for a request, or an empty text; it is used up."""
        for fault in self.waiting:
            if fault.kind in kinds and fault.times > 0 and fault.method in ("", method):
                fault.times -= 1
                return fault.kind
        return ""
