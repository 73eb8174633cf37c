"""The K3s steps against emulated hosts over real SSH, with a real API behind them."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterator
from typing import cast

import pytest
import yaml

from components.core.key_values import diff_states, parse_state
from components.drift.device_drift import Watched
from components.kubernetes.kubeconfig import render_kubeconfig
from components.kubernetes.planes.base import KubernetesPlan, secret_again
from components.model.cluster import ClusterSpec
from components.model.jobs import RegistryLogin
from components.model.sources import Registry, Sources
from components.model.units import SecretRef
from components.plan.make import make_plan
from components.remote.host_session import HostAnswer
from components.remote.step import RemoteStep
from lab.cache import cache_root
from lab.cluster.build import ensure_binaries
from tests.artefacts.certificates import Authority
from tests.kubernetes.plans import planned
from tests.over_ssh.host_lab import HostLab, running_hosts

pytestmark = [pytest.mark.lab, pytest.mark.cluster]
TOKEN = "lab-token"
REGISTRY_CA = Authority("site1").pem
REGISTRY = Registry(
    address="registry.site1.example:5000",
    ca=REGISTRY_CA,
    login=RegistryLogin(user="puller", password=SecretRef(secret="registry_password")),
)
HOSTS = ("mgmt01", "gpu01", "gpu02")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostLab]:
    cache = cache_root()
    ensure_binaries(cache)
    with running_hosts("k3s-over-ssh", tmp_path_factory.mktemp("k3s") / "lab", cache) as running:
        yield running
        unmodelled = running.ask(op="unmodelled")["unmodelled"]
    assert unmodelled == {"mgmt01": [], "gpu01": [], "gpu02": []}


@pytest.fixture(scope="module")
def plan(lab: HostLab) -> KubernetesPlan:
    return planned(lab.spec, lab.stack)


def stdin_of(step: RemoteStep) -> str:
    if step.secret_stdin == "k3s_agent_token":
        return f"{TOKEN}-of-agents"
    return TOKEN if step.secret_stdin else step.desired


def server_tokens(plan: KubernetesPlan) -> tuple[RemoteStep, RemoteStep]:
    """What puts the two tokens on the server."""
    return plan.tokens[0], plan.agent_tokens[0]


def apply(lab: HostLab, step: RemoteStep) -> HostAnswer:
    answer = lab.run(step, step.apply, stdin_of(step))
    assert answer.exit_status == 0, f"{step.name}: {answer.stderr}"
    return answer


def install_all(lab: HostLab, plan: KubernetesPlan) -> list[list[str]]:
    steps = (*plan.tokens, *plan.agent_tokens, *plan.servers, *plan.agents)
    return [json.loads(apply(lab, step).stdout)["changed"] for step in steps]


def drift_of(lab: HostLab, watched: Watched) -> list[str]:
    answer = lab.run(watched.step, watched.observe, watched.desired.render())
    assert answer.exit_status == 0, answer.stderr
    return [str(each) for each in diff_states(parse_state(answer.stdout), watched.desired)]


def files_of(lab: HostLab, host: str) -> set[tuple[str, str]]:
    found = cast("dict[str, dict[str, str]]", lab.snapshot(host))
    tools = "var/lib/railyard"  # whatever runs first on a host sends them
    return {item for item in found["files"].items() if not item[0].startswith(tools)}


def connections(lab: HostLab) -> dict[str, int]:
    """How many SSH connections each host has let in."""
    counted = cast("dict[str, dict[str, int]]", lab.ask(op="counted")["counted"])
    return {name: each["connections"] for name, each in counted.items()}


def test_install_twice_access_and_uninstall(lab: HostLab, plan: KubernetesPlan) -> None:
    before = {host: lab.snapshot(host) for host in HOSTS}
    first = lab.spec.model_copy(update={"hosts": lab.spec.hosts[:-1]})
    fewer = planned(first, lab.stack)
    assert all(install_all(lab, fewer))
    assert all(json.loads(apply(lab, step).stdout)["changed"] for step in fewer.nodes)

    _a_worker_more_is_no_work_for_the_others(lab, first)
    assert not any(install_all(lab, plan))

    assert plan.access is not None
    access = apply(lab, plan.access)
    config = yaml.safe_load(render_kubeconfig(access.stdout, plan.server_url, plan.cluster))
    address = lab.spec.servers[0].address
    assert config["clusters"][0]["cluster"]["server"] == f"https://{address}:6443"
    _drift_of_a_node_is_seen_and_repaired(lab, plan)

    _a_worker_less_is_drained_and_clean(lab, plan)
    assert lab.snapshot("gpu02") == before["gpu02"]
    installs = reversed((*fewer.servers, *fewer.agents))
    for step in (*fewer.nodes, *installs, *fewer.agent_tokens, *fewer.tokens):
        assert step.undo is not None
        answer = lab.run(step, step.undo, stdin_of(step))
        assert answer.exit_status == 0, f"{step.name}: {answer.stderr}"
    assert {host: lab.snapshot(host) for host in HOSTS} == before


def _a_worker_more_is_no_work_for_the_others(lab: HostLab, fewer: ClusterSpec) -> None:
    was = {step.name: step for step in make_plan(fewer, lab.stack).steps}
    steps = make_plan(lab.spec, lab.stack).steps
    changed = [step for step in steps if was.get(step.name) != step]
    assert {step.name for step in changed} == {
        *("gpu02-tools", "gpu02-host", "gpu02-reboot"),
        *("gpu02-k3s-token", "gpu02-k3s", "gpu02-node"),
    }
    count = connections(lab)
    for step in changed:
        if step.dialect == "sh":  # the reboot is one look at gpu02; each step sends its tools
            apply(lab, step)
    now = connections(lab)
    assert now["gpu01"] == count["gpu01"]
    # Of one step: that which waits for the node, and which has nothing to do a second time.
    node = next(step for step in changed if step.name == "gpu02-node")
    assert json.loads(apply(lab, node).stdout)["changed"] == []
    assert now["mgmt01"] - count["mgmt01"] == connections(lab)["mgmt01"] - now["mgmt01"]
    assert now["gpu02"] > count["gpu02"]
    assert "mgmt01" in lab.sh(lab.plan("gpu02"), "cat /etc/hosts")


def _a_worker_less_is_drained_and_clean(lab: HostLab, plan: KubernetesPlan) -> None:
    """In the order in which the engine deletes: what came last goes first."""
    server = lab.plan("mgmt01")
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: busy}\nspec: {nodeName: gpu02, containers: "
    pod += "[{name: idle, image: 'registry.k8s.io/pause:3.10'}]}\n"
    lab.sh(server, f"printf '%s' {shlex.quote(pod)} | k3s kubectl apply -f -")
    count = connections(lab)
    token, install, node = plan.chain_of(plan.agents[1])
    host = lab.plan("gpu02").converge
    for step in (node, install, token, host):
        assert step.undo is not None
        answer = lab.run(step, step.undo, stdin_of(step))
        assert answer.exit_status == 0, f"{step.name}: {answer.stderr}"
        if step == node:
            assert json.loads(answer.stdout)["changed"] == ["drained", "node"]
    assert connections(lab)["gpu01"] == count["gpu01"]
    left = lab.sh(server, "k3s kubectl get nodes,pods -o name; rm -rf /root/.kube").split()
    assert left == ["node/gpu01", "node/mgmt01"]


def _drift_of_a_node_is_seen_and_repaired(lab: HostLab, plan: KubernetesPlan) -> None:
    watched = next(each for each in plan.watched_nodes if each.step == plan.agents[0])
    assert [drift_of(lab, each) for each in plan.watched_nodes] == [[], [], []]
    hand = "echo 'debug: true' >>/etc/rancher/k3s/config.yaml; systemctl disable --now k3s-agent"
    lab.sh(lab.plan("gpu01"), hand)
    assert drift_of(lab, watched) == [
        "lines of config.yaml is 6, want 5",
        "service of k3s-agent is disabled/inactive, want enabled/active",
    ]
    repaired = json.loads(apply(lab, watched.step).stdout)["changed"]
    assert repaired == ["config.yaml", "enabled", "service"]
    assert drift_of(lab, watched) == []

    _a_lost_token_is_seen_and_repaired(lab, plan)
    edited = plan.agents[0].desired.replace("role=agent", "role=agent\nrepair=1: x")
    answer = lab.run(plan.agents[0], plan.agents[0].apply, edited)
    assert json.loads(answer.stdout)["changed"] == []


def _a_lost_token_is_seen_and_repaired(lab: HostLab, plan: KubernetesPlan) -> None:
    """On a server, whose data is encrypted with its token, and on an agent."""
    file = "/etc/rancher/k3s/token"
    for watched, token in (
        (plan.watched_nodes[0], plan.tokens[0]),
        (plan.watched_nodes[1], plan.tokens[1]),
    ):
        host = lab.plan(watched.step.endpoint.device)
        for hand, seen in (
            (f"rm {file}", "absent"),
            (f": >{file}", "empty"),
            (f"chmod 644 {file}", "mode and owner 644/0"),
            (f"echo by-hand >{file}", "another value"),
        ):
            lab.sh(host, hand)
            (drift,) = drift_of(lab, watched)
            assert drift == f"token of k3s-secrets is {seen}, want kept"
            again = secret_again(token, f"7: {drift}")
            assert again != token
            answer = lab.run(again, again.apply, stdin_of(token))
            assert (answer.exit_status, answer.stderr) == (0, "")
            assert json.loads(answer.stdout)["changed"] == ["k3s.token"]
            assert lab.sh(host, f"cat {file}; stat -c %a {file}") == f"{stdin_of(token)}\n600\n"
            assert drift_of(lab, watched) == []
            assert json.loads(apply(lab, token).stdout)["changed"] == []


def test_a_wrong_checksum_is_refused_and_nothing_runs(lab: HostLab, plan: KubernetesPlan) -> None:
    server = plan.servers[0]
    wrong = "0" * 64
    stdin = "".join(
        f"binary_sha256={wrong}\n" if line.startswith("binary_sha256=") else line
        for line in server.desired.splitlines(keepends=True)
    )
    answer = lab.run(server, server.apply, stdin)
    assert answer.exit_status != 0
    assert f"want {wrong}; it was not used" in answer.stderr
    assert lab.sh(lab.plan("mgmt01"), "ls /usr/local/bin") == ""
    assert server.undo is not None
    assert lab.run(server, server.undo, stdin).exit_status == 0


def test_a_token_with_other_signs_is_refused(lab: HostLab, plan: KubernetesPlan) -> None:
    token = plan.tokens[0]
    answer = lab.run(token, token.apply, "two words\n")
    assert answer.exit_status != 0
    assert "two words" not in answer.stderr


def test_a_registrys_login_reaches_a_node_and_no_state(lab: HostLab) -> None:
    spec = lab.spec.model_copy(update={"sources": Sources(registry=REGISTRY)})
    plan = planned(spec, lab.stack)
    server, login = plan.servers[0], plan.logins[0]
    host, file = lab.plan("mgmt01"), "/etc/rancher/k3s/registries.yaml"
    before = files_of(lab, "mgmt01")
    answer = lab.run(server, server.apply, server.desired)
    assert answer.exit_status != 0
    assert "/etc/rancher/k3s/registry-password is not there" in answer.stderr

    def log_in(password: str) -> list[str]:
        done = lab.run(login, login.apply, password)
        assert done.exit_status == 0, done.stderr
        assert password not in done.stdout + done.stderr
        return json.loads(done.stdout)["changed"]

    def password_of() -> str:
        read = yaml.safe_load(lab.sh(host, f"cat {file}"))
        return read["configs"]["registry.site1.example:5000"]["auth"]["password"]

    for step in server_tokens(plan):
        apply(lab, step)
    assert log_in('on"e') == ["registry.password"]
    assert log_in('on"e') == []
    _an_archive_of_images_is_put_where_k3s_reads_it(lab, server)
    assert password_of() == 'on"e'
    assert lab.sh(host, f"stat -c %a {file}") == "600\n"
    assert lab.sh(host, "cat /etc/rancher/k3s/registry-ca.crt") == REGISTRY_CA
    watched = plan.watched_nodes[0]
    assert drift_of(lab, watched) == []
    observed = lab.run(watched.step, watched.observe, watched.desired.render()).stdout
    assert 'on"e' not in observed
    assert "@registry-password@" in observed

    assert log_in("two") == ["registry.password"]
    assert password_of() == "two"
    assert drift_of(lab, watched) == []
    lab.sh(host, f'sed -i \'s/"two"/"by hand"/\' {file}')
    (drift,) = drift_of(lab, watched)
    assert "another one" in drift
    assert "by hand" not in drift
    apply(lab, server)
    assert password_of() == "two"
    for hand in ("rm", "cp /dev/null"):
        lab.sh(host, f"{hand} /etc/rancher/k3s/registry-password")
        assert any("registry-password of k3s-secrets is" in each for each in drift_of(lab, watched))
        assert log_in("two") == ["registry.password"]
        assert password_of() == "two"
        assert drift_of(lab, watched) == []
    lab.sh(host, "echo by-hand >/etc/rancher/k3s/registry-password")
    assert "registry-password of k3s-secrets is another value, want kept" in drift_of(lab, watched)
    assert log_in("two") == ["registry.password"]
    assert password_of() == "two"
    assert drift_of(lab, watched) == []
    for step in (server, login, *server_tokens(plan)):
        assert step.undo is not None
        answer = lab.run(step, step.undo, "x" if step.secret_stdin else step.desired)
        assert answer.exit_status == 0, answer.stderr
    assert files_of(lab, "mgmt01") ^ before == set()


def _an_archive_of_images_is_put_where_k3s_reads_it(lab: HostLab, server: RemoteStep) -> None:
    """The server is installed with it, and not with another one."""
    host = lab.plan("mgmt01")
    body = "images of k3s\n"
    lab.sh(host, "mkdir -p /opt/air; printf 'images of k3s\\n' >/opt/air/k3s-images.tar.zst")
    right = hashlib.sha256(body.encode()).hexdigest()
    for digest, status in (("0" * 64, 1), (right, 0)):
        lines = f"images=/opt/air/k3s-images.tar.zst\nimages_sha256={digest}\n"
        answer = lab.run(server, server.apply, server.desired + lines)
        assert answer.exit_status == status, answer.stderr
    placed = "/var/lib/rancher/k3s/agent/images/railyard-k3s-images.tar.zst"
    assert lab.sh(host, f"cat {placed}") == body
    lab.sh(host, "rm -rf /opt/air")
