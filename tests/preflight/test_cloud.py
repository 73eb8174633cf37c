"""What a cloud lacks, asked of the emulated API: read-only, and before anything is made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from components.core.problem import Finding
from components.drift.applied import Applied
from components.plan.make import make_plan
from components.preflight.run import run_preflight
from lab.cloud.crusoe.server import CrusoeCloud
from tests.cloud.small_engine import (
    SECRETS,
    Stack,
    answer_ssh,
    cloud_config,
    plan_of,
    running_cloud,
    site,
)
from tests.preflight.nowhere import causes, files_lock
from tests.preflight.played import PLAYED


def look(cloud: CrusoeCloud, *edits: tuple[str, str], **secrets: str) -> dict[str, Finding]:
    spec = site(cloud.endpoint, *edits)
    spec = spec.model_copy(update={"operators": type(spec.operators)()})
    known = {**SECRETS, **secrets}
    plan = make_plan(spec, "cloud")
    found = run_preflight(spec, plan, known, Applied(), Path("/nowhere"), files_lock(spec))
    return causes(found.findings, "the cloud")


FEW = tuple(replace(each, quantity=1) for each in cloud_config().types)
LACKS: dict[str, tuple[dict[str, object], tuple[tuple[str, str], ...], str]] = {
    "cloud-quota": (
        {"quotas": (("QUOTA_C1A", 40), ("QUOTA_H100", 8))},
        (),
        "the project may take 8 more of quota QUOTA_H100",
    ),
    "cloud-capacity": ({"types": FEW}, (), "us-east1-a has 1 of h100-80gb-sxm-ib.8x to give"),
    "cloud-infiniband": ({"ib_slices": 8}, (), "the most is 8"),
    "cloud-location": ({}, (("us-east1-a", "eu-iceland9-z"),), "eu-iceland9-z does not"),
    "cloud-type": ({"types": cloud_config().types[:2]}, (), "instance type h100-80gb"),
    "cloud-image": ({"images": (("ubuntu22.04", "2026-08-01"),)}, (), "sxm-docker"),
}
"""Cause to what the cloud has, what the file says otherwise, and a part of the value shown."""


@pytest.mark.parametrize("cause", LACKS)
def test_what_the_cloud_has_not_is_named_before_anything_is_made(
    cause: str, tmp_path: Path
) -> None:
    has, edits, shown = LACKS[cause]
    with running_cloud(tmp_path / "cloud.json", replace(cloud_config(), **has)) as cloud:
        before = {**cloud.snapshot(), "requests": 0}
        found = look(cloud, *edits)
        assert {**cloud.snapshot(), "requests": 0} == before
    assert shown in found[cause].actual
    assert found[cause].severity == "error"
    assert found[cause].fix


def test_a_cloud_that_has_all_of_it_lacks_nothing(tmp_path: Path) -> None:
    with running_cloud(tmp_path / "cloud.json") as cloud:
        assert look(cloud) == {}


def test_what_another_stack_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_ssh(monkeypatch)
    with running_cloud(tmp_path / "cloud.json") as cloud:
        stack = Stack()
        assert stack.up(plan_of(site(cloud.endpoint))), stack.errors
        found = look(cloud)
    assert found.keys() == {"cloud-name"}
    assert "is there already, and this stack did not make it" in found["cloud-name"].actual


def test_wrong_keys_and_an_api_that_is_down_are_told_apart(tmp_path: Path) -> None:
    with running_cloud(tmp_path / "cloud.json") as cloud:
        (refused,) = look(cloud, crusoe_access_key="of-another").values()
        cloud.fault(["500", "9"])
        (down,) = look(cloud).values()
    assert (refused.rule, refused.severity) == ("cloud-api", "error")
    assert (down.rule, down.severity) == ("cloud-api", "unreachable")


def test_these_are_the_causes_that_are_played_here() -> None:
    assert {*LACKS, "cloud-api", "cloud-name"} == PLAYED["tests/preflight/test_cloud.py"]
