"""Rules on plugins and operators in cases that one file a rule does not show."""

from __future__ import annotations

from typing import Any

import pytest

from components.checks.operators import check_driver_owner, check_rail_resource
from components.checks.site import check_site
from components.model.cluster import ClusterSpec
from components.model.operators import GpuOperator, NetworkOperator, NetworkOperatorChart, Operators
from tests.checks.by_name import findings_of
from tests.golden.site import changed_spec, load_example

SHARED = load_example("shared-rdma")
CLOUD = load_example("crusoe-k3s")


def with_network(**changes: Any) -> ClusterSpec:  # noqa: ANN401 - keys of the model
    return changed_spec(SHARED, pod_network=SHARED.pod_network.model_copy(update=changes))


def test_rails_may_share_a_resource_of_shared_cards() -> None:
    rail = SHARED.rails[0]
    second = rail.model_copy(update={"name": "rail-1", "vlan": 157, "network": "macvlan157"})
    spec = changed_spec(SHARED, rails=(rail, second))
    assert not [*check_rail_resource(spec)]
    assert "resource-name" not in {problem.rule for problem in check_site(spec)}


@pytest.mark.parametrize(
    ("address", "right"),
    [("10.106.156.3", True), ("10.106.157.3", False), ("enp88s0", False), (None, False)],
)
def test_the_hosts_network_needs_an_address_of_the_rail(
    address: str | None, *, right: bool
) -> None:
    hosts = tuple(
        host.model_copy(
            update={"nics": tuple(n.model_copy(update={"address": address}) for n in host.nics)}
        )
        for host in SHARED.hosts
    )
    spec = changed_spec(with_network(host_network=True), hosts=hosts)
    assert len(findings_of("host-network", spec)) == (0 if right else 2)


def test_the_hosts_network_belongs_to_shared_cards() -> None:
    (finding,) = findings_of("host-network", with_network(host_network=True, mode="sriov"))
    assert finding.what.endswith("host_network is true, but pod_network.mode is sriov.")


def test_a_clouds_image_owns_both_drivers() -> None:
    operators = Operators(
        gpu=GpuOperator(driver="operator"),
        network=NetworkOperator(driver="operator"),
    )
    findings = [*check_driver_owner(changed_spec(CLOUD, operators=operators))]
    assert [f.where[0].path[1] for f in findings] == ["network", "gpu"]
    assert not [*check_driver_owner(CLOUD)]


@pytest.mark.parametrize(
    ("operator", "kubernetes", "severity"),
    [
        ("26.7.1", "v1.36.3+k3s1", None),
        ("26.4.1", "v1.35.6+k3s1", None),
        ("26.4.1", "v1.36.3+k3s1", "warning"),
        ("26.4.1", "v1.30.1+k3s1", "error"),
        ("24.7.0", "v1.36.3+k3s1", "warning"),
    ],
)
def test_what_is_stated_of_the_network_operator(
    operator: str, kubernetes: str, severity: str | None
) -> None:
    chart = NetworkOperatorChart(version=operator)
    assert CLOUD.k3s is not None
    spec = changed_spec(
        CLOUD,
        operators=Operators(network=NetworkOperator(chart=chart)),
        kubernetes=CLOUD.k3s.model_copy(update={"version": kubernetes}),
    )
    assert [f.severity for f in findings_of("plugin-version", spec)] == (
        [severity] if severity else []
    )
