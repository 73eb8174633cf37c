"""The plan of three servers behind a balancer: what joins where, and what runs again when."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
import yaml

from components.core.key_values import HostState, parse_state
from components.core.plain_text import fill_known
from components.kubernetes.planes.balancers import CA_FILE, render_haproxy
from components.kubernetes.planes.k3s import k3s_plane, render_config
from components.model.cluster import ClusterSpec
from components.model.units import Ssh
from components.model.worker_kinds import with_instances
from tests.golden.site import changed_spec, load_example
from tests.kubernetes.plans import planned

LB = "crusoe-k3s-lb-0"


@pytest.fixture
def spec() -> ClusterSpec:
    return with_instances(load_example("crusoe-k3s"))


def test_servers_join_the_first_and_agents_the_balancer(spec: ClusterSpec) -> None:
    first, second, third = (yaml.safe_load(render_config(spec, host)) for host in spec.servers)
    agent = yaml.safe_load(render_config(spec, spec.workers[0]))
    assert first["cluster-init"] is True
    assert "server" not in first
    assert second["server"] == third["server"] == "https://@{crusoe-k3s-0.private_ip}:6443"
    assert agent["server"] == f"https://@{{{LB}.private_ip}}:6443"
    for name in (LB, f"@{{{LB}.private_ip}}", f"@{{{LB}.public_ip}}"):
        assert name in first["tls-san"]
    assert first["tls-san"] == second["tls-san"] == third["tls-san"]


def test_users_reach_the_api_at_the_balancer(spec: ClusterSpec) -> None:
    assert planned(spec).server_url == f"https://@{{{LB}.public_ip}}:6443"


def test_another_machine_runs_the_removal_again_and_no_other_node(spec: ClusterSpec) -> None:
    old = {"crusoe-k3s-1": {"host_key": "ssh-ed25519 A", "private_ip": "10.0.0.1"}}
    new = {"crusoe-k3s-1": {"host_key": "ssh-ed25519 B", "private_ip": "10.0.0.1"}}
    again = [
        step.name
        for step in planned(spec).steps
        if fill_known(step.desired, old) != fill_known(step.desired, new)
    ]
    assert again == ["crusoe-k3s-1-member-removal", "crusoe-k3s-1-node"]


def test_a_lost_server_is_forgotten_by_another_one(spec: ClusterSpec) -> None:
    for step in planned(spec).removals:
        assert not step.name.startswith(step.endpoint.device + "-m")
    assert {step.endpoint.device for step in planned(spec).removals} == {
        "crusoe-k3s-0",
        "crusoe-k3s-1",
    }


def test_more_workers_change_no_other_node(spec: ClusterSpec) -> None:
    worker = spec.workers[0]
    ssh = Ssh.model_validate({**worker.way.model_dump(), "address": "203.0.113.77"})
    third = worker.model_copy(update={"name": "crusoe-k3s-worker-2", "ssh": ssh})
    before = {step.name: step for step in planned(spec).steps}
    after = planned(changed_spec(spec, hosts=(*spec.hosts, third)))
    new = [step for step in after.steps if before.get(step.name) != step]
    assert {step.name for step in new} == {
        *("crusoe-k3s-worker-2-k3s", "crusoe-k3s-worker-2-k3s-token"),
        *("crusoe-k3s-worker-2-member-removal", "crusoe-k3s-worker-2-node"),
    }


def test_one_server_takes_its_workers_out_and_has_nothing_else_of_it() -> None:
    plan = planned(load_example("dgx-roce"))
    assert (plan.removals, plan.balancers, plan.ca) == ((), (), None)
    assert [(step.name, step.endpoint.device) for step in plan.nodes] == [
        ("gpu01-node", "mgmt01"),
        ("gpu02-node", "mgmt01"),
    ]
    assert all(step.undo is not None for step in plan.nodes)


def test_all_that_the_balancer_watches_is_in_its_stdin(spec: ClusterSpec) -> None:
    (watched,) = planned(spec).balancers
    assert dict(watched.settings_in(watched.step.desired).values) == dict(watched.desired.values)
    assert "ca_base64" not in watched.desired.values
    assert watched.desired.values["also_listen"] == f"@{{{LB}.public_ip}}:6443"


@pytest.mark.parametrize("port", [1024, 6443, 29999])
@pytest.mark.parametrize("count", [3, 5, 7])
def test_haproxy_takes_the_configuration(count: int, port: int) -> None:
    haproxy = shutil.which("haproxy", path="/usr/sbin:/usr/bin")
    assert haproxy is not None, "haproxy is one of the lab's prerequisites"
    spec = load_example("dgx-roce")
    hosts = tuple(
        spec.hosts[0].model_copy(update={"name": f"cp-{n}", "node_ip": f"127.0.1.{n + 1}"})
        for n in range(count)
    )
    balancer = hosts[0].model_copy(update={"role": "balancer", "node_ip": "127.0.1.99"})
    plane = k3s_plane(spec).model_copy(update={"api_port": port})
    text = render_haproxy(changed_spec(spec, hosts=hosts), balancer, plane)
    assert text.count(" check\n") == count
    trial = text.replace(f"verify required ca-file {CA_FILE}", "verify none")
    done = subprocess.run(
        [haproxy, "-c", "-f", "/dev/stdin"],
        input=trial,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_only_certified_servers_pass_the_check(spec: ClusterSpec) -> None:
    text = render_haproxy(spec, spec.balancers[0], k3s_plane(spec))
    assert "verify required" in text
    assert f"ca-file {CA_FILE}" in text
    assert re.search(r"http-check expect rstatus \^\(200\|401\)\$", text)


def test_the_stdin_is_read_back_as_it_was_written(spec: ClusterSpec) -> None:
    for step in planned(spec).steps:
        if step.secret_stdin is None:
            assert HostState(parse_state(step.desired).values).render() == step.desired
