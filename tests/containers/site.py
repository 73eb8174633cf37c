"""The example's site and its plan, and sites that differ from it."""

from __future__ import annotations

from pathlib import Path

from components.containers.container_plan import PayloadPlan, plan_payload
from components.model.cluster import ClusterSpec
from components.reading.load import load_site

EXAMPLE = Path(__file__).parents[2] / "examples" / "esxi-roce" / "site.yaml"
STACK = "lab"


def load_spec(**containers: object) -> ClusterSpec:
    spec = load_site(EXAMPLE).spec
    assert spec is not None
    assert spec.containers is not None
    changed = spec.containers.model_copy(update=containers)
    return spec.model_copy(update={"containers": changed})


def load_plan(**containers: object) -> PayloadPlan:
    plan = plan_payload(load_spec(**containers), STACK)
    assert plan is not None
    return plan
