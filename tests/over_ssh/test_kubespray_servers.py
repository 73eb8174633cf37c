"""Three servers under kubespray's step: two join one, one is lost, the other leaves, all gone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

import pytest
import yaml

from lab.cluster.api import Api
from lab.cluster.build import ensure_binaries
from lab.cluster.etcd_members import EtcdMembers
from lab.cluster.pki import KeyPair
from lab.cluster.plane import ETCD_CLIENT_PORT
from lab.engine.install import cache_root
from lab.kubespray.source import ensure_ansible
from lab.site import Document, load_document
from tests.over_ssh.host_lab import HostLab, running_hosts
from tests.over_ssh.test_kubespray import EXAMPLE, RELEASED, STACK, Site, settled, site

__all__ = ["site"]
pytestmark = pytest.mark.story
SERVERS: Final = ("mgmt01", "mgmt02", "mgmt03")
ALL: Final = (*SERVERS, "gpu01")
NAMES: Final = "applies supplementary_addresses_in_ssl_keys on every node"
RETURNED: Final = ("mgmt01", "mgmt02", "gpu01")
"""The hosts that are cleaned: mgmt03 is lost before."""


def write_site(folder: Path) -> Path:
    """The example with two servers more and without its second worker."""
    document = load_document(EXAMPLE)
    first, worker, _ = cast("list[Document]", document["hosts"])
    document["hosts"] = [
        *({**first, "name": name, "ssh": {**cast("Document", first["ssh"])}} for name in SERVERS),
        worker,
    ]
    file = folder / "kubespray-servers.yaml"
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    return file


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostLab]:
    cache = cache_root()
    ensure_binaries(cache)
    ensure_ansible()
    root = tmp_path_factory.mktemp("servers") / "lab"
    with running_hosts(STACK, root, cache, write_site(root.parent)) as running:
        yield running
        unmodelled = running.ask(op="unmodelled")["unmodelled"]
    assert unmodelled == {host: [] for host in ALL}


def members(site: Site) -> set[str]:
    """The servers that etcd on the first one counts; each of them votes."""
    tls = site.lab.root / "hosts" / "mgmt01" / "var/lib/rancher/k3s/server/tls"
    client = KeyPair(tls / "etcd-client.crt", tls / "etcd-client.key")
    address = site.request("mgmt01").endpoints["mgmt01"].address
    api = Api(f"https://{address}:{ETCD_CLIENT_PORT}", tls / "etcd-ca.crt", client)
    return {member.name.rpartition("-")[0] for member in EtcdMembers(api).list()}


def told(servers: str) -> str:
    return (
        f"upgrade-cluster.yml --limit {servers}: tells the API servers the present members of"
        " etcd, one after the other"
    )


@pytest.mark.timeout(3600)  # nine runs of Ansible: minutes where the cores are shared
def test_servers_come_and_go(site: Site) -> None:
    before = {host: settled(site.lab.snapshot(host)) for host in RETURNED}
    one, three = site.request("mgmt01", "gpu01"), site.request(*ALL)
    assert site.play(one)["changed"] == ["cluster.yml: installs Kubernetes v1.34.7"]
    assert members(site) == {"mgmt01"}

    joined = site.play(three)
    assert joined["changed"] == [
        f"cluster.yml: adds mgmt02 and mgmt03 to the control plane and {NAMES}",
        told("mgmt01,mgmt02,mgmt03"),
    ]
    assert site.nodes() == dict.fromkeys(ALL, RELEASED)
    assert members(site) == {*SERVERS}
    count = site.connections()
    assert site.play(three)["changed"] == []
    assert site.connections() == count

    _what_kubespray_cannot_is_refused(site)
    _two_lost_servers_cannot_leave(site)
    _a_lost_server_and_a_living_one_leave(site)

    gone = site.reset(one)
    assert gone["changed"] == ["reset.yml: deletes the cluster and all its data"]
    assert {host: settled(site.lab.snapshot(host)) for host in RETURNED} == before


def _what_kubespray_cannot_is_refused(site: Site) -> None:
    without_first = site.request("mgmt02", "mgmt03", "gpu01")
    assert "mgmt01 is the first of the control plane, which kubespray cannot remove" in (
        site.refused(without_first)
    )
    three = site.request(*ALL)
    turned = replace(three, wanted=replace(three.wanted, order=("mgmt02", "mgmt01", "mgmt03")))
    assert "the control plane would be mgmt02, mgmt01 and mgmt03, and is mgmt01, mgmt02 and" in (
        site.refused(turned)
    )


def _two_lost_servers_cannot_leave(site: Site) -> None:
    for name in ("mgmt02", "mgmt03"):
        site.lab.fault(name, "ssh-refused", "on")
    refused = site.refused(site.request("mgmt01", "gpu01"))
    assert "mgmt02 and mgmt03 of the 3 members of etcd do not answer" in refused
    assert members(site) == {*SERVERS}
    site.lab.fault("mgmt02", "ssh-refused", "off")


def _a_lost_server_and_a_living_one_leave(site: Site) -> None:
    """The even number of members between the two removals stops neither of them."""
    site.lab.fault("mgmt03", "ssh-refused", "off")
    site.lab.sh(site.lab.plan("mgmt03"), "systemctl stop k3s")
    site.lab.fault("mgmt03", "ssh-refused", "on")
    shrunk = site.play(site.request("mgmt01", "gpu01"))
    assert shrunk["changed"] == [
        "remove-node.yml: takes mgmt03 out and cleans nothing there, as no answer comes",
        "remove-node.yml: drains mgmt02 and takes it out",
        f"cluster.yml: {NAMES}",
        told("mgmt01"),
    ]
    assert site.nodes() == {"mgmt01": RELEASED, "gpu01": RELEASED}
    assert members(site) == {"mgmt01"}
