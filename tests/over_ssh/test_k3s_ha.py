"""Three servers, HAProxy and a worker on emulated hosts over real SSH: joined, lost, replaced."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest
import yaml
from pydantic import TypeAdapter

from components.core.key_values import HostState, diff_states, parse_state
from components.core.plain_text import fill, instances_in
from components.drift.device_drift import Watched
from components.kubernetes.kubeconfig import render_kubeconfig
from components.kubernetes.kubernetes_plan import plan_kubernetes
from components.kubernetes.planes.balancers import CLUSTER_CA, ca_facts
from components.kubernetes.planes.base import TOKEN_SUFFIX, KubernetesPlan
from components.kubernetes.planes.k3s import CLUSTER_FOUND
from components.model.cluster import ClusterSpec
from components.remote.host_session import HostAnswer
from components.remote.step import RemoteStep
from lab import control
from lab.cache import cache_root
from lab.cluster.artefact import checksums
from lab.cluster.build import ensure_binaries
from lab.hosts.lab_file import LabFile
from lab.site import Document, block_of, lab_file, load_document, overlay
from tests.over_ssh.host_lab import EXAMPLE, PROJECT, HostLab
from tests.over_ssh.taken_address import name_a_taken_address

pytestmark = [pytest.mark.lab, pytest.mark.cluster]
STACK = "k3s-ha-over-ssh"
TOKEN = "lab-token"
AGENT_TOKEN = "agents-token"
SECRETS = {"k3s_token": TOKEN, "k3s_agent_token": AGENT_TOKEN}
HOSTS = ("cp-0", "cp-1", "cp-2", "lb-0", "lb-1", "gpu01")


def make_spec() -> ClusterSpec:
    """The example's hosts as three servers, two balancers with one address, and a worker.

    As in a cloud, SSH and the cluster's network reach a host at different addresses.
    """
    document = load_document(EXAMPLE)
    mgmt, gpu = cast("list[Document]", document["hosts"])[:2]
    ssh = cast("Document", mgmt["ssh"])
    roles = ["control_plane"] * 3 + ["balancer"] * 2
    named = zip(HOSTS, roles, strict=False)
    hosts: list[Document] = [{"name": name, "role": role, "ssh": dict(ssh)} for name, role in named]
    hosts.append({**gpu, "ssh": dict(ssh)})
    for number, host in enumerate(hosts):
        host["node_ip"] = f"{block_of(STACK)}.{60 + number}"
    document["hosts"] = cast("object", hosts)
    kubernetes = cast("Document", document["kubernetes"])
    kubernetes["virtual_address"] = {"address": "192.168.1.20"}
    site = overlay(document, STACK, checksums())
    cast("Document", site["kubernetes"])["api_from"] = [f"{block_of(STACK)}.0/24", "10.7.0.12/32"]
    return ClusterSpec.model_validate(site)


@dataclass
class Site:
    """The running hosts, and what the steps printed so far."""

    lab: HostLab
    plan: KubernetesPlan
    facts: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])

    def stdin(self, step: RemoteStep) -> str:
        known = {CLUSTER_FOUND: {"state": "none"}} | self.facts
        ready = all(name in known for name in instances_in(step.desired))
        if step.secret_stdin:
            return SECRETS[step.secret_stdin]
        return fill(step.desired, known) if ready else step.desired

    def run(self, step: RemoteStep, stdin: str | None = None) -> HostAnswer:
        return self.lab.run(step, step.apply, self.stdin(step) if stdin is None else stdin)

    def apply(self, step: RemoteStep, stdin: str | None = None) -> str:
        answer = self.run(step, stdin)
        assert answer.exit_status == 0, f"{step.name}: {answer.stderr}"
        if step == self.plan.removals[0]:
            self.facts[CLUSTER_FOUND] = json.loads(answer.stdout)
        if step == self.plan.ca:
            self.facts[CLUSTER_CA] = json.loads(ca_facts(answer.stdout))
        return answer.stdout

    def changed(self, step: RemoteStep) -> list[str]:
        text = self.apply(step)
        reads_only = step in {self.plan.access, self.plan.ca}
        return [] if reads_only else json.loads(text)["changed"]

    def undo(self, step: RemoteStep) -> None:
        assert step.undo is not None
        answer = self.lab.run(step, step.undo, self.stdin(step))
        assert answer.exit_status == 0, f"{step.name}: {answer.stderr}"

    def sh(self, step: RemoteStep, script: str) -> str:
        answer = self.lab.run(step, script, "")
        assert answer.exit_status == 0, answer.stderr
        return answer.stdout

    def drift(self, watched: Watched) -> str:
        stdin = watched.desired.render() + watched.looks
        answer = self.lab.run(watched.step, watched.observe, stdin)
        assert answer.exit_status == 0, answer.stderr
        found = diff_states(parse_state(answer.stdout), HostState(watched.desired.values))
        return "\n".join(str(each) for each in found)

    def kubectl(self, folder: Path, *words: str) -> str:
        assert self.plan.access is not None
        file = folder / "kubeconfig"
        raw = self.apply(self.plan.access)
        file.write_text(render_kubeconfig(raw, self.plan.server_url, self.plan.cluster))
        argv = [str(ensure_binaries()["kubectl"]), f"--kubeconfig={file}", *words]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def members(self, folder: Path) -> set[str]:
        path = r"{.items[*].metadata.annotations.etcd\.k3s\.cattle\.io/node-name}"
        return set(self.kubectl(folder, "get", "nodes", "-o", f"jsonpath={path}").split())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    cache = cache_root()
    ensure_binaries(cache)
    root = tmp_path_factory.mktemp("ha") / "lab"
    root.mkdir()
    spec = make_spec()
    lab = lab_file(spec, STACK, (PROJECT, cache, Path(sys.executable)))
    file = root / "lab.json"
    file.write_bytes(TypeAdapter(LabFile).dump_json(replace(lab, root=root, switches=())))
    control.start(file)
    try:
        plan = plan_kubernetes(spec, STACK)
        assert plan is not None
        yield Site(HostLab(STACK, root, spec), plan)
    finally:
        control.stop(root)


def test_nothing_joins_before_the_first_server(site: Site) -> None:
    _, second, _ = site.plan.servers
    token = site.plan.beside(second, TOKEN_SUFFIX)
    assert token is not None
    before = site.lab.snapshot("cp-1")
    site.apply(token)
    answer = site.run(second)
    assert answer.exit_status != 0
    assert "has to be up first" in answer.stderr
    site.undo(second)
    site.undo(token)
    assert site.lab.snapshot("cp-1") == before


def test_a_replaced_first_server_that_reaches_nobody_begins_no_cluster(site: Site) -> None:
    install = site.plan.servers[0]
    token = site.plan.beside(install, TOKEN_SUFFIX)
    assert token is not None
    site.apply(token)
    answer = site.run(install, site.stdin(install).replace("cluster=none", "cluster=running"))
    assert answer.exit_status != 0
    assert "a new cluster is not begun beside it" in answer.stderr
    site.undo(install)
    site.undo(token)


def test_data_of_another_cluster_is_named(site: Site) -> None:
    agent = site.plan.agents[0]
    site.sh(agent, "mkdir -p /var/lib/rancher/k3s/agent")
    answer = site.run(agent)
    assert answer.exit_status != 0
    assert "the data of another K3s cluster in /var/lib/rancher/k3s" in answer.stderr
    site.sh(agent, "rm -r /var/lib/rancher")


def test_who_reaches_the_api_is_set_seen_and_taken_back(site: Site) -> None:
    """The filter alone: it is there before K3s and before the balancer."""
    of_server, *_, of_balancer, _ = site.plan.filters
    for watched in (of_server, of_balancer):  # what an earlier test sent and did not undo
        site.sh(watched.step, "rm -rf /var/lib/railyard/tools; rmdir /var/lib/railyard || :")
    before = [site.lab.snapshot(host) for host in ("cp-0", "lb-0")]
    for watched in (of_server, of_balancer):
        assert site.drift(watched) != ""
        assert "table" in site.changed(watched.step)
        assert site.changed(watched.step) == []
    assert [each.device for each in (of_server, of_balancer)] == [
        "cp-0 api-filter",
        "lb-0 api-filter",
    ]
    assert (site.drift(of_server), site.drift(of_balancer)) == ("", "")
    by_hand = (
        ("nft delete table inet railyard_api", "table of host is absent, want as-installed"),
        (
            "sed 's/10.7.0.12/10.7.0.13/' /etc/railyard/api-filter.nft | nft -f -",
            "table of host is changed, want as-installed",
        ),
        ("systemctl disable --now railyard-api-filter", "enabled of service is disabled"),
        ("sed -i s/drop/accept/ /etc/railyard/api-filter.nft", "rules"),
    )
    for command, words in by_hand:
        site.sh(of_server.step, command)
        assert words.split(",")[0] in site.drift(of_server), site.drift(of_server)
        assert site.changed(of_server.step)
        assert site.drift(of_server) == ""
    wrong = site.stdin(of_server.step).replace("10.7.0.12/32", "10.7.0.12/32, 10.7.0.0/24")
    refused = site.run(of_server.step, wrong)
    assert refused.exit_status != 0
    assert "nft refuses the rules, and those in place were left alone" in refused.stderr
    assert "conflicting intervals specified" in refused.stderr
    assert site.drift(of_server) == ""
    for watched in (of_server, of_balancer):
        site.undo(watched.step)
        site.undo(watched.step)
    assert [site.lab.snapshot(host) for host in ("cp-0", "lb-0")] == before


@pytest.mark.timeout(1800)  # six nodes come and go: minutes where the cores are shared
def test_install_lose_replace_shrink_and_uninstall(site: Site, tmp_path: Path) -> None:
    plan = site.plan
    for step in {step.endpoint.device: step for step in plan.steps}.values():
        # What an earlier test sent and did not undo.
        site.sh(step, "rm -rf /var/lib/railyard/tools; rmdir /var/lib/railyard 2>/dev/null; :")
    before = {host: site.lab.snapshot(host) for host in HOSTS}
    first = {step.name: site.changed(step) for step in plan.steps}
    assert [name for name in first if name.startswith("lb-")] == [
        *("lb-0-api-filter", "lb-0-haproxy", "lb-0-keepalived"),
        *("lb-1-api-filter", "lb-1-haproxy", "lb-1-keepalived"),
    ]
    assert "keepalived-package" in first["lb-1-keepalived"]
    again = {step.name: site.changed(step) for step in plan.steps}
    assert {name: keys for name, keys in again.items() if keys} == {}

    _the_api_is_reached_at_the_balancer(site, tmp_path)
    _a_token_of_another_cluster_is_refused(site)
    _workers_have_a_token_of_their_own(site)
    _drift_of_the_balancer_is_seen_and_repaired(site)
    _drift_of_the_address_is_seen_and_repaired(site)
    _lost_quorum_is_named_and_an_update_brings_it_back(site)
    _a_lost_first_server_joins_its_own_cluster(site, tmp_path)
    _a_worker_leaves_and_comes_back(site, tmp_path)

    for step in reversed(plan.steps):
        if step.undo is not None:
            site.undo(step)
    assert {host: site.lab.snapshot(host) for host in HOSTS} == before
    unmodelled = cast("dict[str, list[str]]", site.lab.ask(op="unmodelled")["unmodelled"])
    assert not any(unmodelled.values()), unmodelled


def _the_api_is_reached_at_the_balancer(site: Site, tmp_path: Path) -> None:
    assert site.plan.server_url == f"https://{block_of(STACK)}.4:6443"
    joins = site.sh(site.plan.agents[0], "grep ^server: /etc/rancher/k3s/config.yaml")
    assert joins == f'server: "https://{block_of(STACK)}.4:6443"\n'
    assert len(site.members(tmp_path)) == 3
    nodes = yaml.safe_load(site.kubectl(tmp_path, "get", "nodes", "-o", "yaml"))["items"]
    assert {node["metadata"]["name"] for node in nodes} == set(HOSTS) - {"lb-0", "lb-1"}


def _a_token_of_another_cluster_is_refused(site: Site) -> None:
    token = site.plan.tokens[1]
    answer = site.run(token, f"K10{'0' * 64}::server:{TOKEN}")
    assert answer.exit_status != 0
    assert f"of a cluster whose CA has the hash {'0' * 64}" in answer.stderr
    assert TOKEN not in answer.stderr


def _workers_have_a_token_of_their_own(site: Site) -> None:
    worker, server = site.plan.agents[0], site.plan.servers[1]
    assert site.sh(worker, "cat /etc/rancher/k3s/token") == f"{AGENT_TOKEN}\n"
    assert site.sh(worker, f"grep -rl '{TOKEN}' /etc/rancher /var/lib/rancher || :") == ""
    assert AGENT_TOKEN in site.sh(server, "cat /var/lib/rancher/k3s/server/agent-token")
    own = site.plan.beside(worker, TOKEN_SUFFIX)
    of_agents = site.plan.agent_tokens[1]
    assert own is not None
    refusals = (
        (own, f"K10{'0' * 64}::node:{AGENT_TOKEN}", "of a cluster whose CA has the hash 000"),
        (of_agents, TOKEN, "kubernetes.agent_token is the servers' own token"),
        (of_agents, f"K10{'1' * 64}::node:x", "of a cluster whose CA has the hash 111"),
        (of_agents, "a-second-secret", "this server runs with another agent token"),
    )
    for step, secret, words in refusals:
        answer = site.run(step, secret)
        assert answer.exit_status != 0
        assert words in answer.stderr
        assert secret not in answer.stderr


def _drift_of_the_balancer_is_seen_and_repaired(site: Site) -> None:
    watched = site.plan.balancers[0]
    assert site.drift(watched) == ""
    site.sh(
        watched.step,
        "systemctl stop railyard-haproxy; cd /etc/railyard/haproxy && echo x >>ca.crt &&"
        " sed -i s/roundrobin/leastconn/ haproxy.cfg && rm -f listen.cfg",
    )
    seen = site.drift(watched)
    for words in ("leastconn", "changed", "inactive", "also_listen"):
        assert words in seen
    assert site.changed(watched.step)
    assert site.drift(watched) == ""
    refused = site.run(watched.step, re.sub("tcplog", "tcplogg", site.stdin(watched.step)))
    assert refused.exit_status != 0
    assert "the one in place was left alone" in refused.stderr
    assert site.drift(watched) == ""


def _drift_of_the_address_is_seen_and_repaired(site: Site) -> None:
    watched = site.plan.balancers[3]  # keepalived of lb-1
    step = watched.step
    assert site.drift(watched) == ""
    site.sh(
        step,
        "systemctl stop railyard-keepalived; cd /etc/railyard/keepalived &&"
        " sed -i s/140/250/ keepalived.conf && echo '$INTERFACE=lo' >interface.conf",
    )
    seen = site.drift(watched)
    for words in ("priority 250", "interface of host is lo", "inactive"):
        assert words in seen, seen
    assert site.changed(step)
    assert site.drift(watched) == ""
    name_a_taken_address(site, watched, f"{block_of(STACK)}.4")
    block, right = block_of(STACK), site.stdin(step)
    for was, becomes, words in (
        ("priority 140", "priority 999", "number '999' outside range [1, 255]"),
        (f"virtual_address={block}.4", "virtual_address=10.9.9.9", "is not in the network of eno1"),
        (f"\naddress={block}.64", "\naddress=10.9.9.9", "is on no interface of this host"),
    ):
        assert was in f"\n{right}"
        answer = site.run(step, f"\n{right}".replace(was, becomes))
        assert answer.exit_status != 0
        assert words in answer.stderr
    assert site.drift(watched) == ""


def _lost_quorum_is_named_and_an_update_brings_it_back(site: Site) -> None:
    first, *others = site.plan.watched_nodes[:3]
    for each in others:
        site.sh(each.step, "systemctl stop k3s")
    answer = site.lab.run(first.step, first.observe, "")
    assert answer.exit_status == 0, answer.stderr
    # The API server asks etcd twice, with two deadlines: which of the two fails first is open.
    said = parse_state(answer.stdout).values["k3s.api"]
    assert said in {"etcd failed", "etcd-readiness failed"}
    site.sh(others[0].step, "systemctl start --no-block k3s")  # two that start need each other
    assert site.changed(others[1].step) == ["service"]
    assert site.changed(others[0].step) == []
    assert "k3s.api=ok\n" in site.lab.run(first.step, first.observe, "").stdout


def _a_lost_first_server_joins_its_own_cluster(site: Site, tmp_path: Path) -> None:
    first, plan = site.plan.servers[0], site.plan
    ca_before = plan.ca and site.apply(plan.ca)
    members_before = site.members(tmp_path)
    # Another machine of the same name and address: nothing of K3s and of ours is on it.
    site.sh(
        first,
        "systemctl stop k3s; systemctl disable k3s; systemctl disable --now railyard-api-filter;"
        " rm -rf /var/lib/rancher /etc/rancher /usr/local/bin/* /etc/systemd/system/k3s*"
        " /etc/systemd/system/railyard-* /etc/railyard /var/lib/railyard; systemctl daemon-reload",
    )
    other = base64.b64encode(b"another machine").decode()
    removal, *before, install, node = plan.chain_of(first)
    removed = site.apply(removal, re.sub("machine=.*", f"machine={other}", site.stdin(removal)))
    assert json.loads(removed) == {"changed": ["etcd-member", "node"], "state": "running"}
    for step in before:
        site.apply(step)
    assert "join" in json.loads(site.apply(install))["changed"]
    site.apply(node, re.sub("machine=.*", f"machine={other}", site.stdin(node)))
    assert plan.ca is not None
    assert site.apply(plan.ca) == ca_before
    members = site.members(tmp_path)
    assert len(members) == 3
    assert len(members & members_before) == 2
    # The machine is known now: to forget it again is to do nothing.
    again = site.apply(removal, re.sub("machine=.*", f"machine={other}", site.stdin(removal)))
    assert json.loads(again)["changed"] == []
    assert site.changed(install) == []


def _a_worker_leaves_and_comes_back(site: Site, tmp_path: Path) -> None:
    agent = site.plan.agents[0]
    *_, install, node = site.plan.chain_of(agent)
    site.undo(node)
    site.undo(install)
    names = site.kubectl(tmp_path, "get", "nodes", "-o", "name").split()
    assert "node/gpu01" not in names
    for step in site.plan.chain_of(agent):
        site.apply(step)
    assert "node/gpu01" in site.kubectl(tmp_path, "get", "nodes", "-o", "name").split()
