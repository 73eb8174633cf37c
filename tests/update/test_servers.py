"""Servers, quorum and balancers that are lost: named with the state and the next command."""

from __future__ import annotations

import pytest

from components.checks.site import load_checked_site
from components.core.key_values import HostState
from components.drift.applied import Applied
from components.drift.device_drift import Unreachable
from components.plan.make import ClusterPlan, make_plan
from components.update.cluster import judge_cluster
from components.update.seen import Facts, Seen
from components.update.servers import judge_quorum, lost_servers
from tests.golden.site import EXAMPLES
from tests.update.judged import texts
from tests.update.test_decide import as_applied

AWAY = Unreachable("192.168.1.11 port 22: no answer within 10 s")
SERVERS = ("mgmt01", "mgmt02", "mgmt03")


@pytest.fixture(scope="module")
def plan() -> ClusterPlan:
    return make_plan(load_checked_site(EXAMPLES / "dgx-roce/k3s-ha.yaml").spec_or_raise(), "dev")


def server(service: str = "enabled/active", api: str = "ok") -> HostState:
    return HostState({"k3s.service": service, "k3s.api": api})


def seen(**changed: Facts) -> Seen:
    found: dict[str, Facts] = {f"{name} k3s": server() for name in SERVERS}
    for name in ("lb01", "lb02"):
        for service in ("haproxy", "keepalived"):
            found[f"{name} {service}"] = HostState({"service.active": "active"})
    return Seen(found | {name.replace("_", " "): facts for name, facts in changed.items()})


def lost(plan: ClusterPlan, **changed: Facts) -> str:
    return "\n".join(lost_servers(plan, as_applied(plan), seen(**changed)))


def test_nothing_is_said_of_a_cluster_that_is_well_or_was_never_installed(
    plan: ClusterPlan,
) -> None:
    assert lost(plan) == ""
    assert lost_servers(plan, Applied(), seen(mgmt01_k3s=AWAY)) == ()
    assert texts(judge_quorum, plan, Applied(), seen(mgmt01_k3s=AWAY, mgmt02_k3s=AWAY)) == ()


@pytest.mark.parametrize("name", SERVERS)
def test_any_one_server(plan: ClusterPlan, name: str) -> None:
    assert lost(plan, **{f"{name}_k3s": AWAY}) == (
        f"1 of 3 servers are lost: {name} is unreachable (192.168.1.11 port 22: no answer within"
        " 10 s). The cluster lost no data: 2 hold all, and the loss of one more ends the"
        f" API. Next: bring {name} back, or replace the machine and its host key"
    )
    assert texts(judge_quorum, plan, as_applied(plan), seen(**{f"{name}_k3s": AWAY})) == ()


def test_a_server_that_can_be_started_again_names_the_command(plan: ClusterPlan) -> None:
    said = lost(plan, mgmt02_k3s=server("enabled/failed"))
    assert "mgmt02 does not run (k3s.service is failed)" in said
    assert "Next: `pulumi up -s dev` starts the stopped ones on hosts that answer" in said


def test_lost_quorum_is_named_and_refused_where_hosts_are_away(plan: ClusterPlan) -> None:
    gone: dict[str, Facts] = {
        "mgmt01_k3s": server(api="etcd failed"),
        "mgmt02_k3s": AWAY,
        "mgmt03_k3s": AWAY,
    }
    said = lost(plan, **gone)
    assert said.startswith("the cluster lacks a quorum: 0 of 3 servers are well, and etcd needs 2:")
    assert "mgmt01 runs, and its API does not answer (etcd failed)" in said
    assert "docs/howto/lose-a-server.md" in said
    (refused,) = texts(judge_quorum, plan, as_applied(plan), seen(**gone))
    assert refused.startswith("quorum: 1 of 3 servers answer, and etcd needs 2: mgmt01 runs")
    assert "this update could never end" in refused
    assert "bring 1 back" in refused
    stopped: dict[str, Facts] = {f"{name}_k3s": server("enabled/inactive") for name in SERVERS}
    assert (
        texts(judge_quorum, plan, as_applied(plan), seen(**stopped)) == ()
    )  # an update starts them


def test_balancers(plan: ClusterPlan) -> None:
    away = Unreachable("192.168.1.21 port 22: no answer")
    one: dict[str, Facts] = {"lb01_haproxy": away, "lb01_keepalived": away}
    assert "the other balancer has the address, and its loss would cut users off" in lost(
        plan, **one
    )
    stopped = HostState({"service.active": "failed"})
    both = lost(plan, lb01_haproxy=stopped, lb02_keepalived=stopped)
    assert both == (
        "lb01 haproxy does not run (service.active is failed); lb02 keepalived does not run"
        " (service.active is failed): users and kubectl do not reach the API; joined nodes go on."
        " Next: `pulumi up -s dev` starts the stopped ones on hosts that answer"
    )


def test_drift_says_it_and_ends_with_three(plan: ClusterPlan) -> None:
    drift = judge_cluster(plan, as_applied(plan), seen(mgmt03_k3s=server("enabled/failed")))
    assert drift.exit_code == 3
    assert drift.render().startswith("cluster      1 of 3 servers are lost: mgmt03 does not run")
