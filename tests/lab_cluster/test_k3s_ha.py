"""Three K3s servers with real etcd members behind a real HAProxy, on plain folders."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from components.kubernetes.planes.balancers import CA_FILE, render_haproxy
from components.kubernetes.planes.k3s import k3s_plane
from components.model.cluster import ClusterSpec
from lab.cluster.api import Api
from lab.cluster.build import ensure_binaries
from lab.cluster.document import Doc, docs_at, text_at
from lab.cluster.etcd_members import MEMBER_NAME, REMOVE, REMOVED
from lab.cluster.k3s_token import format_token
from lab.cluster.pki import KeyPair
from lab.cluster.process import wait_until
from tests.golden.site import load_example
from tests.lab_cluster.conftest import PROJECT, TOKEN, FakeLab, Site, make_gpu_node

pytestmark = pytest.mark.cluster
SERVERS = ("cp-0", "cp-1", "cp-2")
FIRST = 20
BALANCER = 29
JOINS_S = 150.0
"""Two servers join one after the other; each asks for up to 35 s, and etcd may elect meanwhile."""


def server_text(site: Site, number: int, token: str = TOKEN, join: int | None = FIRST) -> str:
    sans = ", ".join(f'"{site.address(each)}"' for each in (FIRST, FIRST + 1, FIRST + 2, BALANCER))
    how = "cluster-init: true" if join is None else f"server: https://{site.address(join)}:6443"
    return f"token: {token}\nnode-ip: {site.address(number)}\ntls-san: [{sans}]\n{how}\n"


def api_of(site: Site, name: str, address: int) -> Api:
    """A client with the certificates of one server, at any address of the cluster."""
    tls = site.root(name) / "var/lib/rancher/k3s/server/tls"
    admin = KeyPair(tls / "admin.crt", tls / "admin.key")
    return Api(f"https://{site.address(address)}:6443", tls / "server-ca.crt", admin)


def ready(api: Api, node: str) -> str:
    document = api.find(f"/api/v1/nodes/{node}")
    for condition in docs_at(document, "status", "conditions"):
        if text_at(condition, "type") == "Ready":
            return text_at(condition, "status")
    return ""


def balancer_config(site: Site, spec: ClusterSpec) -> str:
    """Our own configuration, with the addresses of this test."""
    hosts = tuple(
        host.model_copy(update={
            "name": f"cp-{number}",
            "role": "control_plane",
            "node_ip": site.address(FIRST + number),
        })
        for number, host in enumerate(spec.hosts)
    )  # fmt: skip
    lb = hosts[0].model_copy(update={"role": "balancer", "node_ip": site.address(BALANCER)})
    text = render_haproxy(spec.model_copy(update={"hosts": hosts}), lb, k3s_plane(spec))
    ca = site.root("cp-0") / "var/lib/rancher/k3s/server/tls/server-ca.crt"
    return text.replace(CA_FILE, str(ca))


def start_balancer(site: Site, spec: ClusterSpec) -> None:
    file = site.folder / "haproxy.cfg"
    file.write_text(balancer_config(site, spec))
    haproxy = shutil.which("haproxy", path="/usr/sbin:/usr/bin")
    assert haproxy is not None, "haproxy is one of the lab's prerequisites"
    with (site.folder / "haproxy.log").open("ab") as log:
        argv = [haproxy, "-db", "-f", str(file)]
        site.processes.append(subprocess.Popen(argv, stdout=log, stderr=log))


def start_server(site: Site, name: str, text: str) -> None:
    site.configure(name, text)
    site.start(name, "server")
    site.wait_log(name, "up and running")


@pytest.fixture(scope="module")
def ha(tmp_path_factory: pytest.TempPathFactory, fake_lab: FakeLab) -> Iterator[Site]:
    ensure_binaries()
    site = Site(tmp_path_factory.mktemp("ha"), fake_lab.socket_path)
    try:
        start_server(site, "cp-0", server_text(site, FIRST, join=None))
        start_balancer(site, load_example("dgx-roce"))
        for number in (1, 2):  # at once: etcd takes in one after the other
            site.configure(f"cp-{number}", server_text(site, FIRST + number))
            site.start(f"cp-{number}", "server")
        for name in ("cp-1", "cp-2"):
            site.wait_log(name, "up and running", JOINS_S)
        agent = f"token: {TOKEN}\nserver: https://{site.address(BALANCER)}:6443\n"
        make_gpu_node(site.configure("gpu-0", f"{agent}node-ip: {site.address(31)}\n"), vfs=4)
        site.start("gpu-0", "agent")
        site.wait_log("gpu-0", "up and running")
        yield site
    finally:
        site.end()


CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def put(api: Api, name: str) -> None:
    body: Doc = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    api.request("POST", CONFIG_MAPS, body)


def stop(site: Site, *names: str) -> None:
    """At once: the last of several waits for answers that do not come any more."""
    for name in names:
        site.last[name].terminate()
    for name in names:
        site.last[name].wait(90)


def start_again(site: Site, name: str) -> None:
    before = site.log(name).count("up and running")
    site.start(name, "server")
    ready = f"{name} up and running"
    wait_until(ready, lambda: site.log(name).count("up and running") > before, JOINS_S)


def command(site: Site, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """One command of the lab's K3s on a server."""
    argv = [sys.executable, "-m", "lab.cluster.k3s", *words]
    env = {**os.environ, "PYTHONPATH": str(PROJECT), "RAILYARD_HOST_ROOT": str(site.root(name))}
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)


def members(api: Api) -> set[str]:
    nodes = api.items("/api/v1/nodes", {"labelSelector": "node-role.kubernetes.io/etcd"})
    return {text_at(node, "metadata", "annotations", MEMBER_NAME) for node in nodes}


def whole(site: Site, server: str) -> Api:
    """The API through the balancer, once each node is Ready: a test before may have lost some."""
    through = api_of(site, server, BALANCER)
    wait_until("the balancer to know the servers", lambda: through.answers("/readyz"), 120)
    for node in (*SERVERS, "gpu-0"):
        wait_until(f"{node} Ready", lambda node=node: ready(through, node) == "True", 120)
    return through


def test_three_members_joined_and_an_agent_through_the_balancer(ha: Site) -> None:
    through = whole(ha, "cp-0")
    assert len(members(through)) == 3
    cas = {
        (ha.root(name) / "var/lib/rancher/k3s/server/tls/server-ca.crt").read_text()
        for name in SERVERS
    }
    assert len(cas) == 1


def refused(site: Site, name: str, text: str, words: str) -> None:
    site.configure(name, text)
    process = site.start(name, "server")
    assert process.wait(60) == 1
    assert words in site.log(name)


def test_token_or_ca_of_another_cluster_is_refused(ha: Site) -> None:
    refused(ha, "wrong-0", server_text(ha, 25, token="another"), "401")
    other = format_token(b"another CA", "server", TOKEN)
    words = "token CA hash does not match the Cluster CA certificate hash"
    refused(ha, "wrong-1", server_text(ha, 26, token=other), words)
    text = server_text(ha, 27) + "disable: [traefik]\n"
    refused(ha, "wrong-2", text, "critical configuration value mismatch")


def test_a_lost_server_is_removed_and_replaced_and_the_api_stays(ha: Site) -> None:
    through = whole(ha, "cp-1")
    lost = ha.last["cp-0"]
    lost.send_signal(signal.SIGKILL)
    lost.wait(60)
    wait_until("the API through the balancer", lambda: through.answers("/readyz"), 120)
    wait_until("cp-0 to be called lost", lambda: ready(through, "cp-0") in {"Unknown", "False"}, 60)
    wait_until("the agent to stay", lambda: ready(through, "gpu-0") == "True", 120)

    # A new machine of that name and address is refused while the old member is there.
    shutil.rmtree(ha.root("cp-0"))
    words = "duplicate node name found"
    refused(ha, "cp-0", server_text(ha, FIRST, join=FIRST + 1), words)

    node = through.find("/api/v1/nodes/cp-0")
    old = text_at(node, "metadata", "annotations", MEMBER_NAME)
    through.merge("/api/v1/nodes/cp-0", {"metadata": {"annotations": {REMOVE: "true"}}})

    def removed() -> bool:
        found = through.find("/api/v1/nodes/cp-0")
        return text_at(found, "metadata", "annotations", REMOVED) == old

    wait_until("the member to be removed", removed, 120)
    through.request("DELETE", "/api/v1/nodes/cp-0")
    secret = "/api/v1/namespaces/kube-system/secrets/cp-0.node-password.k3s"
    through.request("DELETE", secret)

    shutil.rmtree(ha.root("cp-0"))
    start_server(ha, "cp-0", server_text(ha, FIRST, join=FIRST + 1))
    wait_until("cp-0 Ready", lambda: ready(through, "cp-0") == "True", 60)
    found = members(through)
    assert len(found) == 3
    assert old not in found


def test_each_server_is_lost_in_turn_and_a_snapshot_is_restored(ha: Site) -> None:
    through = whole(ha, "cp-0")
    put(through, "before")
    saved = command(ha, "cp-1", "etcd-snapshot", "save")
    assert re.fullmatch(r'level=info msg="Snapshot on-demand-cp-1-[0-9]+ saved."\n', saved.stdout)
    folder = ha.root("cp-1") / "var/lib/rancher/k3s/server/db/snapshots"
    (snapshot,) = folder.iterdir()
    assert snapshot.name in command(ha, "cp-1", "etcd-snapshot", "ls").stdout
    put(through, "after")
    kept = ha.root("cp-0") / "srv/snapshot"
    kept.parent.mkdir()
    shutil.copy(snapshot, kept)
    ha.configure("cp-0", server_text(ha, FIRST, join=None))  # as the first server always has it
    reset = ("server", "--cluster-reset", "--cluster-reset-restore-path=/srv/snapshot")
    assert "address already in use" in command(ha, "cp-0", *reset).stderr
    _quorum_is_lost_and_comes_back(ha, through)
    stop(ha, *SERVERS)
    missing = command(ha, "cp-0", *reset[:2], "--cluster-reset-restore-path=/srv/none")
    assert "etcd: snapshot path does not exist" in missing.stderr
    assert "cluster-reset required" in command(ha, "cp-0", reset[0], reset[2]).stderr
    assert "cannot perform cluster-reset while server URL" in command(ha, "cp-1", *reset).stderr
    done = command(ha, "cp-0", *reset)
    assert "Managed etcd cluster membership has been reset" in done.stdout, done.stderr
    assert "previously reset" in command(ha, "cp-0", *reset).stderr
    start_again(ha, "cp-0")
    for name in ("cp-1", "cp-2"):
        shutil.move(ha.root(name) / "var/lib/rancher/k3s/server/db", ha.root(name) / "db-lost")
        start_again(ha, name)
    assert len(members(through)) == 3
    found = {text_at(each, "metadata", "name") for each in through.items(CONFIG_MAPS, {})}
    assert "before" in found
    assert "after" not in found
    wait_until("the agent to be Ready", lambda: ready(through, "gpu-0") == "True", 60)


def _quorum_is_lost_and_comes_back(site: Site, through: Api) -> None:
    """Each server but cp-0 is lost while two are there, and both at once; cp-0 has its own test.

    cp-2 comes back later, without its data; tests/over_ssh/test_k3s_ha.py starts it with them.
    """
    before, names = members(through), {name: member_name(site, name) for name in SERVERS}
    stop(site, "cp-1")
    wait_until("the API at the balancer", lambda: through.answers("/readyz"), 120)
    stop(site, "cp-2")
    wait_until("the API to be away", lambda: not through.answers("/readyz"), 120)
    start_again(site, "cp-1")
    wait_until("the API to be back", lambda: through.answers("/readyz"), 120)
    assert through.find(f"{CONFIG_MAPS}/after")  # nothing was lost
    assert names == {name: member_name(site, name) for name in SERVERS}
    assert members(through) == before


def member_name(site: Site, server: str) -> str:
    return (site.root(server) / "var/lib/rancher/k3s/server/db/name").read_text()
