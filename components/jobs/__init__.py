"""What runs on the cluster: the MPI operator and the job templates.

`Jobs` is loaded on first use, so that the pure parts of the room import no Pulumi.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.jobs.component import Jobs

__all__ = ["Jobs"]


def __getattr__(name: str) -> type[Jobs]:
    if name == "Jobs":
        from components.jobs.component import Jobs  # noqa: PLC0415 - lazy on purpose

        return Jobs
    raise AttributeError(name)
