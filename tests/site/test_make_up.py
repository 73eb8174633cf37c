"""`make up` from nothing, again, and after `make down`; `pulumi destroy`; a killed engine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from dataclasses import dataclass
from typing import Final, cast

import psutil
import pytest

from lab.up import choose_site, load_spec, start_lab
from tests.site.conftest import END_DEADLINE_S, stop_and_check
from tests.site.leftovers import POLL_S
from tests.site.playground import (
    COMMAND_DEADLINE_S,
    LAB,
    PROJECT,
    STACK,
    STATE,
    UP,
    Done,
    Playground,
    load_events,
    operation_of,
    run,
)

pytestmark = pytest.mark.site


@dataclass(frozen=True, slots=True)
class Point:
    """When an engine is killed: so long after it began to create a resource."""

    resource: str
    after_s: float


PROBES: Final = (
    "perftest-rail-0-gpu01-gpu02",
    "perftest-rail-1-gpu01-gpu02",
    "nccl-all-reduce",
)
KUBECONFIG: Final = "hosts/mgmt01/etc/rancher/k3s/k3s.yaml"
POINTS: Final = (
    Point("leaf-01-apply", 0.7),
    Point("gpu01-host", 0.8),
    Point("mgmt01-k3s", 2.0),
    Point("gpu-operator", 0.8),
    Point("acceptance-evidence", 4.0),
)
"""In the middle of each: the switch's dialogue, a host's script, the K3s installation, the helm
release, and the probes' jobs."""


def _work_tree() -> str:
    return run(["git", "status", "--porcelain"], os.environ).must()


def test_make_up_proves_the_path_and_then_is_quiet(site: Playground) -> None:
    before = _work_tree()
    first = site.up().must()
    for probe in PROBES:
        assert re.search(rf"^PASSED +{probe} ", first, re.MULTILINE), first
    assert "acceptance passed" in first
    again = site.up().must()
    assert "nothing changed" in again
    assert site.preview().quiet
    assert _work_tree() == before


def test_down_leaves_nothing_running_and_the_site_survives_it(standing: Playground) -> None:
    left = _without_units(standing.snapshot())
    stop_and_check(standing.mark)

    start_lab(load_spec(choose_site([])), STACK)
    assert _without_units(standing.snapshot()) == left
    assert "nothing changed" in standing.up().must()


def test_destroy_puts_every_device_back(standing: Playground) -> None:
    standing.pulumi("destroy", "--yes", "--skip-preview").must()
    assert standing.snapshot().splitlines() == standing.before.splitlines()
    assert not standing.resources()


def test_an_engine_killed_at_five_points(standing: Playground) -> None:
    left, resources, objects = standing.snapshot(), standing.resources(), _objects(standing)
    standing.pulumi("destroy", "--yes", "--skip-preview").must()
    for point in POINTS:
        _kill_during(standing, point)
    final = standing.up().must()
    assert "warning" not in final.lower()
    assert _severities() <= {"info"}
    assert not standing.strays()
    assert standing.resources() == resources
    assert _objects(standing) == objects
    assert _settings(standing.snapshot()) == _settings(left)
    assert standing.preview().quiet


def _without_units(snapshot: str) -> object:
    """A boot runs the enabled units, so that more of them are active than after an update."""
    document = json.loads(snapshot)
    return {
        name: {part: state for part, state in host.items() if part != "units"}
        for name, host in document["snapshot"]["hosts"].items()
    } | document["snapshot"]["switches"]


def _kill_during(site: Playground, point: Point) -> None:
    events = LAB / "events.jsonl"
    events.unlink(missing_ok=True)
    with subprocess.Popen(
        UP, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as child:
        _wait_for(point, child)
        time.sleep(point.after_s)
        engine = _engine_below(child.pid)
        engine.kill()
        text, _ = child.communicate(timeout=COMMAND_DEADLINE_S)
    Done(child.returncode, text).must(1)
    pending = json.loads(STATE.read_text())["checkpoint"]["latest"].get("pending_operations", [])
    assert any(str(item["resource"]["urn"]).endswith(f"::{point.resource}") for item in pending)
    deadline = time.monotonic() + END_DEADLINE_S
    while (strays := site.strays()) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    assert not strays, f"killed during {point.resource}: these outlived the engine: {strays}"


def _wait_for(point: Point, child: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + COMMAND_DEADLINE_S
    while not any(
        operation_of(event, "resourcePreEvent") == (point.resource, "create")
        for event in load_events(LAB / "events.jsonl")
    ):
        assert child.poll() is None, f"make up ended before {point}: {child.communicate()[0]}"
        assert time.monotonic() < deadline, f"make up never came to {point}"
        time.sleep(POLL_S)


def _engine_below(pid: int) -> psutil.Process:
    children = psutil.Process(pid).children()
    return next(child for child in children if child.name() == "pulumi")


def _severities() -> set[str]:
    diagnostics = [
        cast("dict[str, str]", event["diagnosticEvent"])
        for event in load_events(LAB / "events.jsonl")
        if "diagnosticEvent" in event
    ]
    return {item["severity"] for item in diagnostics}


def _objects(site: Playground) -> frozenset[str]:
    """What the cluster holds of jobs: what a killed acceptance may leave behind."""
    kinds = "namespaces,jobs,mpijobs.kubeflow.org,daemonsets,deployments"
    spec = load_spec(choose_site([]))
    address = next(host.ssh.address for host in spec.hosts if host.role == "control_plane")
    # Inside of its host the file says 127.0.0.1, as K3s writes it.
    server = ["--kubeconfig", str(LAB / KUBECONFIG), "--server", f"https://{address}:6443"]
    listing = ["get", kinds, "--all-namespaces", "--output", "name"]
    return frozenset(run(["kubectl", *server, *listing], site.environment()).must().split())


def _settings(snapshot: str) -> list[str]:
    """A snapshot without what each installation of K3s makes anew: keys, tokens, its database."""
    return [line for line in snapshot.splitlines() if "rancher" not in line]
