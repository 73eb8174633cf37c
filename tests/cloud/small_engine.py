"""The part of the engine that cloud steps meet: order, triggers, previous output, old inputs.

It keeps a step only when its command succeeded, deletes before it replaces, deletes with the old
inputs in the reverse order, and goes on past a failure only with what does not need it.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from components.cli.cloud import run_verb
from components.cloud import instances
from components.cloud.cloud_plan import CloudCall, CloudPlan, list_calls, plan_cloud
from components.cloud.crusoe_api import Patience
from components.cloud.observe import cloud_drift, observe_cloud, with_generations
from components.cloud.request import PREVIOUS_OUTPUT
from components.core.errors import RailyardError
from components.core.plain_text import fill, instances_in, parse_facts
from components.drift.applied import Applied, AppliedStep
from components.model.cluster import ClusterSpec
from components.model.worker_kinds import with_instances
from components.reading.yaml_text import parse_yaml
from lab.cloud.crusoe.model import CrusoeConfig
from lab.cloud.crusoe.server import CrusoeCloud

ROOT: Final = Path(__file__).parents[2]
SITE: Final = ROOT / "examples" / "crusoe-k3s" / "site.yaml"
SECRET: Final = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"
SECRETS: Final = {"crusoe_access_key": "railyard-lab", "crusoe_secret_key": SECRET}
PROJECT: Final = "11111111-2222-3333-4444-555555555555"
QUICK: Final = Patience(
    request_s=5.0, poll_s=0.001, reads=3, settle_s=0.02, operation_s=5.0, boot_s=5.0
)
HOST_KEY: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAjcWkKbzsgcpbZ0Gp5aPnzxdCsz2R4QMQ5HnPtrwJXr"


def cloud_config(port: int = 0) -> CrusoeConfig:
    return CrusoeConfig(
        address="127.205.0.1",
        port=port,
        project=PROJECT,
        location="us-east1-a",
        access_key=SECRETS["crusoe_access_key"],
        secret_key=SECRET,
        public_ips=tuple(f"127.205.0.{number}" for number in range(10, 40)),
        private_ips=tuple(f"127.205.1.{number}" for number in range(10, 40)),
    )


@contextmanager
def running_cloud(state: Path, config: CrusoeConfig | None = None) -> Generator[CrusoeCloud]:
    cloud = CrusoeCloud(config or cloud_config(), state)
    cloud.start()
    try:
        yield cloud
    finally:
        cloud.stop()


def site(endpoint: str, *edits: tuple[str, str]) -> ClusterSpec:
    text = SITE.read_text(encoding="utf-8")
    for old, new in (("kind: crusoe\n", f"kind: crusoe\n    endpoint: {endpoint}\n"), *edits):
        assert old in text
        text = text.replace(old, new)
    return with_instances(ClusterSpec.model_validate(parse_yaml(text, "site.yaml").value))


def plan_of(spec: ClusterSpec) -> CloudPlan:
    plan = plan_cloud(spec)
    assert plan is not None
    return plan


def answer_ssh(monkeypatch: pytest.MonkeyPatch, key: str = HOST_KEY) -> None:
    """Every instance presents this host key at once."""

    def fetch(*_: object) -> str:
        return key

    monkeypatch.setattr(instances, "_fetch_key", fetch)


@dataclass
class Kept:
    """One step in the state."""

    stdin: str
    stdout: str
    triggers: tuple[str, ...]
    call: CloudCall


@dataclass
class Stack:
    """The state of one stack."""

    steps: dict[str, Kept] = field(default_factory=dict[str, Kept])
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    ran: list[str] = field(default_factory=list[str])
    errors: list[RailyardError] = field(default_factory=list[RailyardError])

    @property
    def applied(self) -> Applied:
        return Applied(
            {
                name: AppliedStep(stdin=kept.stdin, create="", stdout=kept.stdout)
                for name, kept in self.steps.items()
            }
        )

    def up(self, plan: CloudPlan) -> bool:
        """Observe, then run what differs; True when nothing failed."""
        self.ran, self.errors = [], []
        facts = observe_cloud(plan, self.applied, SECRETS, QUICK)
        drifts = cloud_drift(plan, self.applied, facts)
        self.notes = {each.step: each.note for each in drifts if each.note}
        plan = with_generations(plan, self.applied, facts)
        calls = list_calls(plan, self.notes)
        for call in calls:
            self._run(call)
        names = {call.step for call in calls}
        for name in [name for name in reversed(self.steps) if name not in names]:
            if not self.errors:
                self._delete(name)
        return not self.errors

    def destroy(self) -> bool:
        self.errors = []
        while self.steps and not self.errors:
            needed = {name for kept in self.steps.values() for name in kept.call.needs}
            for name in [name for name in self.steps if name not in needed]:
                self._delete(name)
        return not self.errors

    def _run(self, call: CloudCall) -> None:
        if not {*call.needs} <= self.steps.keys():
            return  # behind a failed step: skipped
        stdin, triggers = self.filled(call.stdin), tuple(map(self.filled, call.triggers))
        kept = self.steps.get(call.step)
        if kept and kept.triggers != triggers:
            if not self._delete(call.step):
                return
            kept = None
        if kept and kept.stdin == stdin:
            return
        try:
            stdout = run_verb(call.verb, stdin, self.environ(kept), QUICK)
        except RailyardError as error:
            self.errors.append(error)
            return
        self.ran.append(call.step)
        self.steps[call.step] = Kept(stdin, stdout, triggers, call)

    def filled(self, text: str) -> str:
        names = instances_in(text)
        return fill(text, parse_facts(names, [self.steps[name].stdout for name in names]))

    def environ(self, kept: Kept | None) -> dict[str, str]:
        environ = {f"RAILYARD_SECRET_{name.upper()}": value for name, value in SECRETS.items()}
        return environ | ({PREVIOUS_OUTPUT: kept.stdout} if kept else {})

    def keep(self, step: str, stdout: str) -> None:
        """As if a step had run and printed this."""
        self.steps[step] = Kept("", stdout, (), CloudCall(step, "await", ""))

    def _delete(self, name: str) -> bool:
        kept = self.steps[name]
        if kept.call.delete:
            try:
                run_verb(kept.call.delete, kept.stdin, self.environ(kept), QUICK)
            except RailyardError as error:
                self.errors.append(error)
                return False
        del self.steps[name]
        return True


def printed(stack: Stack, step: str) -> Mapping[str, str]:
    return json.loads(stack.steps[step].stdout)
