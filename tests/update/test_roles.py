"""The role of a K3s node and the first server of a cluster: neither changes in place."""

from __future__ import annotations

import pytest

from components.checks.site import load_checked_site
from components.core.problem import Lines, Spot
from components.drift.applied import Applied
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.plan.make import make_plan
from components.update.refusals import find_losses
from components.update.seen import Situation
from components.update.servers import describe_servers, judge_roles
from tests.golden.site import EXAMPLES, changed_spec
from tests.update.judged import texts
from tests.update.test_decide import as_applied

SITE = load_checked_site(EXAMPLES / "dgx-roce/k3s-ha.yaml").spec_or_raise()
LINES = Lines("site.yaml", Spot(1, {"hosts": Spot(40)}))


def with_roles(**roles: str) -> ClusterSpec:
    hosts = [
        host.model_copy(update={"role": roles.get(host.name, host.role)}) for host in SITE.hosts
    ]
    return changed_spec(SITE, hosts=tuple(hosts))


def with_servers(*names: str) -> ClusterSpec:
    """The site with these servers alone, in this order."""
    hosts: dict[str, Host] = {host.name: host for host in SITE.hosts}
    others = [host for host in SITE.hosts if host not in SITE.servers]
    return changed_spec(SITE, hosts=(*(hosts[name] for name in names), *others))


def applied(spec: ClusterSpec = SITE) -> Applied:
    return as_applied(make_plan(spec, "dev"))


def refused(spec: ClusterSpec, was: ClusterSpec = SITE) -> tuple[str, ...]:
    return texts(judge_roles, make_plan(spec, "dev"), applied(was), lines=LINES, spec=spec)


def test_a_server_does_not_become_a_worker() -> None:
    (words,) = refused(with_roles(mgmt03="worker"))
    assert words.startswith(
        "role: mgmt03 is a control_plane of the cluster, and the file says worker"
    )
    assert "where  site.yaml:40  hosts[2].role = worker" in words
    assert "remove mgmt03 from the file and update" in words
    spec = with_roles(mgmt01="worker", mgmt02="worker")
    assert len(refused(spec)) == 2
    assert find_losses(Situation(spec, make_plan(spec, "dev"), applied())) == (), (
        "it has one message"
    )


def test_a_worker_does_not_become_a_server() -> None:
    (words,) = refused(SITE, with_roles(mgmt03="worker"))
    assert "mgmt03 is a worker of the cluster, and the file says control_plane" in words


def test_the_first_install_the_same_roles_and_a_departure_are_taken() -> None:
    assert refused(SITE) == ()
    assert texts(judge_roles, make_plan(SITE, "dev"), Applied(), lines=LINES, spec=SITE) == ()
    assert refused(with_servers("mgmt01", "mgmt02")) == ()
    assert refused(with_servers("mgmt02", "mgmt03")) == (), "the one that began it is gone"


@pytest.mark.parametrize("had", [("mgmt01",), ("mgmt01", "mgmt02", "mgmt03")])
def test_the_server_that_began_the_cluster_stays_first(had: tuple[str, ...]) -> None:
    (words,) = refused(with_servers("mgmt03", "mgmt02", "mgmt01"), with_servers(*had))
    assert words.startswith("first-server: mgmt03 would be the first server, and mgmt01 began")
    assert "fix    keep mgmt01 first among the servers" in words
    assert "site.yaml:40" in words


def test_another_order_of_the_others_restarts_nothing() -> None:
    spec = with_servers("mgmt01", "mgmt03", "mgmt02")
    assert refused(spec) == ()
    assert describe_servers(make_plan(spec, "dev"), applied()) == ()


def test_members_of_etcd_that_leave_are_counted() -> None:
    said = describe_servers(make_plan(with_servers("mgmt01", "mgmt02"), "dev"), applied())
    assert said[0] == (
        "WILL LEAVE ETCD: mgmt03, of 3 servers; the file has 2, which can then lose 0 more"
    )


def test_a_server_that_restarts_is_named() -> None:
    assert SITE.k3s is not None
    plane = SITE.k3s.model_copy(update={"secrets_encryption": not SITE.k3s.secrets_encryption})
    plan = make_plan(changed_spec(SITE, kubernetes=plane), "dev")
    assert describe_servers(plan, applied()) == (
        "K3s RESTARTS on mgmt01, mgmt02, mgmt03: its config.yaml changes",
    )
    assert describe_servers(plan, Applied()) == ()
