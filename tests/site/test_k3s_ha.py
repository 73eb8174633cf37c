"""Three K3s servers and two balancers by an engine: up, restored from a snapshot, and destroyed."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from lab.cluster.process import wait_until
from lab.up import choose_site, load_spec
from tests.over_ssh.host_lab import HostLab
from tests.site.conftest import play_example
from tests.site.playground import Playground

pytestmark = pytest.mark.story
EXAMPLE: Final = "dgx-roce/k3s-ha.yaml"
PROBES: Final = ("perftest-rail-0-gpu01-gpu02", "nccl-all-reduce", "allocatable gpu01")
SERVERS: Final = ("mgmt01", "mgmt02", "mgmt03")
NODES: Final = {*SERVERS, "gpu01", "gpu02"}
KEPT: Final = "srv/k3s-snapshots"
"""Where the file has the snapshots: they are the user's, and destroy leaves them."""
DATA: Final = "/var/lib/rancher/k3s/server/db"
READY_S: Final = 300.0


@pytest.fixture(scope="module")
def example(mark: str) -> Generator[Playground]:
    """The lab of the example, before anything was applied."""
    with play_example(mark, EXAMPLE) as site:
        yield site


def by_hand(site: Playground, host: str, script: str) -> str:
    """What a person does on a host as root."""
    spec = load_spec(choose_site([site.argument]))
    lab = HostLab(site.stack, site.lab, spec)
    return lab.sh(lab.plan(host), script)


def edited(site: Playground, folder: Path) -> Path:
    """A copy of the stack's configuration with an object more and another value in one of ours."""
    assert site.config
    document = yaml.safe_load(site.config.read_text())
    del document["config"]["railyard:site"]
    written = yaml.safe_load(site.config.with_name("site.yaml").read_text())
    written["jobs"]["own_pods"] = {}
    written["pod_network"]["exclusions"] = [{"rail": "rail-0", "first": "10.10.111.200"}]
    document["config"]["railyard:cluster"] = written
    copy = folder / site.config.name
    copy.write_text(yaml.safe_dump(document, sort_keys=False))
    return copy


def up(site: Playground, config: Path) -> str:
    words = ("up", "--yes", "--skip-preview", "--config-file", str(config))
    return site.pulumi(*words).must()


def ready(site: Playground) -> set[str]:
    """The nodes that are Ready; none while the API does not answer."""
    listed = site.kubectl("get", "nodes", "--output", "json")
    return {
        node["metadata"]["name"]
        for node in (json.loads(listed.text)["items"] if listed.code == 0 else ())
        for each in node["status"]["conditions"]
        if (each["type"], each["status"]) == ("Ready", "True")
    }


def members(site: Playground) -> set[str]:
    wanted = "jsonpath={.items[*].metadata.annotations.etcd\\.k3s\\.cattle\\.io/node-name}"
    return {*site.kubectl("get", "nodes", "--output", wanted).must().split()}


def hosts(snapshot: str) -> dict[str, Any]:
    """The devices, without the snapshots that a server keeps."""
    found = json.loads(snapshot)["snapshot"]["hosts"]
    for host in found.values():
        files = host["files"].items()
        host["files"] = {path: each for path, each in files if not path.startswith(KEPT)}
    return found


@pytest.mark.timeout(5400)  # six commands of an engine: minutes where the cores are shared
def test_the_example_from_nothing_to_nothing(example: Playground, tmp_path: Path) -> None:
    _is_up(example)
    snapshot = _is_saved(example)
    newer = edited(example, tmp_path)
    _changes_after_it(example, newer)
    _is_restored(example, snapshot)
    _an_update_puts_back_what_came_after(example, newer)
    _nothing_is_left(example, newer)


def _is_up(site: Playground) -> None:
    first = site.up().must()
    for probe in PROBES:
        assert re.search(rf"^PASSED +{probe} ", first, re.MULTILINE), first
    assert "acceptance passed" in first
    assert ready(site) == NODES
    assert len(members(site)) == len(SERVERS)


def _is_saved(site: Playground) -> str:
    site.kubectl("create", "configmap", "before", "--from-literal=by=user").must()
    by_hand(site, "mgmt01", "k3s etcd-snapshot save")
    (name,) = by_hand(site, "mgmt01", f"ls /{KEPT}").split()
    return name


def _changes_after_it(site: Playground, newer: Path) -> None:
    site.kubectl("create", "configmap", "after", "--from-literal=by=user").must()
    assert "acceptance" in up(site, newer)


def _is_restored(site: Playground, snapshot: str) -> None:
    """As docs/howto/restore-k3s.md says, step by step."""
    before = members(site)
    for name in SERVERS:
        by_hand(site, name, "systemctl stop k3s")
    reset = f"k3s server --cluster-reset --cluster-reset-restore-path=/{KEPT}/{snapshot}"
    done = by_hand(site, "mgmt01", reset)
    assert "Managed etcd cluster membership has been reset" in done
    assert by_hand(site, "mgmt01", "systemctl start k3s; k3s kubectl get --raw /readyz") == "ok"
    for name in SERVERS[1:]:
        by_hand(site, name, f"mv {DATA} {DATA}-lost && systemctl start k3s")
    wait_until("all nodes to be Ready", lambda: ready(site) == NODES, READY_S)
    now = members(site)
    assert len(now) == len(SERVERS)
    assert len(now & before) == 1, "the first one goes on, and two are new"
    found = site.kubectl("get", "configmaps", "--output", "name").must()
    assert "configmap/before" in found
    assert "configmap/after" not in found


def _an_update_puts_back_what_came_after(site: Playground, newer: Path) -> None:
    report = site.railyard("drift", site.stack).must(3)
    for words in (
        "ConfigMap default/railyard-rdma is absent, want there",
        "NetworkAttachmentDefinition default/sriov111: ",
    ):
        assert f"cluster      {words}" in report, report
    assert "acceptance" in up(site, newer)
    again = up(site, newer)
    assert re.search(r"Resources:\n +[0-9]+ unchanged\n", again), again
    assert ready(site) == NODES


def _nothing_is_left(site: Playground, newer: Path) -> None:
    words = ("destroy", "--yes", "--skip-preview", "--config-file", str(newer))
    site.pulumi(*words).must()
    assert not site.resources()
    assert hosts(site.snapshot()) == hosts(site.before)
    assert not site.strays()
