"""One history: its seed, what happened in it, and which invariants it broke."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from components.core.record import record

INVARIANTS: Final[dict[int, str]] = {
    1: "a device that is in the file before and after is never undone",
    2: "nothing outside our settings differs from its snapshot",
    3: "recorded values of before never become ours, and never vanish while the device is ours",
    4: "with deny no port carries less than before, no host reboots, no cluster is lost",
    5: "a run ends within its deadline and 10 s, and below 500 MB",
    6: "after success a look finds no drift",
    7: "after a failure device and next command are named, and at most two runs converge",
    8: "what the preview says is what changes, both ways",
    9: "no secret is in an output or a file",
    10: "no process, lock or temporary file of ours is left",
}
"""Number to what must hold, as `campaign/README.md` lists them."""
CRASH: Final = 0
"""Not an invariant: the product raised an error that is no refusal, or the campaign did."""


@record
class Finding:
    """An invariant that did not hold."""

    invariant: int
    text: str


@dataclass(slots=True)
class History:
    """What one seed plays."""

    tier: int
    seed: int
    lines: list[str] = field(default_factory=list[str])
    """What happened, in order: `--verbose` prints it."""
    findings: list[Finding] = field(default_factory=list[Finding])
    last_words: str = ""
    """What the product last said in an error."""
    counts: Counter[str] = field(default_factory=Counter[str])
    """What was played, by kind: a campaign that only plays refusals proves nothing."""

    def chance(self) -> random.Random:
        """A source of chance that is the same for the same tier and seed."""
        return random.Random(f"railyard/{self.tier}/{self.seed}")  # noqa: S311 - replays

    def say(self, text: str) -> None:
        """Add a line to the history."""
        self.lines.append(text)

    def detail(self, text: str) -> None:
        """Keep the last words of the product, which `--verbose` prints at the end."""
        self.last_words = text

    def fail(self, invariant: int, text: str) -> None:
        """Note an invariant that did not hold; the same words count once."""
        finding = Finding(invariant, text)
        if finding not in self.findings:
            self.findings.append(finding)
            self.lines.append(f"BROKEN {invariant}: {text}")
