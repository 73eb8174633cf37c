"""`make up` from nothing, again, and after `make down`; `pulumi destroy`; a killed engine."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path
from typing import Final, cast

import psutil
import pytest

from components.core.record import record
from lab.up import choose_site, load_spec, start_lab
from tests.docs.markdown import outputs
from tests.site.conftest import END_DEADLINE_S, FirstUp, stop_and_check, work_tree
from tests.site.leftovers import POLL_S
from tests.site.playground import (
    COMMAND_DEADLINE_S,
    PROJECT,
    STACK,
    Done,
    Playground,
    load_events,
    operation_of,
)

pytestmark = pytest.mark.site


@record
class Point:
    """When an engine is killed: so long after it began to create a resource."""

    resource: str
    after_s: float


PROBES: Final = (
    "perftest-rail-0-gpu01-gpu02",
    "perftest-rail-1-gpu01-gpu02",
    "nccl-all-reduce",
)
POINTS: Final = (
    Point("leaf-01-apply", 0.2),
    Point("mgmt01-k3s", 1.5),
    Point("gpu-operator", 0.2),
    Point("acceptance-evidence", 4.0),
)
"""In the middle of each: the switch's dialogue, the script that installs K3s on a host, the helm
release, and the probes' jobs."""


(README_UP,) = (each for each in outputs(PROJECT / "README.md") if each.command == "make up")

STATE_BYTES: Final = 320_000
"""Of dgx-roce: 309,523 with the two objects of whereabouts' reconciler, 2026-11-29."""
PROOF_BYTES: Final = 10_000
STEP_BYTES: Final = 14_336
"""Of a resource of a host, inputs and outputs together: what a site of 1,000 hosts can carry. The
largest joins a worker to the cluster in three steps: 12,929 bytes, 2026-11-30."""


def test_the_state_keeps_its_budgets(first_up: FirstUp) -> None:
    """The file backend writes the whole state twice a step: its size is the time of a run.

    The state is the one that the first `make up` left: other tests add steps that repair.
    """
    state = first_up.state
    rows = {item["urn"].rpartition("::")[2]: item for item in state["deployment"]["resources"]}
    sizes = {name: len(json.dumps(row)) for name, row in rows.items()}
    largest = "\n".join(
        f"{size:7} {name}" for name, size in sorted(sizes.items(), key=lambda row: -row[1])[:12]
    )
    assert len(rows) > 60, "this is no whole site"
    assert len(json.dumps(state)) <= STATE_BYTES, largest
    assert sizes["acceptance-evidence"] + sizes["acceptance-gate"] <= PROOF_BYTES, largest
    steps = {
        name: len(json.dumps([row["inputs"], row["outputs"]]))
        for name, row in rows.items()
        if re.fullmatch(r"(mgmt|gpu)[0-9]+-.*", name)
    }
    assert {"gpu01-host", "gpu02-k3s", "mgmt01-host"} <= steps.keys()
    assert max(steps.values()) <= STEP_BYTES, largest


def test_make_up_proves_the_path_and_then_is_quiet(first_up: FirstUp, standing: Playground) -> None:
    said = first_up.done.text
    for probe in PROBES:
        assert re.search(rf"^PASSED +{probe} ", said, re.MULTILINE), said
    assert "acceptance passed" in said
    shown = [line for line in README_UP.lines if line != "…"]
    assert [line for line in shown if line not in said.splitlines()] == []

    assert "nothing changed" in standing.up().must()
    preview = standing.preview(None, "--diff")
    assert preview.quiet
    assert not [line for line in preview.lines if "kubernetes:" in line]
    assert work_tree() == first_up.work_tree_before


def test_down_leaves_nothing_running_and_the_site_survives_it(standing: Playground) -> None:
    left = _without_units(standing)
    stop_and_check(standing.mark)

    start_lab(load_spec(choose_site([])), STACK)
    assert _without_units(standing) == left
    assert "nothing changed" in standing.up().must()


def test_destroy_puts_every_device_back(standing: Playground) -> None:
    standing.pulumi("destroy", "--yes", "--skip-preview").must()
    assert standing.snapshot().splitlines() == standing.before.splitlines()
    assert not standing.resources()


@pytest.mark.timeout(1200)  # a dozen commands of an engine: minutes where the cores are shared
def test_an_engine_killed_at_four_points(site: Playground, first_up: FirstUp) -> None:
    if site.resources():
        site.pulumi("destroy", "--yes", "--skip-preview").must()
    for point in POINTS:
        _kill_during(site, point)
    final = site.up().must()
    assert "recovered: " in final
    assert "warning" not in final.lower()
    assert not [
        word for word in _severities(site) if word.startswith(("warning", "error", "info#"))
    ]
    assert not site.strays()
    assert site.end_state() == first_up.end_state
    assert site.preview().quiet


def _without_units(site: Playground) -> object:
    """A boot runs the enabled units, so that more of them are active than after an update."""
    devices = cast("dict[str, dict[str, dict[str, object]]]", site.settings())
    for host in devices["hosts"].values():
        del host["units"]
    return devices


def _kill_during(site: Playground, point: Point) -> None:
    events = site.lab / "events.jsonl"
    events.unlink(missing_ok=True)
    with subprocess.Popen(
        site.command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as child:
        _wait_for(point, child, events)
        time.sleep(point.after_s)
        engine = _engine_below(child.pid)
        engine.kill()
        text, _ = child.communicate(timeout=COMMAND_DEADLINE_S)
    Done(child.returncode, text).must(1)
    pending = json.loads(site.state.read_text())["checkpoint"]["latest"].get(
        "pending_operations", []
    )
    assert any(str(item["resource"]["urn"]).endswith(f"::{point.resource}") for item in pending)
    deadline = time.monotonic() + END_DEADLINE_S
    while (strays := site.strays()) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    assert not strays, f"killed during {point.resource}: these outlived the engine: {strays}"


def _wait_for(point: Point, child: subprocess.Popen[str], events: Path) -> None:
    deadline = time.monotonic() + COMMAND_DEADLINE_S
    while not _is_begun(point, events):
        assert child.poll() is None, f"make up ended before {point}: {child.communicate()[0]}"
        assert time.monotonic() < deadline, f"make up never came to {point}"
        time.sleep(POLL_S)


def _is_begun(point: Point, events: Path) -> bool:
    if not (events.exists() and f"::{point.resource}" in events.read_text()):
        return False  # a log of megabytes, which is long to parse
    began = (point.resource, "create")
    return any(operation_of(event, "resourcePreEvent") == began for event in load_events(events))


def _engine_below(pid: int) -> psutil.Process:
    children = psutil.Process(pid).children()
    return next(child for child in children if child.name() == "pulumi")


def _severities(site: Playground) -> set[str]:
    diagnostics = [
        cast("dict[str, str]", event["diagnosticEvent"])
        for event in load_events(site.lab / "events.jsonl")
        if "diagnosticEvent" in event
    ]
    return {item["severity"] for item in diagnostics}
