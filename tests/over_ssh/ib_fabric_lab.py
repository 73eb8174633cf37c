"""The InfiniBand example's switches and workers in a lab of their own, over real SSH."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import TypeAdapter

from components.acceptance.collect.probe_runs import look_at_fabric
from components.acceptance.judge.infiniband import judge_ib
from components.acceptance.probes.ib_look import IbFacts, plan_ib_limits, plan_ib_looks
from components.core.record import record
from components.fabric import device
from components.fabric.fabric_plan import plan_fabric
from components.hosts.host_plan import plan_hosts
from components.model.cluster import ClusterSpec
from components.remote.host_session import run_on_host
from components.remote.step import render_remote_command
from lab import control
from lab.hosts.lab_file import LabFile
from lab.keys import client_secrets
from lab.site import lab_file, overlay, secrets_of
from tests.fabric.ib_lab import SITE
from tests.over_ssh.host_lab import own_stack

STACK = own_stack("ib-over-ssh")
PROJECT = Path(__file__).parents[2]
FAKE_ARTEFACT = {"k3s": "0" * 64, "install.sh": "0" * 64}
POLLING_MS = 200
"""Standbys of a test ask five times a second, so that a lost master is missed within one."""
SETTLE_S = 20.0
"""A subnet manager works while others look: so long is an expected state waited for."""
POLL_S = 0.1
Rows = dict[tuple[str, str], tuple[str, str]]
Site = dict[str, Any]


@record
class FabricLab:
    """The running lab and its site."""

    root: Path
    spec: ClusterSpec

    def ask(self, **body: object) -> dict[str, object]:
        return control.request(self.root / "control.sock", body)

    def fault(self, name: str, *args: str) -> None:
        self.ask(op="fault", device=name, args=list(args))

    def fabric(self) -> dict[str, int]:
        """Processes of the fabric: `ibsim`, and the manager of each switch by its name."""
        return cast("dict[str, int]", self.ask(op="fabric")["pids"])

    def configure(self) -> list[list[str]]:
        """Apply every switch; what each apply changed."""
        secret = {"RAILYARD_SECRET_SWITCH_PASSWORD": secrets_of(STACK)["switch_password"]}
        changed: list[list[str]] = []
        for plan in plan_fabric(self.spec):
            request = {
                "endpoint": asdict(plan.endpoint),
                "os": plan.os,
                "desired": plan.desired.model_dump(mode="json"),
            }
            changed.append(json.loads(device.run_apply(json.dumps(request), secret))["changed"])
        return changed

    def run(self, host: str, script: str) -> tuple[int, str]:
        """Run a script on a host; its exit status, and what it said on both outputs."""
        plan = next(each for each in plan_hosts(self.spec, STACK) if each.endpoint.device == host)
        command = render_remote_command(script, 30)
        done = asyncio.run(
            run_on_host(plan.endpoint, client_secrets(STACK), command, deadline_s=60)
        )
        return done.exit_status, done.stdout + done.stderr

    def load_modules(self) -> None:
        """What the host stage does: `ib_umad` is a setting of its plan."""
        for host in ("gpu01", "gpu02"):
            assert self.run(host, "modprobe ib_umad\n") == (0, "")

    def judge(self, *, takeover_s: float | None = None) -> Rows:
        """(check, subject) to verdict and actual value."""
        looks = plan_ib_looks(self.spec)
        if takeover_s is not None:
            looks = tuple(replace(each, takeover_s=takeover_s) for each in looks)

        async def look() -> list[IbFacts]:
            secrets = client_secrets(STACK)
            return [*await asyncio.gather(*(look_at_fabric(each, secrets) for each in looks))]

        names = [each.endpoint.device for each in looks]
        facts = dict(zip(names, asyncio.run(look()), strict=True))
        found = judge_ib(facts, plan_ib_limits(self.spec))
        return {(row.check, row.subject): (row.verdict, row.actual) for row in found}


@contextmanager
def fabric_lab(
    folder: Path, change: Callable[[Site], None] = lambda _: None
) -> Generator[FabricLab]:
    """Play the example, with its file changed."""
    site = cast("Site", yaml.safe_load(SITE.read_text()))
    change(site)
    spec = ClusterSpec.model_validate(overlay(site, STACK, FAKE_ARTEFACT))
    whole = lab_file(spec, STACK, (PROJECT, folder / "cache", Path(sys.executable)))
    workers = tuple(host for host in whole.hosts if host.name != "mgmt01")
    root = folder / "lab"
    root.mkdir()
    file = root / "lab.json"
    played = replace(whole, root=root, hosts=workers, sm_polling_ms=POLLING_MS)
    file.write_bytes(TypeAdapter(LabFile).dump_json(played))
    control.start(file)
    try:
        yield FabricLab(root, spec)
    finally:
        control.stop(root)


def failed(rows: Rows) -> dict[tuple[str, str], str]:
    """What each row says that did not pass."""
    return {key: actual for key, (verdict, actual) in rows.items() if verdict != "passed"}


def settled(lab: FabricLab, expected: dict[tuple[str, str], str]) -> dict[tuple[str, str], str]:
    """What does not pass, as soon as that is what is expected, or at the end of the wait."""
    deadline = time.monotonic() + SETTLE_S
    while (found := failed(lab.judge())) != expected and time.monotonic() < deadline:
        continue
    return found
