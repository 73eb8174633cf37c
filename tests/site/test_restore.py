"""A K3s snapshot is restored as docs/howto/restore-k3s.md says; an update repairs what is older."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from typing import Any, Final

import pytest

from components.plan.make import make_plan
from components.remote.host_runs import run_on_hosts
from components.remote.script import render_remote_command
from components.remote.step import env_name
from lab.cluster.process import wait_until
from lab.site import secrets_of
from lab.up import choose_site, load_spec
from tests.site.conftest import play_example
from tests.site.playground import Playground

pytestmark = pytest.mark.story
NAME: Final = "dgx-roce"
DEADLINE_S: Final = 120.0
ATTACHMENT: Final = "network-attachment-definitions.k8s.cni.cncf.io"
DRIFT: Final = (
    "cluster      NetworkAttachmentDefinition default/sriov111: spec.config.vlan is 999, want 111"
)


@pytest.fixture(scope="module")
def example(mark: str) -> Generator[Playground]:
    """The lab of the example, before anything was applied."""
    with play_example(mark, NAME) as site:
        yield site


@pytest.fixture(scope="module")
def on_server() -> Callable[[str], str]:
    """Runs a script as root on the one server, as a person over SSH does."""
    spec = load_spec(choose_site([f"examples/{NAME}"]))
    access = make_plan(spec, NAME).acceptance.access
    assert access is not None
    (server,) = access.servers
    secrets = {env_name(name): value for name, value in secrets_of(NAME).items()}
    run = run_on_hosts([server.endpoint], secrets)

    def command(script: str) -> str:
        text = render_remote_command(script, DEADLINE_S)
        answer = run(server.endpoint, text, "", DEADLINE_S)
        assert answer.exit_status == 0, answer.stdout + answer.stderr
        return answer.stdout

    return command


def other_vlan(site: Playground) -> None:
    found: Any = json.loads(site.kubectl("get", ATTACHMENT, "sriov111", "-o", "json").must())
    config = json.loads(found["spec"]["config"]) | {"vlan": 999}
    patch = json.dumps({"spec": {"config": json.dumps(config)}})
    site.kubectl("patch", ATTACHMENT, "sriov111", "--type", "merge", "--patch", patch).must()


def cluster_lines(report: str) -> list[str]:
    return [line for line in report.splitlines() if line.startswith("cluster ")]


@pytest.mark.timeout(2400)  # three updates of an engine: minutes where the cores are shared
def test_a_restored_snapshot_is_repaired_and_the_next_update_is_quiet(
    example: Playground, on_server: Callable[[str], str]
) -> None:
    site = example
    site.up().must()
    other_vlan(site)
    saved = on_server("k3s etcd-snapshot save\n")
    name = saved.partition("Snapshot ")[2].partition(" saved")[0]
    assert name.startswith("on-demand-mgmt01-")
    assert "acceptance passed" in site.up().must()  # repaired, after the snapshot
    site.kubectl("create", "configmap", "mine").must()
    assert site.preview().quiet

    folder = "/var/lib/rancher/k3s/server/db/snapshots"
    on_server("systemctl stop k3s\n")
    said = on_server(f"k3s server --cluster-reset --cluster-reset-restore-path={folder}/{name}\n")
    assert "Managed etcd cluster membership has been reset" in said
    on_server("systemctl start k3s\n")
    ready = ("get", "--raw", "/readyz")
    wait_until("the API", lambda: site.kubectl(*ready).code == 0, DEADLINE_S)
    nodes = ("wait", "--for=condition=Ready", "node", "--all", f"--timeout={DEADLINE_S:.0f}s")
    site.kubectl(*nodes).must()

    assert cluster_lines(site.railyard("drift", NAME).must(3)) == [DRIFT]
    assert "acceptance passed" in site.up().must()
    assert cluster_lines(site.railyard("drift", NAME).must()) == ["cluster      no drift"]
    assert site.preview().quiet
    assert site.kubectl("get", "configmap", "mine").code != 0, "what a user made later is gone"
