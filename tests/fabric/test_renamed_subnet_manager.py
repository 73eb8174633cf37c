"""A rename in the file is no rename of the switch: its subnet manager keeps its node."""

from __future__ import annotations

from components.fabric.plan import plan_fabric
from components.model.cluster import ClusterSpec
from tests.graph.example_sites import example_spec


def test_a_renamed_switch_is_still_the_node_of_its_subnet_manager() -> None:
    """Seed 2850 of tier 1 of the campaign: `ib smnode` went to a node that there is not."""
    site = example_spec("quantum-ib").model_dump(mode="json")
    old = site["switches"][0]["name"]
    before = plan_fabric(ClusterSpec.model_validate(site))[0].desired
    site["switches"][0]["name"] = "ib-09"
    site["renamed"] = {"switches": {"ib-09": old}}
    site["infiniband"] = {**site["infiniband"]}
    after = plan_fabric(ClusterSpec.model_validate(site))[0].desired
    assert (after.ib and after.ib.node) == (before.ib and before.ib.node) == old
