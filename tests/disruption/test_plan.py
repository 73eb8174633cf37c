"""Which hosts go in which group."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.disruption.disruption_plan import REBOOT_VERB, group_hosts
from components.disruption.request import groups_text
from components.hosts.host_plan import plan_hosts
from components.hosts.keys.ask import find_row, needs_drain
from components.model.cluster import ClusterSpec, Disruption
from components.model.hosts import Host
from components.model.units import Ssh
from components.remote.lines import parse_lines
from tests.disruption.played import groups_of
from tests.golden.site import changed_spec, load_example

SPEC = load_example("dgx-roce")
ROLES = st.sampled_from(["worker", "control_plane", "balancer"])


def host(number: int, role: str) -> Host:
    document = {"name": f"host{number}", "role": role, "ssh": Ssh(address="192.0.2.1", user="root")}
    return Host.model_validate(document)


@given(st.lists(ROLES, max_size=40), st.integers(-1, 12))
def test_never_more_than_allowed_and_servers_one_at_a_time(roles: list[str], most: int) -> None:
    hosts = [host(number, role) for number, role in enumerate(roles)]
    groups = group_hosts(hosts, most)
    flat = [each for group in groups for each in group]
    assert sorted(each.name for each in flat) == sorted(each.name for each in hosts)
    for group in groups:
        assert len({each.role for each in group}) == 1
        assert len(group) <= (max(1, most) if group[0].role == "worker" else 1)
    order = [("worker", "control_plane", "balancer").index(group[0].role) for group in groups]
    assert order == sorted(order)
    for role in set(roles):
        same = [hosts.index(each) for each in flat if each.role == role]
        assert all(before < after for before, after in pairwise(same))


@given(st.lists(ROLES, max_size=20), st.integers(1, 4), ROLES)
def test_a_host_more_at_the_end_moves_no_full_group(
    roles: list[str], most: int, another: str
) -> None:
    hosts = [host(number, role) for number, role in enumerate(roles)]
    full = [
        group
        for group in group_hosts(hosts, most)
        if len(group) == most or group[0].role != "worker"
    ]
    after = group_hosts([*hosts, host(len(roles), another)], most)
    assert [group for group in after if group in full] == full


DOMAINS = st.sampled_from([None, "rack-1", "rack-2", "rack-3"])


@given(st.lists(DOMAINS, max_size=30), st.integers(1, 6))
def test_a_group_is_of_one_domain_and_no_domain_is_begun_twice(
    domains: list[str | None], most: int
) -> None:
    hosts = [
        host(number, "worker").model_copy(update={"domain": domain})
        for number, domain in enumerate(domains)
    ]
    groups = group_hosts(hosts, most)
    assert sorted(each.name for group in groups for each in group) == sorted(h.name for h in hosts)
    assert all(len({each.domain for each in group}) == 1 for group in groups)
    assert all(0 < len(group) <= most for group in groups)
    order = [group[0].domain for group in groups]
    assert [*dict.fromkeys(order)] == [*dict.fromkeys(domains)]
    assert order == sorted(order, key=[*dict.fromkeys(domains)].index)


def widened(most: int) -> ClusterSpec:
    return changed_spec(SPEC, disruption=Disruption(reboots="allow", max_unavailable=most))


@pytest.mark.parametrize(
    ("most", "names"), [(1, [("gpu01",), ("gpu02",)]), (2, [("gpu01", "gpu02")])]
)
def test_the_groups_of_the_example(most: int, names: list[tuple[str, ...]]) -> None:
    """The server has no card of ours and nothing that could wait."""
    groups = groups_of(widened(most))
    assert [group.hosts for group in groups] == names
    assert [group.number for group in groups] == list(range(1, len(names) + 1))
    assert all(step.request.group == group.hosts for group in groups for step in group.steps)


def test_a_step_says_what_it_is() -> None:
    step = groups_of(SPEC)[0].steps[0]
    assert (step.name, step.serves, step.step.apply) == ("gpu01-reboot", "gpu01-host", REBOOT_VERB)
    assert step.step.reboots
    assert step.step.undo is None
    request: Any = parse_lines(step.step.desired)
    (converge,) = (host.converge for host in plan_hosts(SPEC, "dev") if host.name == "gpu01")
    assert "nic.*.vfs=8\n" in converge.desired
    assert request["settings"] == hashlib.sha256(converge.desired.encode()).hexdigest()
    # One worker more changes these of every host: no request has them.
    assert not {"workers", "group"} & request.keys()
    assert groups_text(each.request for group in groups_of(SPEC) for each in group.steps) == (
        "gpu[01-02]\ngpu01\ngpu02\n"
    )
    assert request["cluster"]["servers"][0]["url"] == "https://192.168.1.10:6443"
    assert "value" not in step.step.desired
    assert request["drain_deadline_s"] == 600


def test_several_servers_are_each_asked_at_their_own_api() -> None:
    first = SPEC.servers[0]
    more = [
        first.model_copy(update={"name": f"mgmt0{number}", "node_ip": f"192.168.1.1{number}"})
        for number in (2, 3)
    ]
    spec = changed_spec(SPEC, hosts=(*SPEC.hosts, *more))
    reference = groups_of(spec)[0].steps[0].request.cluster
    assert reference is not None
    assert [server.url for server in reference.servers] == [
        "https://192.168.1.10:6443",
        "https://192.168.1.12:6443",
        "https://192.168.1.13:6443",
    ]


def test_a_guest_does_not_load_firmware_by_itself() -> None:
    groups = groups_of(load_example("esxi-roce"))
    assert groups
    assert not any(step.request.loads_firmware for group in groups for step in group.steps)


def test_a_site_without_kubernetes_has_no_cluster_to_ask() -> None:
    groups = groups_of(load_example("esxi-roce"))
    assert all(step.request.cluster is None for group in groups for step in group.steps)


@pytest.mark.parametrize(
    ("key", "drain", "boot"),
    [
        ("nic.0000:05:00.0.vfs", True, False),
        ("nic.0000:05:00.0.eswitch", True, False),
        ("driver.version", True, False),
        ("nic.0000:05:00.0.ats", False, True),
        ("nic.0000:05:00.0.fw_num_of_vfs", False, True),
        ("nic.0000:05:00.0.fw_num_of_vfs_current", False, False),
        ("nic.0000:05:00.0.fw_ver", False, False),
        ("nic.0000:05:00.0.fw_needs", False, False),
        ("driver.gpu_version", False, False),
        ("driver.loaded", True, False),
        ("kernel.rdma_netns", False, True),
        ("kernel.rdma_netns_current", False, False),
        ("kernel.cmdline.iommu", False, True),
        ("kernel.sysctl.vm.swappiness", False, False),
        ("nic.0000:05:00.0.mtu_bytes", False, False),
        ("nic.0000:05:00.0.pfc", True, False),
        ("nic.0000:05:00.0.buffers", True, False),
        ("nic.0000:05:00.0.cable_length_m", False, False),
    ],
)
def test_what_a_setting_needs(key: str, *, drain: bool, boot: bool) -> None:
    assert (needs_drain(key), find_row(key).loads_at_start) == (drain, boot)
