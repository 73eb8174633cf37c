"""The example with kubespray, from nothing to nothing: a worker comes, an upgrade is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

import psutil
import pytest
import yaml

from components.kubernetes.kubespray.state import FOLDER
from lab import control
from lab.cluster.process import wait_until
from tests.over_ssh.test_kubespray import settled
from tests.site.conftest import play_example
from tests.site.playground import PROJECT, Playground

pytestmark = pytest.mark.story
EXAMPLE: Final = "dgx-roce/kubespray.yaml"
PROBES: Final = ("perftest-rail-0-gpu01-gpu02", "nccl-all-reduce", "allocatable gpu01")
OLD: Final = "v1.34.7"
NEW: Final = "v1.35.4"
UPGRADE: Final = "upgrade-cluster.yml: brings Kubernetes from v1.34.7 to v1.35.4"
WORKERS: Final = "PLAY [Finally handle worker upgrades, based on given batch size]"
DEADLINE_S: Final = 900.0
MOST_CONNECTIONS: Final = 9
"""To a worker that stays, in the update that adds another: as counted, 0 of them kubespray's."""


@pytest.fixture(scope="module")
def example(mark: str) -> Generator[Playground]:
    """The lab of the example, before anything was applied."""
    with play_example(mark, EXAMPLE) as site:
        yield site


def edited(site: Playground, folder: Path, version: str = OLD, without: str = "none") -> Path:
    """A copy of the stack's configuration with another version, or without a worker."""
    assert site.config
    document = yaml.safe_load(site.config.read_text())
    del document["config"]["railyard:site"]
    written = yaml.safe_load(site.config.with_name("site.yaml").read_text())
    written["kubernetes"]["version"] = version
    written["waive"] = {"worker-count": "gpu02 is in repair"} if without == "gpu02" else {}
    written["hosts"] = [each for each in written["hosts"] if each["name"] != without]
    for switch in written["switches"]:
        ports = switch["ports"].items()
        switch["ports"] = {port: to for port, to in ports if not to.startswith(without)}
    document["config"]["railyard:cluster"] = written
    folder.mkdir(exist_ok=True)
    copy = folder / site.config.name
    copy.write_text(yaml.safe_dump(document, sort_keys=False))
    return copy


def up(site: Playground, config: Path) -> str:
    words = ("up", "--yes", "--skip-preview", "--config-file", str(config))
    return site.pulumi(*words).must()


def nodes(site: Playground) -> dict[str, str]:
    """Each node and its version; one that is out of service has a mark."""
    listed = json.loads(site.kubectl("get", "nodes", "--output", "json").must())
    return {
        node["metadata"]["name"]: node["status"]["nodeInfo"]["kubeletVersion"]
        + (" cordoned" if node["spec"].get("unschedulable") else "")
        for node in listed["items"]
    }


def kept(site: Playground) -> Path:
    return PROJECT / FOLDER / site.stack


def connections(site: Playground) -> dict[str, int]:
    """How many SSH connections each host has let in."""
    answer = control.request(site.lab / "control.sock", {"op": "counted"})
    counted = cast("dict[str, dict[str, int]]", answer["counted"])
    return {name: each["connections"] for name, each in counted.items()}


def hosts(snapshot: str) -> dict[str, Any]:
    found = json.loads(snapshot)["snapshot"]
    return {name: settled(host) for name, host in found["hosts"].items()}


@pytest.mark.timeout(7200)  # a dozen commands of an engine: minutes where the cores are shared
def test_the_example_from_nothing_to_nothing(example: Playground, tmp_path: Path) -> None:
    _stands_and_is_quiet(example)
    _a_worker_goes_and_comes(example, tmp_path)
    newer = edited(example, tmp_path / "new", NEW)
    _a_release_is_not_skipped(example, tmp_path)
    _is_killed_in_an_upgrade(example, newer)
    _goes_on(example, newer)
    _nothing_is_left(example, newer)


def _stands_and_is_quiet(site: Playground) -> None:
    first = site.up().must()
    for probe in PROBES:
        assert re.search(rf"^PASSED +{probe} ", first, re.MULTILINE), first
    assert "acceptance passed" in first
    assert nodes(site) == {"mgmt01": OLD, "gpu01": OLD, "gpu02": OLD}
    log = (kept(site) / "log").read_text()
    assert "nothing changed" in site.up().must()
    assert (kept(site) / "log").read_text() == log


def _a_worker_goes_and_comes(site: Playground, folder: Path) -> None:
    fewer = edited(site, folder / "fewer", without="gpu02")
    assert "kubespray: remove-node.yml: drains gpu02 and takes it out" in up(site, fewer)
    assert nodes(site) == {"mgmt01": OLD, "gpu01": OLD}

    before, log = connections(site), (kept(site) / "log").read_text()
    assert "acceptance passed" in site.up().must()
    assert nodes(site) == {"mgmt01": OLD, "gpu01": OLD, "gpu02": OLD}
    played = (kept(site) / "log").read_text().removeprefix(log)
    assert "scale.yml --limit gpu02: adds gpu02" in played
    assert "[gpu01" not in played, "of the other nodes, only the first server is asked"
    now = connections(site)
    # The look, the line of gpu02 in /etc/hosts, and what acceptance reads: none is kubespray's.
    assert now["gpu01"] - before["gpu01"] <= MOST_CONNECTIONS


def _a_release_is_not_skipped(site: Playground, folder: Path) -> None:
    skipped = site.preview(edited(site, folder / "skipped", "v1.37.0")).done.refused()
    assert "Kubernetes v1.37.0 is 3 minors after v1.34.7, which runs" in skipped


def _is_killed_in_an_upgrade(site: Playground, newer: Path) -> None:
    """The engine and all of its processes end while the first worker is out of service."""
    said = "\n".join(site.preview(newer).messages)
    assert f"kubespray: {UPGRADE}" in said
    command = ["pulumi", "up", "--yes", "--skip-preview", "--non-interactive"]
    command += ["--stack", site.stack, "--config-file", str(newer)]
    with (site.lab / "killed.log").open("wb") as log:
        engine = subprocess.Popen(
            command,
            cwd=PROJECT,
            env=site.environment(),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def begun() -> bool:
        assert engine.poll() is None, (site.lab / "killed.log").read_text()[-3000:]
        played = (kept(site) / "log").read_text().rpartition(UPGRADE)[2].partition(WORKERS)[2]
        return "TASK [kubernetes/upgrade : Drain node]" in played

    wait_until("gpu01 to leave service", begun, DEADLINE_S)
    family = psutil.Process(engine.pid).children(recursive=True)
    os.killpg(engine.pid, signal.SIGKILL)
    for process in family:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    engine.wait(30)
    psutil.wait_procs(family, 30)
    assert nodes(site) == {"mgmt01": NEW, "gpu01": f"{OLD} cordoned", "gpu02": OLD}
    site.pulumi("cancel", "--yes").must()
    site.pulumi("refresh", "--yes", "--clear-pending-creates", "--config-file", str(newer)).must()


def _goes_on(site: Playground, newer: Path) -> None:
    back = site.up().refused()
    assert "an upgrade to v1.35.4 with kubespray v2.31.0 ended in the middle" in back
    inventory = kept(site) / "inventory" / "hosts.yaml"
    inventory.write_text(inventory.read_text().replace("gpu02", "gpu03"))
    by_hand = site.preview(newer).done.refused()
    assert f"in the middle: {UPGRADE}" in by_hand
    assert "next   rm .railyard/kubespray/dgx-roce-kubespray/inventory/hosts.yaml" in by_hand
    inventory.unlink()

    assert f"the last run ended in the middle of {UPGRADE}" in up(site, newer)
    assert nodes(site) == {"mgmt01": NEW, "gpu01": NEW, "gpu02": NEW}
    assert site.preview(newer).quiet


def _nothing_is_left(site: Playground, newer: Path) -> None:
    words = ("destroy", "--yes", "--skip-preview", "--config-file", str(newer))
    site.pulumi(*words).must()
    assert hosts(site.snapshot()) == hosts(site.before)
    assert not site.resources()
    assert not site.strays()
    assert [path.name for path in sorted(kept(site).iterdir())] == ["lock", "log"]
