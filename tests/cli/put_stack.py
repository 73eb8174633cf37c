"""A project with a stack: a stand-in for the Pulumi CLI on PATH, and what its devices show."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import pytest
import yaml

from components.acceptance.evidence import Evidence, dump_evidence
from components.cli import status as cli_status
from components.drift.applied import Applied
from components.drift.device_drift import Unreachable
from components.kubernetes.live.look import ClusterLook
from components.plan.make import ClusterPlan, make_plan
from components.update.seen import Facts, Seen
from tests.golden.site import EXAMPLES, load_example
from tests.lab_physics.site import Site, take_evidence

PLAN = make_plan(load_example("dgx-roce"), "dev")


_Value = TypeVar("_Value")


def gives(value: _Value) -> Callable[..., _Value]:
    """A function that ignores its arguments."""

    def call(*_: object) -> _Value:
        return value

    return call


def put_pulumi(folder: Path, script: str) -> None:
    program = folder / "bin" / "pulumi"
    program.write_text(f'#!/bin/sh\necho "$* accept=$RAILYARD_ACCEPT" >> calls\n{script}\n')
    program.chmod(0o755)


def put_evidence(folder: Path, evidence: Evidence, place: str) -> None:
    path = folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dump_evidence(evidence))


def evidence(run: int) -> Evidence:
    return take_evidence(Site()).model_copy(update={"run": run})


def put_stack(folder: Path) -> None:
    """A stack whose devices were all applied as planned."""
    site = (EXAMPLES / "dgx-roce" / "site.yaml").read_text()
    cluster = json.dumps(yaml.safe_load(site))
    config = {"railyard:cluster": {"value": cluster}, "railyard:switch_password": {"value": "pw"}}
    switch = PLAN.switches[0]
    steps = {
        switch.step: json.dumps({"desired": switch.desired.model_dump(mode="json"), "repair": ""}),
        **{host.converge.name: host.converge.desired for host in PLAN.hosts},
    }
    resources = [
        {
            "urn": f"urn:pulumi:dev::railyard::x$command:x:Command::{name}",
            "outputs": {"stdin": text},
        }
        for name, text in steps.items()
    ]
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "export.json").write_text(json.dumps({"deployment": {"resources": resources}}))
    put_pulumi(folder, 'case "$1" in config) cat config.json;; stack) cat export.json;; esac')


class SeeFacts:
    """Stands in for the one call that talks to devices."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch = patch
        self.cluster: ClusterLook | Unreachable | None = None

    def __call__(self, **changed: Facts) -> None:
        facts: dict[str, Facts] = {switch.name: switch.desired for switch in PLAN.switches}
        facts |= {host.name: host.desired for host in PLAN.hosts}
        facts |= {name.replace("_", "-"): value for name, value in changed.items()}

        def observed(plan: ClusterPlan, secrets: Mapping[str, str], applied: Applied) -> Seen:
            del applied
            assert plan.stack == "dev"
            assert secrets["switch_password"] == "pw"
            return Seen(facts, cluster=self.cluster)

        self.patch.setattr(cli_status, "observe_site", observed)
