"""The proof: probes, evidence, judgement, report and gate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.core.start import on_demand

if TYPE_CHECKING:
    from components.acceptance.component import Acceptance
else:
    __getattr__ = on_demand(__name__, "Acceptance")

__all__ = ["Acceptance"]
