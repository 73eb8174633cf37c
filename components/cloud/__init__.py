"""Cloud instances: the API's client, what is made in which order, and the component.

`Instances` is loaded on first use, so that the pure parts of the room import no Pulumi.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.cloud.component import Instances

__all__ = ["Instances"]


def __getattr__(name: str) -> type[Instances]:
    if name == "Instances":
        from components.cloud.component import Instances  # noqa: PLC0415 - lazy on purpose

        return Instances
    raise AttributeError(name)
