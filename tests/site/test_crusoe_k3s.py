"""examples/crusoe-k3s from nothing to nothing: a server lost, drift of all layers, more workers."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Final, cast

import pytest
import yaml

from components.core.problem import Json
from lab import control
from tests.site.begun import Begun
from tests.site.conftest import play_example
from tests.site.playground import Playground, Preview, run

pytestmark = pytest.mark.story
NAME: Final = "crusoe-k3s"
PROBES: Final = ("nccl-all-reduce", "nccl-all-gather", "nccl-reduce-scatter", "nccl-alltoall")
ADMIN: Final = "etc/rancher/k3s/k3s.yaml"
PLACE: Final = ("environment", "instances")
MEMLOCK: Final = "/etc/systemd/system/k3s-agent.service.d/10-railyard-memlock.conf"
HAPROXY: Final = "/etc/railyard/haproxy/haproxy.cfg"
POLICY: Final = ("nicclusterpolicies.mellanox.com", "nic-cluster-policy")
PROVEN_AGAIN: Final = frozenset({"acceptance-evidence", "acceptance-gate"})
BOOKKEEPING: Final = frozenset({"cloud-preflight", "cloud-instance-claims", "cloud", "hosts"})
"""Steps that only read the cloud: they ask whether there is room for what the file counts now; and
the components that say how many they hold."""
SERVERS: Final = 3
NEW: Final = (f"{NAME}-worker-2", f"{NAME}-worker-3")
SIX: Final = [
    *(f"{NAME}-{number}" for number in range(3)),
    f"{NAME}-lb-0",
    *(f"{NAME}-worker-{number}" for number in range(2)),
]


@pytest.fixture(scope="module")
def example(mark: str) -> Generator[Playground]:
    """The emulated cloud, before anything was made in it."""
    with play_example(mark, NAME) as site:
        yield site


def cloud(site: Playground | Begun) -> dict[str, dict[str, dict[str, Json]]]:
    """What the emulated cloud holds: kind to id to object."""
    return json.loads(site.snapshot())["snapshot"]["cloud"]


def instances(site: Playground) -> list[str]:
    return sorted(str(item["name"]) for item in cloud(site)["instances"].values())


def public_address(site: Playground | Begun, name: str) -> str:
    [item] = [each for each in cloud(site)["instances"].values() if each["name"] == name]
    [card] = cast("list[dict[str, list[dict[str, dict[str, str]]]]]", item["network_interfaces"])
    return card["ips"][0]["public_ipv4"]["address"]


def kubectl(site: Playground, server: str, *arguments: str) -> str:
    """Ask the API through the balancer, with the administrator's certificate of a server."""
    url = f"https://{public_address(site, f'{NAME}-lb-0')}:6443"
    access = ["--kubeconfig", str(site.lab / "hosts" / server / ADMIN), "--server", url]
    return run(["kubectl", *access, *arguments], site.environment()).must()


def nodes(site: Playground, server: str) -> Mapping[str, bool]:
    """Node to whether it is Ready."""
    listed = json.loads(kubectl(site, server, "get", "nodes", "--output", "json"))
    return {
        item["metadata"]["name"]: any(
            each["type"] == "Ready" and each["status"] == "True"
            for each in item["status"]["conditions"]
        )
        for item in listed["items"]
    }


def members(site: Playground, server: str) -> int:
    """How many etcd members K3s counts: the nodes that are not taken out."""
    wanted = "jsonpath={.items[*].metadata.annotations.etcd\\.k3s\\.cattle\\.io/node-name}"
    return len(kubectl(site, server, "get", "nodes", "--output", wanted).split())


def with_workers(site: Playground, folder: Path, count: int) -> Path:
    """A copy of the stack's configuration with another number of workers."""
    assert site.config
    document = yaml.safe_load(site.config.read_text())
    del document["config"]["railyard:site"]
    written = yaml.safe_load(site.config.with_name("site.yaml").read_text())
    provision = document["config"]["railyard:cluster"] = written
    for key in PLACE:
        provision = provision[key]
    [pool] = [each for each in provision["pools"] if each["role"] == "worker"]
    pool["count"] = count
    copy = folder / site.config.name
    copy.write_text(yaml.safe_dump(document, sort_keys=False))
    return copy


def assert_touches_only(preview: Preview, *names: str) -> None:
    """Nothing is changed but what belongs to these machines, the bookkeeping and acceptance."""
    preview.done.must()
    others = [name for name in preview.changes if not name.startswith(names)]
    assert set(others) <= PROVEN_AGAIN | BOOKKEEPING, preview.changes


@pytest.mark.timeout(1800)  # nine commands of an engine: minutes where the cores are shared
def test_from_nothing_to_nothing(example: Playground, tmp_path: Path) -> None:
    _quota_is_used_up(example)
    _stands_and_is_quiet(example, tmp_path)
    _all_layers_drift(example)
    _workers_come_and_the_first_server_is_lost(example, tmp_path)
    _workers_go(example)
    _nothing_is_left(example)


def _quota_is_used_up(site: Playground) -> None:
    # There is no environment file to source before the first `make up`.
    order: dict[str, object] = {
        "op": "fault",
        "device": "cloud",
        "args": ["quota_exceeded", "1", "POST"],
    }
    control.request(site.lab / "control.sock", order)
    stopped = site.up().must(1)
    # All instances are asked for together: which one comes first is the engine's choice.
    assert re.search("quota QUOTA_(C1A|H100) is used up", stopped)
    assert "fix    ask the vendor for more" in stopped
    assert "run `make up` again; it goes on from here" in stopped
    assert "acceptance passed" not in stopped
    assert len(instances(site)) == len(SIX) - 1


def _stands_and_is_quiet(site: Playground, folder: Path) -> None:
    said = site.up().must()
    for probe in PROBES:
        assert f"PASSED   {probe}" in said
    assert f"allocatable {NAME}-worker-1  nvidia.com/gpu: 8, nvidia.com/hostdev: 8" in said
    assert instances(site) == SIX, "one of a name, and none that nobody knows of"

    exported = folder / "site.yaml"
    exported.write_text(site.railyard("cloud", "export", NAME).must())
    assert "kind: bring_your_own" in exported.read_text()
    site.railyard("check", str(exported)).must()

    assert "nothing changed" in site.up().must()


def _all_layers_drift(site: Playground) -> None:
    second, first = f"{NAME}-1", f"{NAME}-0"
    site.fault("cloud", "gone", second)
    site.fault("cloud", "stop", f"{NAME}-worker-1")
    site.fault("cloud", "open", f"{NAME}-ssh")
    site.fault(f"{NAME}-worker-0", "file-changed", MEMLOCK, "LimitMEMLOCK=65536")
    site.fault(f"{NAME}-lb-0", "file-changed", HAPROXY, "# by hand")
    kubectl(site, first, "get", "--raw", "/readyz")
    assert sorted(nodes(site, first)) == [each for each in SIX if "-lb-" not in each]
    _edit_policy(site, first)

    preview = site.preview()
    said = "\n".join(preview.messages)
    for part in (
        f"instance {second}: drift: presence",
        f"running instance {NAME}-worker-1: drift: state",
        f"firewall rule {NAME}-ssh: drift: sources",
        f"{NAME}-worker-0: drift: limit_memlock",
        f"{NAME}-lb-0 haproxy: drift: ",
    ):
        assert part in said, preview.done.text
    assert preview.changes[f"{second}-instance"] == "create-replacement"
    assert preview.changes[f"{NAME}-ssh-rule"] == "update"
    assert any("nicclusterpolicy" in name for name in preview.changes)
    report = site.railyard("drift", NAME).must(3)
    assert f"instance {second} " in report

    assert "acceptance passed" in site.up().must()
    assert set(nodes(site, first).values()) == {True}
    assert members(site, first) == SERVERS
    site.railyard("drift", NAME).must()
    assert instances(site) == SIX


def _edit_policy(site: Playground, server: str) -> None:
    spec = {"spec": {"sriovDevicePlugin": {"config": '{"resourceList": []}'}}}
    kubectl(site, server, "patch", *POLICY, "--type", "merge", "--patch", json.dumps(spec))


def _workers_come_and_the_first_server_is_lost(site: Playground, folder: Path) -> None:
    first, second = f"{NAME}-0", f"{NAME}-1"
    four = with_workers(site, folder, 4)
    # All else is quiet: what was repaired stays so.
    assert_touches_only(site.preview(four), *NEW)

    site.fault("cloud", "gone", first)
    assert first in nodes(site, second), "the API answers through the balancer"
    site.pulumi("up", "--yes", "--skip-preview", "--config-file", str(four)).must()
    assert instances(site) == [*SIX, *NEW]
    found = nodes(site, second)
    assert set(found.values()) == {True}
    assert {*NEW} <= {*found}
    assert members(site, second) == SERVERS


def _workers_go(site: Playground) -> None:
    shrunk = site.preview()
    assert_touches_only(shrunk, *NEW)
    assert {shrunk.changes[name] for name in shrunk.changes if name.startswith(NEW)} == {"delete"}

    site.up().must()
    assert instances(site) == SIX
    assert not {*NEW} & {*nodes(site, f"{NAME}-0")}
    site.railyard("drift", NAME).must()


def _nothing_is_left(site: Playground) -> None:
    site.pulumi("destroy", "--yes", "--skip-preview").must()
    assert not site.resources()
    before = json.loads(site.before)["snapshot"]
    after = json.loads(site.snapshot())["snapshot"]
    for log in ("operations", "requests"):  # the API's own record of what it was asked
        del before["cloud"][log], after["cloud"][log]
    assert after == before
    assert not list((site.lab / "hosts").iterdir())
    assert not site.strays()
