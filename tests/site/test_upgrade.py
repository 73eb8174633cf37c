"""K3s upgraded by an edit of its version: refused, foreseen, killed in the middle, and finished."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest
import yaml

from lab.cluster.artefact import later_checksum
from lab.cluster.process import wait_until
from lab.site import MIRROR
from tests.site.conftest import play_example
from tests.site.playground import PROJECT, Playground, load_events, operation_of

pytestmark = pytest.mark.story
NAME: Final = "dgx-roce"
OLD: Final = "v1.36.3+k3s1"
NEW: Final = "v1.36.4+k3s1"
UPGRADES: Final = {"mgmt01-upgrade", "gpu01-upgrade", "gpu02-upgrade"}
DEADLINE_S: Final = 600.0


@pytest.fixture(scope="module")
def example(mark: str) -> Generator[Playground]:
    """The lab of the example, before anything was applied."""
    with play_example(mark, NAME) as site:
        yield site


def edited(site: Playground, folder: Path, version: str, reboots: str = "allow") -> Path:
    """A copy of the stack's configuration with another version of K3s."""
    assert site.config
    document = yaml.safe_load(site.config.read_text())
    del document["config"]["railyard:site"]
    written = yaml.safe_load(site.config.with_name("site.yaml").read_text())
    source = written["kubernetes"]["source"]
    if version != OLD:
        source["binary"] = f"{MIRROR}/{version}/k3s"
        source["binary_sha256"] = later_checksum(version)
    written["kubernetes"]["version"] = version
    written["disruption"]["reboots"] = reboots
    document["config"]["railyard:cluster"] = written
    folder.mkdir(exist_ok=True)
    copy = folder / site.config.name
    copy.write_text(yaml.safe_dump(document, sort_keys=False))
    return copy


def releases(site: Playground) -> dict[str, str]:
    listed = json.loads(site.kubectl("get", "nodes", "--output", "json").must())
    return {
        node["metadata"]["name"]: node["status"]["nodeInfo"]["kubeletVersion"]
        for node in listed["items"]
    }


def cordoned(site: Playground) -> list[str]:
    listed = json.loads(site.kubectl("get", "nodes", "--output", "json").must())
    return [n["metadata"]["name"] for n in listed["items"] if n["spec"].get("unschedulable")]


def kill_in_the_middle(site: Playground, config: Path, events: Path) -> None:
    """Start the update, and end the engine with all of its processes when gpu01's turn has come."""
    command = ["pulumi", "up", "--yes", "--skip-preview", "--non-interactive"]
    command += ["--stack", site.stack, "--config-file", str(config), "--event-log", str(events)]
    environment = site.environment() | {"PULUMI_DEBUG_COMMANDS": "true"}
    with (site.lab / "killed.log").open("wb") as log:
        engine = subprocess.Popen(
            command,
            cwd=PROJECT,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def begun() -> bool:
        assert engine.poll() is None, (site.lab / "killed.log").read_text()[-3000:]
        names = {operation_of(event, "resourcePreEvent")[0] for event in load_events(events)}
        return "gpu01-upgrade" in names and "gpu01" in cordoned(site)

    wait_until("gpu01 to leave service", begun, DEADLINE_S)
    os.killpg(engine.pid, signal.SIGKILL)
    engine.wait(30)


@pytest.mark.timeout(2400)  # five commands of an engine: minutes where the cores are shared
def test_all_nodes_come_to_the_next_release_over_a_kill(
    example: Playground, tmp_path: Path
) -> None:
    site = example
    site.up().must()
    assert releases(site) == {"mgmt01": OLD, "gpu01": OLD, "gpu02": OLD}
    assert not [urn for urn in site.resources() if "-upgrade" in urn]

    denied = site.preview(edited(site, tmp_path / "deny", NEW, "deny")).done.refused()
    assert "mgmt01, gpu01, gpu02 would be upgraded to K3s v1.36.4+k3s1" in denied
    newer = edited(site, tmp_path / "new", NEW)
    preview = site.preview(newer)
    assert {*preview.changes} >= UPGRADES, preview.done.text
    said = "\n".join(preview.messages)
    assert f"WILL BE UPGRADED (group 1 of 3): mgmt01: K3s {OLD} -> {NEW}" in said
    assert f"WILL BE UPGRADED (group 3 of 3): gpu02: K3s {OLD} -> {NEW}" in said

    kill_in_the_middle(site, newer, tmp_path / "events.jsonl")
    assert releases(site)["mgmt01"] == NEW
    assert releases(site)["gpu02"] == OLD
    site.pulumi("cancel", "--yes").must()
    site.pulumi("refresh", "--yes", "--clear-pending-creates", "--config-file", str(newer)).must()
    back = site.preview(edited(site, tmp_path / "back", OLD)).done.refused()
    assert "neither K3s nor etcd goes back to an earlier release" in back
    assert "mgmt01" in back

    site.pulumi("up", "--yes", "--skip-preview", "--config-file", str(newer)).must()
    assert releases(site) == {"mgmt01": NEW, "gpu01": NEW, "gpu02": NEW}
    assert cordoned(site) == []
    assert site.preview(newer).quiet
