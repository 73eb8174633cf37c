"""Declare dependencies between resources without the SDK's search for cycles."""

from __future__ import annotations

import pulumi
from pulumi.runtime import rpc


def trust_order() -> None:
    """Make the SDK accept each dependency without a search.

    To find a cycle, the SDK walks through everything that the other resource depends on. So the
    time grows with the square of the number of resources, and if 1,000 hosts leave service one
    after the other, their chain is deeper than Python recurses. A cycle needs a component that
    waits for its own children. Railyard's components only wait for gates and steps that exist
    before them.
    """
    rpc.declare_dependency = _declare  # pyright: ignore[reportPrivateImportUsage] - the SDK has no switch for it


def _declare(from_resource: pulumi.Resource, to_resource: pulumi.Resource) -> bool:
    """Replace the SDK's function; true says that the dependency closes no cycle."""
    del from_resource, to_resource
    return True
