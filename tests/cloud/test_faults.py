"""Any faults, in any order: the next clean run ends with the wanted instances, and no other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from components.cloud.cloud_plan import PREFLIGHT_STEP, CloudPlan
from lab.cloud.crusoe.server import CrusoeCloud
from tests.cloud.small_engine import Stack, answer_ssh, plan_of, running_cloud, site

TABLES: Final = ("networks", "subnets", "rules", "partitions", "instances")
INSTANCES: Final = ("crusoe-k3s-0", "crusoe-k3s-lb-0", "crusoe-k3s-worker-1")
Action = Callable[[Stack, CrusoeCloud], None]

_STATUS = st.tuples(
    st.sampled_from(["401", "403", "429", "500", "lost", "op500", "out_of_stock"]),
    st.integers(1, 12).map(str),
    st.sampled_from(["GET", "POST", "PATCH", "DELETE"]),
).map(list)
_MEDDLING = st.tuples(st.sampled_from(["gone", "stop", "killed"]), st.sampled_from(INSTANCES)).map(
    list
)
_RUN = st.sampled_from([["up"], ["up"], ["destroy"]])
_HISTORY = st.lists(st.one_of(_STATUS, _STATUS, _MEDDLING, _RUN), max_size=8)
_NUMBER = count()


def _do(order: list[str], stack: Stack, cloud: CrusoeCloud, plan: CloudPlan) -> None:
    match order:
        case ["up"]:
            stack.up(plan)
        case ["destroy"]:
            stack.destroy()
        case ["killed", name]:
            # The engine died after the command and before its checkpoint.
            stack.steps.pop(f"{name}-await", None)
            stack.steps.pop(f"{name}-instance", None)
        case ["gone" | "stop", name]:
            there = cloud.snapshot()["instances"]
            assert isinstance(there, dict)
            if name in {str(item["name"]) for item in there.values() if isinstance(item, dict)}:
                cloud.fault(order)
        case _:
            cloud.fault(order)


def _names(cloud: CrusoeCloud, table: str) -> Counter[str]:
    found = cloud.snapshot()[table]
    assert isinstance(found, dict)
    return Counter(str(item["name"]) for item in found.values() if isinstance(item, dict))


@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(history=_HISTORY)
def test_no_history_leaves_an_orphan_or_a_double(
    history: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_ssh(monkeypatch)
    with running_cloud(tmp_path / f"cloud-{next(_NUMBER)}.json") as cloud:
        plan, stack = plan_of(site(cloud.endpoint)), Stack()
        for order in history:
            _do(order, stack, cloud, plan)
            assert max(_names(cloud, "instances").values(), default=0) <= 1
        cloud.fault(["clear"])
        assert stack.up(plan) or stack.up(plan), (history, [str(e) for e in stack.errors])
        assert _names(cloud, "instances") == Counter(each.name for each in plan.instances)
        for table in TABLES:
            assert max(_names(cloud, table).values()) == 1
        assert stack.up(plan)
        assert stack.ran == []
        assert stack.destroy(), [str(error) for error in stack.errors]
        assert all(not cloud.snapshot()[table] for table in TABLES)


@pytest.mark.parametrize("lost", ["lost", "500"])
def test_a_create_whose_fate_nobody_knows_is_swept_by_destroy(
    cloud: CrusoeCloud, plan: CloudPlan, lost: str
) -> None:
    """The POST is answered by nobody, no list works, the user gives up: nothing is left."""
    stack = Stack()
    stack.up(plan)
    name = "crusoe-k3s-worker-1"
    # As if the last two steps had failed: the cloud has the instance, the state does not.
    del stack.steps[f"{name}-await"], stack.steps[f"{name}-instance"]
    cloud.fault([lost, "1", "DELETE"])
    assert stack.destroy(), [str(error) for error in stack.errors]
    assert PREFLIGHT_STEP not in stack.steps
    assert all(not cloud.snapshot()[table] for table in TABLES)
