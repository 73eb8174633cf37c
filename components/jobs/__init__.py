"""What runs on the cluster: the MPI operator and the job templates.

`Jobs` is loaded on first use, so that the pure parts of the room import no Pulumi.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.core.lazy import on_demand

if TYPE_CHECKING:
    from components.jobs.component import Jobs
else:
    __getattr__ = on_demand(__name__, "Jobs")

__all__ = ["Jobs"]
