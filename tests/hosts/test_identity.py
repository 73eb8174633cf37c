"""Users, host names, /etc/hosts and proxies: only what the file asks for."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

import pytest

from components.core.key_values import HostState
from components.hosts.host_plan import HostPlan, plan_hosts
from components.hosts.preview import hosts_refused
from components.hosts.scripts import proxy_file, proxy_settings
from components.model.cluster import ClusterSpec
from components.model.hosts import HostDefaults, Manage, User
from components.model.sources import Proxy
from components.plan.make import make_plan
from components.remote.tools import ToolCall
from tests.plan.test_text import SPEC
from tests.update.judged import written


def _with(**defaults: object) -> ClusterSpec:
    left: dict[str, object] = {"user": None, "manage": Manage()}
    changed = SPEC.host_defaults.model_copy(update=left | defaults)
    return SPEC.model_copy(update={"host_defaults": changed})


def _first(spec: ClusterSpec) -> HostPlan:
    return next(plan for plan in plan_hosts(spec, "dev") if plan.name == "gpu01")


def _identity(spec: ClusterSpec) -> dict[str, str]:
    keys = _first(spec).desired.values
    heads = ("hostname", "user.", "hosts.", "hosts_block")
    return {key: value for key, value in keys.items() if key.startswith(heads)}


def test_nothing_of_it_is_touched_by_default() -> None:
    defaults = HostDefaults()
    assert (defaults.user, defaults.manage) == (None, Manage(hostname=False, etc_hosts=False))
    assert _identity(_with()) == {}
    assert _first(_with()).sending.reads == _first(_with()).converge.tools


@pytest.mark.parametrize(
    ("asked", "keys"),
    [
        ({"user": User(name="nvidia", uid=1010)}, {"user.nvidia.uid"}),
        ({"manage": Manage(hostname=True)}, {"hostname"}),
        ({"manage": Manage(etc_hosts=True)}, {"hosts_block"}),
    ],
)
def test_each_is_asked_for_alone(asked: dict[str, object], keys: set[str]) -> None:
    assert _identity(_with(**asked)).keys() == keys


def test_the_login_user_gets_the_limit_where_no_user_is_made() -> None:
    login = next(host.way.user for host in SPEC.hosts if host.name == "gpu01")
    assert f"kernel.limits.{login}.memlock" in _first(_with()).desired.values
    made = _first(_with(user=User(name="trainer", uid=1010))).desired.values
    assert "kernel.limits.trainer.memlock" in made


def test_a_uid_of_another_user_is_refused_with_that_users_name() -> None:
    spec = _with(user=User(name="nvidia", uid=1000))
    plan = _first(spec)
    taken = {"user.nvidia.uid": "absent", "user.nvidia.uid_owner": "ubuntu"}
    seen = HostState({**plan.desired.values, **taken})
    (words,) = written(hosts_refused(spec, [plan], {"gpu01": seen}))
    assert "the uid 1000 on gpu01 belongs to ubuntu, and the file wants it for nvidia" in words
    assert hosts_refused(spec, [plan], {"gpu01": plan.desired}) == ()


# The proxy.

HTTP = "http://proxy.example.com:3128"


def _proxied() -> ClusterSpec:
    return SPEC.model_copy(update={"proxy": Proxy(http=HTTP, no_proxy=(".example.com",))})


def test_without_a_proxy_nothing_names_one() -> None:
    assert (proxy_settings(SPEC), proxy_file(SPEC)) == ({}, "")
    assert "proxy" not in str(_first(SPEC).converge)


def test_the_sites_own_networks_are_reached_directly() -> None:
    direct = proxy_settings(_proxied())["no_proxy"].split(",")
    assert direct[0] == ".example.com"
    assert {"localhost", "127.0.0.0/8", ".svc", ".cluster.local"} <= set(direct)
    networks = [IPv4Network(each) for each in direct if each.count(".") == 3]
    for inside in ("10.42.7.1", "10.43.0.1", "192.168.1.5", "192.168.2.11"):
        assert any(IPv4Address(inside) in network for network in networks), inside
    assert not any(IPv4Address("203.0.113.5") in network for network in networks)
    many = [
        host.model_copy(update={"name": f"gpu{number}", "node_ip": f"192.168.2.{number}"})
        for number, host in enumerate([SPEC.hosts[-1]] * 200, 1)
    ]
    larger = _proxied().model_copy(update={"hosts": (*SPEC.hosts, *many)})
    assert len(proxy_settings(larger)["no_proxy"]) == len(",".join(direct))


def test_scripts_and_k3s_get_it_and_the_state_stays_what_it_was() -> None:
    apply = _first(_proxied()).converge.apply
    assert isinstance(apply, ToolCall)
    assert f"https_proxy={HTTP}" in apply.arguments, "http serves both"
    assert _first(_proxied()).converge.desired == _first(SPEC).converge.desired
    install = next(step for step in make_plan(_proxied(), "dev").steps if step.name == "gpu01-k3s")
    assert f"=HTTPS_PROXY={HTTP}\n" in install.desired
    assert f"=https_proxy={HTTP}\n" in install.desired
