"""A chain as long as a large site's reboots: the SDK's own search for cycles ends at a thousand."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

import pulumi
import pytest
from pulumi.runtime import resource_cycle_breaker, rpc

from stacks.order import trust_order

LONG = 1500
"""More than Python's limit of nested calls."""


class Named:
    """All that the search knows of a resource: what it waits for, by an attribute of its own."""


def declare_chain(declare: Callable[[Any, Any], bool]) -> list[bool]:
    chain = [cast("pulumi.Resource", Named()) for _ in range(LONG)]
    return [declare(later, earlier) for earlier, later in pairwise(chain)]


def test_the_sdk_searches_deeper_than_python_recurses() -> None:
    """When this fails, the SDK has learnt it, and `stacks/order.py` can go."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 200)  # it takes the square of that
    try:
        with pytest.raises(RecursionError):
            declare_chain(resource_cycle_breaker.declare_dependency)
    finally:
        sys.setrecursionlimit(limit)


def test_hosts_that_leave_service_one_after_the_other_may_be_many() -> None:
    trust_order()
    declare = cast("Callable[[Any, Any], bool]", vars(rpc)["declare_dependency"])
    assert declare is not resource_cycle_breaker.declare_dependency
    assert declare_chain(declare) == [True] * (LONG - 1)
