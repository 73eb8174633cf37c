"""Who reaches the API: the rules, on which hosts they are, in which order, and who is refused."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest

from components.core.key_values import HostState, parse_state
from components.core.problem import Lines, Spot
from components.drift.applied import Applied
from components.drift.device_drift import Unreachable
from components.kubernetes.planes.balancers import render_rules
from components.model.cluster import ClusterSpec
from components.model.units import SecretRef
from components.plan.make import make_plan
from components.update.refusals import judge_api
from components.update.secrets import secret_names
from components.update.seen import Facts, Seen
from tests.golden.site import changed_spec, load_example
from tests.kubernetes.plans import planned
from tests.update.judged import texts

NETWORKS = (IPv4Network("192.168.0.0/16"), IPv4Network("10.7.0.0/31"), IPv4Network("10.7.0.2/32"))
LINES = Lines("site.yaml", Spot(1, {"kubernetes": Spot(40, {"api_from": Spot(44)})}))


@pytest.fixture
def spec() -> ClusterSpec:
    base = load_example("dgx-roce")
    assert base.k3s is not None
    parts = {"api_from": NETWORKS, "agent_token": SecretRef(secret="k3s_agent_token")}
    return changed_spec(base, kubernetes=base.k3s.model_copy(update=parts))


def with_servers(spec: ClusterSpec) -> ClusterSpec:
    """Three servers and a balancer."""
    roles = ("control_plane", "control_plane", "balancer")
    more = tuple(
        spec.servers[0].model_copy(
            update={"name": f"more{number}", "role": role, "node_ip": f"192.168.1.{20 + number}"}
        )
        for number, role in enumerate(roles)
    )
    return changed_spec(spec, hosts=(*spec.hosts, *more))


def test_the_rules_name_the_port_of_the_api_and_no_other(spec: ClusterSpec) -> None:
    assert spec.k3s is not None
    assert render_rules(spec.k3s) == (
        "table inet railyard_api\n"
        "delete table inet railyard_api\n"
        "table inet railyard_api {\n"
        "  set allowed {\n"
        "    type ipv4_addr\n"
        "    flags interval\n"
        "    elements = { 10.7.0.0/31, 10.7.0.2/32, 10.42.0.0/16, 192.168.0.0/16 }\n"
        "  }\n"
        "  chain input {\n"
        "    type filter hook input priority -10; policy accept;\n"
        '    iifname "lo" accept\n'
        "    meta nfproto ipv4 tcp dport 6443 ip saddr != @allowed drop\n"
        "    meta nfproto ipv6 tcp dport 6443 drop\n"
        "  }\n"
        "}\n"
    )


def test_networks_that_overlap_become_one(spec: ClusterSpec) -> None:
    """Nft refuses a set with conflicting intervals."""
    assert spec.k3s is not None
    twice = (IPv4Network("10.0.0.0/8"), IPv4Network("10.7.0.0/24"))
    rules = render_rules(spec.k3s.model_copy(update={"api_from": twice}))
    assert "    elements = { 10.0.0.0/8 }\n" in rules


def test_without_the_keys_there_is_no_filter_and_no_token_of_agents(spec: ClusterSpec) -> None:
    assert spec.k3s is not None
    bare = spec.k3s.model_copy(update={"api_from": (), "agent_token": None})
    plan = planned(changed_spec(spec, kubernetes=bare))
    assert (plan.filters, plan.agent_tokens) == ((), ())


def test_servers_and_balancer_have_one_before_they_serve(spec: ClusterSpec) -> None:
    plan = planned(with_servers(spec))
    order = [step.name for step in plan.steps]
    for host in ("mgmt01", "more0", "more1"):
        assert order.index(f"{host}-api-filter") + 1 == order.index(f"{host}-k3s")
    assert order.index("more2-api-filter") + 1 == order.index("more2-haproxy")
    assert len(plan.filters) == 4
    assert not any(name.startswith("gpu") and "filter" in name for name in order)


def test_all_that_is_watched_is_in_the_stdin(spec: ClusterSpec) -> None:
    (watched,) = planned(spec).filters
    stdin = parse_state(watched.step.desired).values
    assert dict(watched.settings_in(watched.step.desired).values) == dict(watched.desired.values)
    assert stdin.keys() - watched.desired.values.keys() == {"allowed", "stack", "way"}
    assert stdin["allowed"] == "10.7.0.0/31 10.7.0.2/32 10.42.0.0/16 192.168.0.0/16"
    assert watched.device == "mgmt01 api-filter"


def test_one_worker_more_changes_no_filter(spec: ClusterSpec) -> None:
    fewer = changed_spec(spec, hosts=spec.hosts[:-1])
    assert planned(fewer).filters == planned(spec).filters


def test_workers_join_with_the_token_of_agents_and_servers_with_their_own(
    spec: ClusterSpec,
) -> None:
    plan = planned(with_servers(spec))
    secrets = {step.name: step.secret_stdin for step in (*plan.tokens, *plan.agent_tokens)}
    assert secrets == {
        "mgmt01-k3s-token": "k3s_token",
        "more0-k3s-token": "k3s_token",
        "more1-k3s-token": "k3s_token",
        "mgmt01-k3s-agent-token": "k3s_agent_token",
        "more0-k3s-agent-token": "k3s_agent_token",
        "more1-k3s-agent-token": "k3s_agent_token",
        "gpu01-k3s-token": "k3s_agent_token",
        "gpu02-k3s-token": "k3s_agent_token",
    }
    for server in plan.servers:
        assert 'agent-token-file: "/etc/rancher/k3s/agent-token"' in server.desired
    assert not any("agent-token-file" in agent.desired for agent in plan.agents)
    assert "k3s_agent_token" in secret_names(spec)


def refused(spec: ClusterSpec, facts: Facts) -> tuple[str, ...]:
    return texts(
        judge_api, make_plan(spec, "dev"), Applied(), Seen({"mgmt01 api-filter": facts}), LINES
    )


@pytest.mark.parametrize("peer", ["192.168.1.77", "10.7.0.2", "127.0.0.1", "unknown", "fd00::1"])
def test_who_may_reach_the_api_or_comes_another_way_is_let_on(spec: ClusterSpec, peer: str) -> None:
    assert refused(spec, HostState({"peer": peer})) == ()


def test_an_update_that_would_shut_itself_out_is_refused(spec: ClusterSpec) -> None:
    (words,) = refused(spec, HostState({"peer": "172.16.3.9"}))
    assert words == (
        "api-from: mgmt01 would no longer be reached at the API by Railyard, which comes from"
        " 172.16.3.9 there.\n"
        "  where  site.yaml:44  kubernetes.api_from = 10.7.0.0/31 10.7.0.2/32 10.42.0.0/16"
        " 192.168.0.0/16\n"
        "  fix    add that address to api_from"
    )


def test_what_was_not_read_is_left_to_the_step(spec: ClusterSpec) -> None:
    assert refused(spec, None) == ()
    assert refused(spec, Unreachable("no route")) == ()
