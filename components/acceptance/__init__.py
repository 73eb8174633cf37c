"""The proof: probes, evidence, judgement, report and gate.

`Acceptance` is loaded on first use, so that the pure parts of the room import no Pulumi.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.acceptance.component import Acceptance

__all__ = ["Acceptance"]


def __getattr__(name: str) -> type[Acceptance]:
    if name == "Acceptance":
        from components.acceptance.component import Acceptance  # noqa: PLC0415 - lazy on purpose

        return Acceptance
    raise AttributeError(name)
