"""Three servers by kubespray's step, and one again: the members of etcd come and go with them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from components.kubernetes.kubespray.wanted import Node, Request
from tests.over_ssh.host_lab import PROJECT, HostLab
from tests.over_ssh.test_kubespray import HOSTS, Site, lab, settled

pytestmark = pytest.mark.story
assert lab  # the fixture of the module beside


def servers(request: Request) -> Request:
    """The same nodes, all of the control plane."""
    nodes = {
        name: Node("control_plane", node.address) for name, node in request.wanted.nodes.items()
    }
    wanted = replace(
        request.wanted, nodes=nodes, order=tuple(each for each in HOSTS if each in nodes)
    )
    return replace(request, wanted=wanted)


def members(site: Site) -> set[str]:
    path = r"{.items[*].metadata.annotations.etcd\.k3s\.cattle\.io/node-name}"
    return set(site.kubectl(f"get nodes -o jsonpath='{path}'").split())


@pytest.fixture
def site(lab: HostLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    (tmp_path / "lab").symlink_to(PROJECT / "lab")
    monkeypatch.chdir(tmp_path)
    return Site(lab, tmp_path)


@pytest.mark.timeout(1800)
def test_two_servers_join_and_leave(site: Site) -> None:
    before = {host: settled(site.lab.snapshot(host)) for host in HOSTS}
    one, three = servers(site.request("mgmt01")), servers(site.request(*HOSTS))
    site.play(one)
    site.kubectl("create configmap kept --from-literal=by=user")
    joined = site.play(three)
    assert joined["changed"] == ["cluster.yml: adds gpu01 and gpu02 to the control plane"]
    assert len(members(site)) == 3

    left = site.play(one)
    assert left["changed"] == [
        "remove-node.yml: drains gpu01 and gpu02 and takes them out",
        "cluster.yml: tells every node the present control plane",
    ]
    assert {*site.nodes()} == {"mgmt01"}
    assert len(members(site)) == 1
    assert "kept" in site.kubectl("get configmaps -o name")
    site.reset(one)
    assert {host: settled(site.lab.snapshot(host)) for host in HOSTS} == before
