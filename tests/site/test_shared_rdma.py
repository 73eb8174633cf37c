"""The example shared-rdma, from nothing to nothing: proved, drifted on every layer, repaired."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path
from typing import Final, cast

import pytest

from components.pod_network.manifests import config_name
from components.pod_network.networks import shared_plugin_config
from lab.up import choose_site, load_spec
from tests.golden.site import load_example
from tests.site.conftest import play_example
from tests.site.playground import KUBECONFIG, Done, Playground, run

pytestmark = pytest.mark.story

EXAMPLE: Final = "shared-rdma"
PROBES: Final = (
    "perftest-rail-0-node03-node04",
    "perftest-read-q30-node03-node04",
    "perftest-write-gbits-node03-node04",
    "perftest-send-cm-node03-node04",
    "perftest-write-all-node03-node04",
    "perftest-write-cpu-node03-node04",
    "nccl-all-reduce",
    "deepspeed-scan",
    "allocatable node03",
    "allocatable node04",
)
WORDS: Final = (
    "leaf-01: drift: mtu_bytes of port 1/1 is 1500, want 9216",
    "leaf-01: drift: trust of port 1/2 is L2, want L3",
    "node03: drift: nvidia_peermem of module is absent, want loaded",
    "node03: drift: mtu_bytes of nic 0000:58:00.0 is 1500, want 9000",
    "node04: drift: trust of nic 0000:58:00.0 is pcp, want dscp",
    "node03 k3s: drift: service of k3s-agent is enabled/inactive, want enabled/active",
    "node04 k3s: drift: lines of config.yaml is 6, want 5",
)
GONE: Final = "`pulumi up --refresh` installs it again"
"""The switch, the hosts and K3s: read over SSH, so that a preview says what is wrong."""
DEVICES: Final = config_name("rdma-devices", shared_plugin_config(load_example(EXAMPLE)))
"""The plugin's ConfigMap: nobody can edit it, and who deletes it is seen."""
REPAIRED: Final = {
    "leaf-01-apply": "update",
    "node03-host": "update",
    "node04-host": "update",
    "reboots-1": "update",
    "node03-k3s": "update",
    "node04-k3s": "update",
    f"rdma-shared-dp-ds-configmap-{DEVICES}": "create-replacement",
    "whereabouts-daemonset": "create-replacement",
    "node04-labels": "update",
    "acceptance-evidence": "update",
    "acceptance-gate": "update",
}
"""All that the faults of `break_every_layer` touch, and nothing else.

The Helm release that is gone is named by the look; the engine asks for it with `--refresh` alone.
"""


@pytest.fixture(scope="module")
def site(mark: str) -> Generator[Playground]:
    with play_example(mark, EXAMPLE) as site:
        yield site


def kubectl(site: Playground, folder: Path, *arguments: str, program: str = "kubectl") -> Done:
    """A person with the administrator's kubeconfig, at the API's address outside of its host."""
    server = load_spec(choose_site([f"examples/{EXAMPLE}"])).servers[0]
    config = folder / "kubeconfig"
    inside = (site.lab / KUBECONFIG.replace("mgmt01", server.name)).read_text()
    config.write_text(inside.replace("127.0.0.1", server.way.address))
    config.chmod(0o600)
    return run([program, "--kubeconfig", str(config), *arguments], site.environment())


def break_every_layer(site: Playground, folder: Path) -> None:
    """A hand on the switch, the hosts, K3s, objects of the API and the Helm release."""
    site.fault("leaf-01", "mtu", "1/1", "1500")
    site.fault("leaf-01", "trust", "1/2", "L2")
    site.fault("node03", "mtu", "enp88s0", "1500")
    site.fault("node03", "module-lost", "nvidia_peermem")
    site.fault("node04", "qos-lost")
    edited = ("--type", "merge", "--patch", '{"data":{"config.json":"{}"}}')
    names = ["--namespace", "kube-system"]
    refused = kubectl(site, folder, *names, "patch", "configmap", DEVICES, *edited).refused()
    assert "field is immutable when `immutable` is set" in refused
    for change in (
        [*names, "delete", "configmap", DEVICES],
        [*names, "delete", "daemonset", "whereabouts"],
        ["label", "node", "node04", "rdma-"],
    ):
        kubectl(site, folder, *change).must()
    plugin = "nvidia-device-plugin"
    kubectl(site, folder, "uninstall", plugin, "--namespace", plugin, program="helm").must()
    site.fault("node03", "unit-stopped", "k3s-agent.service")
    site.fault("node04", "file-changed", "/etc/rancher/k3s/config.yaml", "debug: true")


def hosts_of(snapshot: object) -> dict[str, dict[str, object]]:
    document = cast("dict[str, dict[str, dict[str, dict[str, object]]]]", snapshot)
    return document["snapshot"]["hosts"]


@pytest.mark.timeout(1800)  # seven commands of an engine: minutes where the cores are shared
def test_the_example_from_nothing_to_nothing(site: Playground, tmp_path: Path) -> None:
    first = site.up().must()
    for probe in PROBES:
        assert re.search(rf"^PASSED +{probe} ", first, re.MULTILINE), first
    assert "acceptance passed" in first
    assert "nvidia.com/gpu: 8, rdma/hca: 500, rdma/hca_shared_devices_b: 500" in first
    good = site.resources()

    assert "nothing changed" in site.up().must()

    break_every_layer(site, tmp_path)
    preview = site.preview()
    preview.done.must()
    for words in WORDS:
        assert words in preview.messages
    assert preview.changes == REPAIRED
    report = site.railyard("drift", EXAMPLE).must(3)
    for words in WORDS:
        assert words.partition("drift: ")[2] in report
    assert report.count("no drift") == 2  # master01 and its K3s
    assert GONE in report

    site.pulumi("up", "--refresh", "--yes", "--skip-preview").must()
    assert "acceptance passed" in site.up().must()
    assert site.preview().quiet
    assert site.railyard("drift", EXAMPLE).must().count("no drift") == 8
    assert site.resources() == good

    site.pulumi("destroy", "--yes", "--skip-preview").must()
    assert site.snapshot().splitlines() == site.before.splitlines()
    assert not site.resources()
    assert not site.strays()
