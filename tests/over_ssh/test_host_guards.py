"""Settings of hosts beside ours that break our traffic, made by hand on emulated hosts.

What a look says of them is the table `host_guards.yaml`; what the file repairs is set and undone by
the host's own step.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from components.core.difference import Difference, ForeignSetting
from components.core.key_values import diff_states, parse_state
from components.drift.applied import Applied
from components.drift.device_drift import asked_of_step
from components.hosts.harms import find_foreign_settings
from components.hosts.host_plan import HostPlan
from components.model.cluster import ClusterSpec
from components.model.guard_spec import Guards, HostGuards
from tests.guards import Guard
from tests.guards import rows as guards
from tests.over_ssh.host_lab import HostLab, running_hosts

pytestmark = pytest.mark.lab
HOSTS = ("gpu01", "gpu02")
REPAIRED = ("priority_classes", "ets", "rate_limit", "dscp_map", "vf_rights", "ip")


@cache
def rows() -> tuple[Guard, ...]:
    return tuple(row for row in guards() if row.system == "linux")


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[HostLab]:
    with running_hosts("host-guards", tmp_path / "lab", only=HOSTS) as running:
        yield running
        unmodelled = running.ask(op="unmodelled")["unmodelled"]
    assert unmodelled == {name: [] for name in HOSTS}


def lossless(spec: ClusterSpec, guards: HostGuards) -> ClusterSpec:
    """Two rails with addresses that pause; gpu02 without routes by source."""
    value = spec.model_dump(mode="json", exclude_unset=True)
    value["rdma"]["mode"] = "lossless"
    written: list[dict[str, Any]] = value["hosts"]
    for at, host in enumerate(written):
        for number, nic in enumerate(host.get("nics", [])):
            nic["address"] = f"10.10.{111 + number}.{10 + at}"
        if host["name"] == "gpu02":
            host["group"] = "unrouted"
    value["host_groups"] = [{"name": "unrouted", "kernel": {"source_routing": "off"}}]
    value["guards"] = Guards(host=guards).model_dump(mode="json")
    return ClusterSpec.model_validate(value)


def look(lab: HostLab, plan: HostPlan) -> tuple[tuple[ForeignSetting, ...], tuple[Difference, ...]]:
    """What one look, as an update does it, finds beside ours, and of ours."""
    watched = plan.watched
    answer = lab.run(plan, watched.observe, asked_of_step(watched, Applied()).render_short())
    assert answer.exit_status == 0, answer.stderr
    facts = parse_state(answer.stdout)
    beside = find_foreign_settings(plan.guarded, plan.desired, facts)
    return beside, diff_states(facts, plan.desired)


def spoil(lab: HostLab, plan: HostPlan) -> None:
    """Everything of the table that is of this host, by hand."""
    here = [row for row in rows() if row.host == plan.name]
    for row in here:
        if row.in_pod is not None:
            pf, number = row.in_pod  # with a MAC of its pod's, as sriov-cni sets it
            lab.sh(plan, f"ip link set dev {pf} vf {number} mac 0e:00:00:00:00:1{number}")
            lab.fault(plan.name, "vf-in-pod", *row.in_pod, "on")
    hands = [line for row in here for line in row.by_hand]
    lab.sh(plan, "set -e\n" + "".join(f"{{ {line}; }} >/dev/null\n" for line in hands))


def in_words(found: tuple[ForeignSetting, ...]) -> set[tuple[str, ...]]:
    texts = [
        (one.kind, one.found.where, one.found.setting, one.found.actual, one.found.desired)
        for one in found
    ]
    assert len(texts) == len({*texts})
    return {*texts}


def test_each_hand_is_found_in_one_look_and_is_mended_by_the_fix_that_it_names(
    lab: HostLab,
) -> None:
    spec = lossless(lab.spec, HostGuards())
    plans = {name: lab.plan(name, spec) for name in HOSTS}
    assert {key for key in plans["gpu02"].desired.values if "sysctl" in key} == set()
    for plan in plans.values():
        assert (applied := lab.apply(plan)).exit_status == 0, applied.stderr
    assert look(lab, plans["gpu01"]) == ((), ())
    for name, plan in plans.items():
        spoil(lab, plan)
        found, drift = look(lab, plan)
        ours = [row for row in rows() if row.host == name and row.ours]
        assert {*drift} == {Difference(*row.found) for row in ours}
        here = [row for row in rows() if row.host == name and not row.ours]
        assert in_words(found) == {(row.kind, *row.found) for row in here}
        for row in here:
            (said,) = [one for one in found if (one.kind, *row.found) in in_words((one,))]
            assert row.breaks in said.breaks
        mendable = [one.fix for one in found if one.kind != "host.buffers"]
        lab.sh(plan, "set -e\n" + "".join(f"{{ {fix}; }} >/dev/null\n" for fix in mendable))
        left, drift = look(lab, plan)
        assert {*drift} == {Difference(*row.found) for row in ours}
        assert {one.kind for one in left} == {
            row.kind for row in here if row.kind == "host.buffers"
        }


def test_every_kind_of_the_file_is_in_the_table_with_its_ways() -> None:
    """`repair` is said of a kind where at least one of its settings can be repaired."""
    kinds = {row.kind for row in rows()}
    assert kinds == {f"host.{name}" for name in HostGuards.model_fields}
    repaired = {row.kind for row in rows() if "repair" in row.ways}
    assert repaired == {f"host.{name}" for name in REPAIRED}


def test_repair_owns_a_setting_and_destroy_puts_it_back(lab: HostLab) -> None:
    repair = HostGuards(**dict.fromkeys(REPAIRED, "repair"))  # pyright: ignore[reportArgumentType] - names of fields
    spec, before = lossless(lab.spec, repair), dict[str, object]()
    for name in HOSTS:
        plan = lab.plan(name, spec)
        lab.sh(plan, "echo 8 >/sys/bus/pci/devices/0000:84:00.0/sriov_numvfs")
        lab.sh(plan, "ip link set dev enp132s0 up; mlnx_qos -i enp5s0 --trust dscp >/dev/null")
        spoil(lab, plan)
        before[name] = lab.snapshot(name)
        assert (applied := lab.apply(plan)).exit_status == 0, applied.stderr
        kept = {
            (row.kind, *row.found)
            for row in rows()
            if row.host == name and not row.ours and "repair" not in row.ways
        }
        found, drift = look(lab, plan)
        assert (in_words(found), drift) == (kept, ())
        assert json.loads(lab.apply(plan).stdout)["changed"] == []
        assert (undone := lab.undo(plan)).exit_status == 0, undone.stderr
        assert json.loads(undone.stdout)["left"] == []
        assert lab.snapshot(name) == before[name]
