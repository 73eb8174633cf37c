"""The component under the real engine: order, replacement, previous output, nothing left."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest

from components.model.cluster import ClusterSpec
from lab.cloud.crusoe.server import CrusoeCloud
from lab.keys import host_key
from tests.cloud.small_engine import ROOT, SECRETS, cloud_config, running_cloud, site
from tests.engine.runner import EngineRunner

pytestmark = [pytest.mark.engine, pytest.mark.lab]
PORT = 2222
PROGRAM = """
import json, pathlib, sys
sys.path.insert(0, {root!r})
import pulumi
from components.cloud import Instances
from components.cloud.observe import cloud_drift, observe_cloud, with_generations
from components.cloud.cloud_plan import plan_cloud
from components.model.cluster import ClusterSpec
from stacks.own_state import read_own_state
from components.remote.component import Remote
config = pulumi.Config()
spec = ClusterSpec.model_validate_json(pathlib.Path("spec.json").read_text())
plan, applied = plan_cloud(spec), read_own_state()
secrets = {{name: config.require(name) for name in ("crusoe_access_key", "crusoe_secret_key")}}
seen = observe_cloud(plan, applied, secrets)
notes = {{each.step: each.note for each in cloud_drift(plan, applied, seen) if each.note}}
ready = Instances("cloud", with_generations(plan, applied, seen), Remote(config, notes)).ready
for name, facts in ready.facts.items():
    pulumi.export(name, facts)
"""
RAILYARD = """#!{python}
import sys
sys.path.insert(0, {root!r})
from components.cli.main import main
main()
"""


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[CrusoeCloud]:
    """A cloud whose instances answer SSH, each with a key of its own."""
    loop = asyncio.new_event_loop()
    config = cloud_config()

    async def listen(address: str) -> asyncssh.SSHAcceptor:
        key = asyncssh.import_private_key(host_key(address).private_openssh)
        return await asyncssh.listen(address, PORT, server_host_keys=[key])

    async def close(servers: list[asyncssh.SSHAcceptor]) -> None:
        for server in servers:
            server.close()
            await server.wait_closed()

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    servers = [
        asyncio.run_coroutine_threadsafe(listen(address), loop).result(10)
        for address in config.public_ips[:5]
    ]
    with running_cloud(tmp_path / "cloud.json", config) as running:
        yield running
    asyncio.run_coroutine_threadsafe(close(servers), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def small_site(cloud: CrusoeCloud, *edits: tuple[str, str]) -> ClusterSpec:
    """One server and two workers."""
    return site(
        cloud.endpoint,
        ("count: 1}", "count: 0}"),
        ("count: 3}", "count: 1}"),
        ("ssh_user: ubuntu", f"ssh_port: {PORT}\n    ssh_user: ubuntu"),
        *edits,
    )


def put(folder: Path, spec: ClusterSpec) -> None:
    (folder / "spec.json").write_text(spec.model_dump_json(), encoding="utf-8")


@pytest.fixture
def project(engine: EngineRunner, cloud: CrusoeCloud) -> Path:
    folder = engine.project("cloud-component", PROGRAM.format(root=str(ROOT)))
    program = folder / ".venv" / "bin" / "railyard"
    program.parent.mkdir(parents=True)
    program.write_text(RAILYARD.format(python=sys.executable, root=str(ROOT)), encoding="utf-8")
    program.chmod(0o755)
    put(folder, small_site(cloud))
    engine.configure(folder, "dev", {}, SECRETS)
    return folder


def names(cloud: CrusoeCloud) -> Counter[str]:
    found = cloud.snapshot()["instances"]
    assert isinstance(found, dict)
    return Counter(str(item["name"]) for item in found.values() if isinstance(item, dict))


def commands(steps: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return {name: operation for operation, name in steps}


def test_made_kept_grown_repaired_and_removed(
    engine: EngineRunner, cloud: CrusoeCloud, project: Path
) -> None:
    first = engine.up(project)
    assert (first.rc, first.errors) == (0, "")
    three = Counter(["crusoe-k3s-0", "crusoe-k3s-worker-0", "crusoe-k3s-worker-1"])
    assert names(cloud) == three
    facts = json.loads(engine.outputs(project)["crusoe-k3s-worker-0"])
    own = host_key(facts["public_ip"]).public_openssh.split()[1]
    assert facts["host_key"].split()[1] == own

    # A larger pool makes what is new, and a preview does not threaten what is there.
    put(project, small_site(cloud, ("count: 2}", "count: 3}")))
    grown = commands(engine.preview(project).steps)
    assert {name for name, step in grown.items() if step == "update"} == {
        "cloud",
        "cloud-preflight",
        "cloud-instance-claims",
    }
    assert {name for name, step in grown.items() if step == "create"} == {
        "crusoe-k3s-worker-2-instance",
        "crusoe-k3s-worker-2-await",
    }
    assert not [step for step in grown.values() if "replace" in step or "delete" in step]
    put(project, small_site(cloud))

    # What is gone is made again, and of the others nothing is touched.
    cloud.fault(["gone", "crusoe-k3s-worker-1"])
    mended = engine.up(project)
    assert (mended.rc, mended.errors) == (0, "")
    touched = {name for _, name in mended.steps}
    assert touched == {"crusoe-k3s-worker-1-instance", "crusoe-k3s-worker-1-await"}
    assert names(cloud) == three
    quiet = engine.preview(project)
    assert (quiet.rc, quiet.steps) == (0, ())

    gone = engine.destroy(project)
    assert (gone.rc, gone.errors) == (0, "")
    tables = ("networks", "subnets", "rules", "partitions", "instances")
    assert all(not cloud.snapshot()[table] for table in tables)
