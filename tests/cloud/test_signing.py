"""Signatures against known answers: made by the vendor's Go client (its `auth/v1/auth.go`)."""

from __future__ import annotations

import pytest

from components.cloud.crusoe_api import Query, canonical_query, sign
from components.core.errors import UsageError
from tests.cloud.small_engine import SECRET

TIME = "2026-01-02T03:04:05Z"
INSTANCES = "/v1/projects/p1/compute/vms/instances"


@pytest.mark.parametrize(
    ("method", "path", "query", "signature"),
    [
        (
            "GET",
            "/v1/capacities",
            [("product_name", "h100-80gb-sxm-ib.8x"), ("location", "us-east1-a")],
            "U87ItrLdePiLf-7OCS0jyBSgENg95qmTbHq8H-Hrfto",
        ),
        ("POST", INSTANCES, [], "1Gi39uPmH2ghpNrYLBaUiD6BzN-J_cZrUcJFjC52qDc"),
        (
            "GET",
            INSTANCES,
            [("names", "a b"), ("names", "c"), ("limit", "10")],
            "j5XhqjSioA6eB2gP4VLaoZlYzWa1LmkSByeeqcrwcv0",
        ),
    ],
)
def test_known_answers(method: str, path: str, query: Query, signature: str) -> None:
    assert sign(SECRET, method, path, query, TIME) == signature


def test_values_of_one_key_keep_their_order() -> None:
    query = [("names", "c"), ("limit", "1"), ("names", "a b")]
    assert canonical_query(query) == "limit=1&names=c&names=a+b"


def test_a_secret_that_is_no_key_is_named_without_being_shown() -> None:
    with pytest.raises(UsageError, match="is not valid") as caught:
        sign("not a key!", "GET", "/v1/locations", [], TIME)
    assert "not a key!" not in str(caught.value)
