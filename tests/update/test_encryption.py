"""Encryption of Secrets cannot be edited on a cluster that is there."""

from __future__ import annotations

import pytest

from components.core.problem import Lines, Spot
from components.drift.applied import Applied
from components.plan.make import ClusterPlan, make_plan
from components.update.encryption import encryption_refused
from tests.golden.site import changed_spec, load_example
from tests.update.test_decide import as_applied

LINES = Lines("site.yaml", Spot(1, {"kubernetes": Spot(40, {"secrets_encryption": Spot(43)})}))


def plan_of(*, encrypted: bool) -> ClusterPlan:
    spec = load_example("dgx-roce")
    assert spec.k3s is not None
    plane = spec.k3s.model_copy(update={"secrets_encryption": encrypted})
    return make_plan(changed_spec(spec, kubernetes=plane), "dev")


@pytest.mark.parametrize("encrypted", [True, False])
def test_the_first_install_and_the_same_value_are_taken(*, encrypted: bool) -> None:
    plan = plan_of(encrypted=encrypted)
    assert encryption_refused(plan, Applied(), LINES) == ()
    assert encryption_refused(plan, as_applied(plan), LINES) == ()


@pytest.mark.parametrize(("was", "wants"), [(False, "true"), (True, "false")])
def test_another_value_is_refused_with_its_line(*, was: bool, wants: str) -> None:
    applied = as_applied(plan_of(encrypted=was))
    (words,) = encryption_refused(plan_of(encrypted=not was), applied, LINES)
    assert f"and the file says {wants}: K3s chooses it at its first start" in words
    assert f"where  site.yaml:43  kubernetes.secrets_encryption = {wants}" in words
