"""Encryption of Secrets and a token of agents cannot be edited on a cluster that is there."""

from __future__ import annotations

import pytest

from components.core.problem import Lines, Spot
from components.drift.applied import Applied
from components.model.units import SecretRef
from components.plan.make import ClusterPlan, make_plan
from components.update.refusals import judge_first_install
from tests.golden.site import changed_spec, load_example
from tests.update.judged import texts
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
    assert texts(judge_first_install, plan, Applied(), lines=LINES) == ()
    assert texts(judge_first_install, plan, as_applied(plan), lines=LINES) == ()


@pytest.mark.parametrize(("was", "wants"), [(False, "true"), (True, "false")])
def test_another_value_is_refused_with_its_line(*, was: bool, wants: str) -> None:
    applied = as_applied(plan_of(encrypted=was))
    (words,) = texts(judge_first_install, plan_of(encrypted=not was), applied, lines=LINES)
    says = f"the file says secrets_encryption: {wants}: K3s chooses it at its first start"
    assert says in words
    assert f"where  site.yaml:43  kubernetes.secrets_encryption = {wants}" in words


@pytest.mark.parametrize("has_one", [True, False])
def test_a_token_of_agents_is_neither_given_nor_taken_later(*, has_one: bool) -> None:
    spec = load_example("dgx-roce")
    assert spec.k3s is not None
    tokens = (None, SecretRef(secret="k3s_agent_token"))
    planes = [spec.k3s.model_copy(update={"agent_token": token}) for token in tokens]
    plans = [make_plan(changed_spec(spec, kubernetes=plane), "dev") for plane in planes]
    was, wanted = reversed(plans) if has_one else plans
    (words,) = texts(judge_first_install, wanted, as_applied(was), lines=LINES)
    had, says = ("an", "no") if has_one else ("no", "an")
    assert f"was installed with {had} agent_token, and the file says {says} agent_token" in words
    assert words.endswith(f"fix    write {had} agent_token")
    assert texts(judge_first_install, wanted, as_applied(wanted), lines=LINES) == ()
