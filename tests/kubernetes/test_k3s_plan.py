"""The K3s plan of the example: order, configuration files, secrets, and golden lines."""

from __future__ import annotations

import pytest
import yaml
from pydantic import ValidationError

from components.core.errors import Bug
from components.drift.applied import Applied, AppliedStep
from components.kubernetes.planes.base import TOKEN_SUFFIX, secret_again
from components.kubernetes.planes.k3s import render_config
from components.kubernetes.planes.node_files import render_registries
from components.model.cluster import ClusterSpec
from components.model.kubernetes import Snapshots
from components.remote.step import render_step_command
from components.update.decide import is_pending
from tests.golden.site import changed_spec, load_example
from tests.kubernetes.plans import planned


@pytest.fixture
def spec() -> ClusterSpec:
    return load_example("dgx-roce")


def test_a_node_has_its_token_before_its_install_and_access_comes_last(spec: ClusterSpec) -> None:
    plan = planned(spec)
    order = [step.name for step in plan.steps]
    for step in (*plan.servers, *plan.agents):
        token = plan.beside(step, TOKEN_SUFFIX)
        assert token is not None
        assert order.index(token.name) < order.index(step.name)
    assert order[-1] == "mgmt01-cluster-access"


def test_every_node_is_watched_with_all_that_its_install_leaves(spec: ClusterSpec) -> None:
    plan = planned(spec)
    assert [each.device for each in plan.watched] == ["mgmt01 k3s", "gpu01 k3s", "gpu02 k3s"]
    for watched in plan.watched:
        stdin = watched.step.desired
        assert dict(watched.settings_in(stdin).values) == dict(watched.desired.values)
        assert "install_script" not in watched.desired.values
        assert "selinux_policy" not in stdin, "the file names none"
        assert watched.desired.values["binary_sha256"] in stdin
    assert plan.watched[0].desired.values["k3s.service"] == "enabled/active"
    assert plan.watched[1].desired.values["config.yaml.lines"] == "5"


def test_the_token_is_named_and_never_written(spec: ClusterSpec) -> None:
    plan = planned(spec)
    tokens = (*plan.tokens, *plan.agent_tokens)
    assert {token.secret_stdin for token in tokens} == {"k3s_token", "k3s_agent_token"}
    assert {token.desired for token in tokens} == {""}
    assert [step.name for step in plan.steps if step.secret_stdout] == ["mgmt01-cluster-access"]


def test_a_lost_secret_runs_its_step_again_and_is_no_edit_of_the_file(spec: ClusterSpec) -> None:
    plan = planned(spec)
    (token, *_), (server, *_) = plan.tokens, plan.servers
    assert "k3s-secrets.token=kept\n" in server.desired
    again = secret_again(token, "3: token of k3s-secrets is absent, want kept")
    before, after = render_step_command(token, token.apply), render_step_command(again, again.apply)
    assert after.replace(" repair=3 ", " ") == before != after
    assert again.desired == token.desired == ""
    assert secret_again(token, "3: lines of config.yaml is 6, want 5") == token
    assert secret_again(server, "3: token of k3s-secrets is absent, want kept") == server
    recorded = AppliedStep(create=after)
    assert not is_pending(token, Applied({token.name: recorded}))


def test_access_changes_only_with_the_identity_of_the_cluster(spec: ClusterSpec) -> None:
    assert spec.kubernetes is not None
    other = spec.kubernetes.model_copy(update={"version": "v1.37.1+k3s1"})
    before, after = planned(spec), planned(changed_spec(spec, kubernetes=other))
    assert before.access == after.access
    assert before.servers != after.servers


def test_an_agent_joins_the_first_server_at_its_node_address(spec: ClusterSpec) -> None:
    config = yaml.safe_load(render_config(spec, spec.workers[0]))
    assert config == {
        "default-runtime": "nvidia",
        "node-ip": "192.168.2.11",
        "node-name": "gpu01",
        "server": "https://192.168.1.10:6443",
        "token-file": "/etc/rancher/k3s/token",
    }


def test_the_runtime_is_left_alone_where_the_operator_brings_it(spec: ClusterSpec) -> None:
    gpu = spec.operators.gpu
    assert gpu is not None
    operators = spec.operators.model_copy(
        update={"gpu": gpu.model_copy(update={"driver": "operator"})}
    )
    config = yaml.safe_load(render_config(changed_spec(spec, operators=operators), spec.workers[0]))
    assert "default-runtime" not in config


def test_the_device_plugin_alone_counts_on_the_runtime_of_the_host() -> None:
    shared = load_example("shared-rdma")
    assert shared.operators.gpu is None
    config = yaml.safe_load(render_config(shared, shared.workers[0]))
    assert config["default-runtime"] == "nvidia"
    assert "default-runtime" not in yaml.safe_load(render_config(shared, shared.servers[0]))


def test_docker_brings_its_own_default_runtime() -> None:
    shared = load_example("shared-rdma")
    assert shared.kubernetes is not None
    docker = shared.kubernetes.model_copy(update={"container_runtime": "docker"})
    config = yaml.safe_load(
        render_config(changed_spec(shared, kubernetes=docker), shared.workers[0])
    )
    assert config["docker"] is True
    assert "default-runtime" not in config


def test_more_servers_join_the_first_and_stand_in_the_certificate(spec: ClusterSpec) -> None:
    hosts = tuple(host.model_copy(update={"role": "control_plane"}) for host in spec.hosts)
    three = changed_spec(spec, hosts=hosts)
    first, second, _ = (yaml.safe_load(render_config(three, host)) for host in three.servers)
    assert first["cluster-init"] is True
    assert "server" not in first
    assert second["server"] == "https://192.168.1.10:6443"
    assert "cluster-init" not in second
    assert first["tls-san"] == second["tls-san"]
    assert {host.address for host in hosts} <= set(first["tls-san"])
    # K3s refuses a server whose critical values differ from the first one's.
    for key in ("cluster-cidr", "service-cidr", "disable"):
        assert first[key] == second[key]


def test_a_site_without_servers_is_our_mistake_here(spec: ClusterSpec) -> None:
    with pytest.raises(Bug):
        planned(changed_spec(spec, hosts=spec.workers))


def test_the_mirror_is_served_over_plain_http(spec: ClusterSpec) -> None:
    assert yaml.safe_load(render_registries(spec)) == {
        "mirrors": {"192.168.100.10:5000": {"endpoint": ["http://192.168.100.10:5000"]}}
    }
    assert spec.k3s is not None
    bare = spec.k3s.model_copy(update={"registry_mirror": None})
    assert render_registries(changed_spec(spec, kubernetes=bare)) == ""


def test_snapshots_and_encryption_are_flags_of_every_server_and_of_no_agent() -> None:
    spec = load_example("dgx-roce")
    assert spec.k3s is not None
    asked = Snapshots(schedule="0 */6 * * *", keep=12, folder="/srv/snapshots")
    plane = spec.k3s.model_copy(update={"snapshots": asked, "secrets_encryption": True})
    changed = changed_spec(spec, kubernetes=plane)
    server = yaml.safe_load(render_config(changed, changed.servers[0]))
    assert server["etcd-snapshot-schedule-cron"] == "0 */6 * * *"
    assert server["etcd-snapshot-retention"] == 12
    assert server["etcd-snapshot-dir"] == "/srv/snapshots"
    assert server["secrets-encryption"] is True
    assert render_config(changed, changed.workers[0]) == render_config(spec, spec.workers[0])


def test_without_these_keys_k3s_keeps_its_own_defaults(spec: ClusterSpec) -> None:
    assert spec.k3s is not None
    bare = spec.k3s.model_copy(update={"secrets_encryption": False, "agent_token": None})
    server = yaml.safe_load(render_config(changed_spec(spec, kubernetes=bare), spec.servers[0]))
    words = ("snapshot", "encryption", "agent-token")
    assert not [key for key in server if any(word in key for word in words)]


@pytest.mark.parametrize("schedule", ["hourly", "* * * *", "0 0 * * * *", "0 */6 * * x;y"])
def test_a_schedule_that_is_none_is_refused(schedule: str) -> None:
    with pytest.raises(ValidationError):
        Snapshots(schedule=schedule)
