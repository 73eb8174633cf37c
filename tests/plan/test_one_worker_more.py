"""One worker more or less: which steps, switches and objects of a site change, and which do not."""

from __future__ import annotations

import pytest

from bench.sites import host_name
from components.model.cluster import ClusterSpec, Disruption
from components.model.hosts import Host, Manage
from components.plan.make import ClusterPlan, make_plan
from tests.golden.site import changed_spec, load_example
from tests.test_linear import SMALL, spec_of

OWN = ("-tools", "-host", "-reboot", "-k3s-token", "-k3s", "-node")
"""Every step of one worker of a K3s site."""


def large(hosts: int) -> ClusterSpec:
    """A generated site with names in /etc/hosts and several workers in a group."""
    spec = spec_of(hosts, SMALL)
    defaults = spec.host_defaults.model_copy(update={"manage": Manage(etc_hosts=True)})
    away = Disruption(reboots="allow", max_unavailable=3)
    return changed_spec(spec, host_defaults=defaults, disruption=away)


def changes(before: ClusterPlan, after: ClusterPlan) -> set[str]:
    """Names of the steps that are new, gone, or not the same to the byte."""
    was = {step.name: step for step in before.steps}
    now = {step.name: step for step in after.steps}
    return {name for name in was | now if was.get(name) != now.get(name)}


def without(spec: ClusterSpec, name: str) -> ClusterSpec:
    hosts = tuple(host for host in spec.hosts if host.name != name)
    switches = tuple(
        switch.model_copy(
            update={
                "ports": {
                    port: end
                    for port, end in switch.ports.items()
                    if not end.to.startswith(f"{name}/")
                }
            }
        )
        for switch in spec.switches
    )
    return changed_spec(spec, hosts=hosts, switches=switches)


@pytest.mark.parametrize("hosts", [4, 5, 31])
def test_a_worker_more_changes_its_own_steps_and_its_ports(hosts: int) -> None:
    """At the end of the file: 4 to 5 fills a group, 5 to 6 opens none, 31 to 32 a fourth leaf."""
    before, after = (make_plan(large(count), "dev") for count in (hosts, hosts + 1))
    name = host_name(hosts)
    assert changes(before, after) == {f"{name}{work}" for work in OWN}
    was = {switch.name: switch.desired for switch in before.switches}
    changed = {each.name for each in after.switches if was.get(each.name) != each.desired}
    leaf = f"{hosts // SMALL.hosts_a_leaf + 1:04d}"
    assert {f"leaf-{rail}-{leaf}" for rail in range(2)} <= changed
    assert {each for each in changed if each.startswith("leaf")} == {
        f"leaf-{rail}-{leaf}" for rail in range(2)
    }


def test_a_worker_less_in_the_middle_changes_nothing_of_those_behind_it() -> None:
    """The groups behind it move up by one; no request says them."""
    spec = large(7)
    after = make_plan(without(spec, "gpu00002"), "dev")
    before = make_plan(spec, "dev")
    assert [group.hosts for group in before.reboots][:2] == [
        ("gpu00001", "gpu00002", "gpu00003"),
        ("gpu00004", "gpu00005", "gpu00006"),
    ]
    assert [group.hosts for group in after.reboots][:2] == [
        ("gpu00001", "gpu00003", "gpu00004"),
        ("gpu00005", "gpu00006", "gpu00007"),
    ]
    assert changes(before, after) == {f"gpu00002{work}" for work in OWN}


@pytest.mark.parametrize(
    ("example", "worker"),
    [
        ("dgx-roce", "gpu02"),
        ("mixed-fabric", "gpu02"),
        ("mixed-nodes", "small02"),
        ("rail-optimised", "gpu02"),
        ("spine-leaf", "gpu04"),
    ],
)
def test_in_the_examples_no_other_host_changes(example: str, worker: str) -> None:
    spec = load_example(example)
    names = [host.name for host in spec.hosts]
    found = changes(make_plan(without(spec, worker), "dev"), make_plan(spec, "dev"))
    touched = {next(name for name in names if step.startswith(f"{name}-")) for step in found}
    assert touched == {worker}, found


def names_of(spec: ClusterSpec, host: str) -> dict[str, str]:
    plan = next(each for each in make_plan(spec, "dev").hosts if each.name == host)
    (block,) = (tool.text for tool in plan.converge.reads)
    return {name: address for address, name in map(str.split, block.splitlines())}


def test_a_host_is_told_of_servers_and_of_itself() -> None:
    spec = load_example("dgx-roce")
    server = {"mgmt01": "192.168.1.10"}
    assert names_of(spec, "mgmt01") == server
    assert names_of(spec, "gpu01") == server | {"gpu01": "192.168.2.11"}
    assert names_of(spec, "gpu02") == server | {"gpu02": "192.168.2.12"}


def test_without_kubernetes_every_host_is_told_of_all() -> None:
    """There mpirun starts its ranks by SSH, on hosts by name."""
    spec = load_example("esxi-roce")
    assert spec.containers is not None
    defaults = spec.host_defaults.model_copy(update={"manage": Manage(etc_hosts=True)})
    spec = changed_spec(spec, host_defaults=defaults)
    all_names = {host.name for host in spec.hosts}
    assert len(all_names) > 1
    assert {name for host in spec.hosts for name in names_of(spec, host.name)} == all_names
    assert all(names_of(spec, host.name).keys() == all_names for host in spec.hosts)


def test_a_storage_host_is_known_to_all_and_knows_no_worker() -> None:
    spec = load_example("dgx-roce")
    nfs = Host.model_validate(
        {"name": "nfs01", "role": "storage", "ssh": {**spec.hosts[0].way.model_dump(),
                                                     "address": "192.168.1.20"}}
    )  # fmt: skip
    wider = changed_spec(spec, hosts=(*spec.hosts, nfs))
    assert names_of(wider, "nfs01").keys() == {"mgmt01", "nfs01"}
    assert names_of(wider, "gpu01").keys() == {"mgmt01", "nfs01", "gpu01"}


@pytest.mark.parametrize("hosts", [5, 40])
def test_what_a_worker_is_told_does_not_grow_with_the_others(hosts: int) -> None:
    assert names_of(large(hosts), host_name(hosts - 1)).keys() == {
        host_name(hosts - 1),
        "mgmt00001",
    }
