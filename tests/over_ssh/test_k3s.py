"""The K3s steps against emulated hosts over real SSH, with a real API behind them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml

from components.core.key_values import diff_states, parse_state
from components.drift.watched import Watched
from components.kubernetes.plan import KubernetesPlan, render_kubeconfig
from components.remote.host_session import HostAnswer
from components.remote.step import RemoteStep
from lab.cluster.build import ensure_binaries
from lab.engine.install import cache_root
from tests.kubernetes.plans import planned
from tests.over_ssh.host_lab import HostLab, running_hosts

pytestmark = [pytest.mark.lab, pytest.mark.cluster]
TOKEN = "lab-token"
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
    return TOKEN if step.secret_stdin else step.desired


def apply(lab: HostLab, step: RemoteStep) -> HostAnswer:
    answer = lab.run(step, step.apply, stdin_of(step))
    assert answer.exit_status == 0, f"{step.name}: {answer.stderr}"
    return answer


def install_all(lab: HostLab, plan: KubernetesPlan) -> list[list[str]]:
    steps = (*plan.tokens, *plan.servers, *plan.agents)
    return [json.loads(apply(lab, step).stdout)["changed"] for step in steps]


def drift_of(lab: HostLab, watched: Watched) -> list[str]:
    answer = lab.run(watched.step, watched.observe, watched.desired.render())
    assert answer.exit_status == 0, answer.stderr
    return [str(each) for each in diff_states(parse_state(answer.stdout), watched.desired)]


def test_install_twice_access_and_uninstall(lab: HostLab, plan: KubernetesPlan) -> None:
    before = {host: lab.snapshot(host) for host in HOSTS}
    assert all(install_all(lab, plan))
    assert not any(install_all(lab, plan))

    assert plan.access is not None
    access = apply(lab, plan.access)
    config = yaml.safe_load(render_kubeconfig(access.stdout, plan.server_url, plan.cluster))
    address = lab.spec.servers[0].address
    assert config["clusters"][0]["cluster"]["server"] == f"https://{address}:6443"

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

    edited = plan.agents[0].desired.replace("role=agent", "role=agent\nrepair=1: x")
    answer = lab.run(plan.agents[0], plan.agents[0].apply, edited)
    assert json.loads(answer.stdout)["changed"] == []

    for step in (*reversed((*plan.servers, *plan.agents)), *plan.tokens):
        assert step.undo is not None
        answer = lab.run(step, step.undo, stdin_of(step))
        assert answer.exit_status == 0, f"{step.name}: {answer.stderr}"
    assert {host: lab.snapshot(host) for host in HOSTS} == before


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
