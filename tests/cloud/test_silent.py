"""Nobody looks at what is on an instance that is gone or stopped."""

from __future__ import annotations

import pytest

from components.cloud.cloud_plan import CloudPlan
from components.cloud.observe import observe_cloud, silent_instances
from lab.cloud.crusoe.server import CrusoeCloud
from tests.cloud.small_engine import QUICK, SECRETS, Stack

LOST = "crusoe-k3s-1"


@pytest.mark.parametrize("how", ["gone", "stop"])
def test_a_gone_or_stopped_instance_is_silent(
    how: str, cloud: CrusoeCloud, plan: CloudPlan, made: Stack
) -> None:
    facts = observe_cloud(plan, made.applied, SECRETS, QUICK)
    assert silent_instances(plan, facts) == frozenset()
    cloud.fault([how, LOST])
    facts = observe_cloud(plan, made.applied, SECRETS, QUICK)
    assert silent_instances(plan, facts) == {LOST}
