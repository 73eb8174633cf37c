"""The MPI operator and the templates of jobs on the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.core.start import on_demand

if TYPE_CHECKING:
    from components.jobs.component import Jobs
else:
    __getattr__ = on_demand(__name__, "Jobs")

__all__ = ["Jobs"]
