"""The lab's InfiniBand fabric over real SSH: what the switches have is what the hosts see."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from components.acceptance.collect.ib_look import look_at_fabric
from components.acceptance.judge.infiniband import FABRIC, judge_ib
from components.acceptance.logs.ib_facts import IbFacts
from components.acceptance.probes.ib_limits import plan_ib_limits, plan_ib_looks
from components.fabric import device
from components.fabric.plan import plan_fabric
from components.hosts.plan import plan_hosts
from components.model.cluster import ClusterSpec
from components.remote.host_session import run_on_host
from components.remote.script import render_remote_command
from lab import control
from lab.hosts.lab_file import LabFile
from lab.keys import client_key
from lab.site import lab_file, load_document, overlay, secrets_of
from tests.fabric.ib_lab import SITE

pytestmark = pytest.mark.lab
STACK = "ib-over-ssh"
PROJECT = Path(__file__).parents[2]
GUID = "a0:88:c2:03:00:01:10:00"
FAKE_ARTEFACT = {"k3s": "0" * 64, "install.sh": "0" * 64}
Rows = dict[tuple[str, str], tuple[str, str]]


@dataclass(frozen=True, slots=True)
class FabricLab:
    """The running lab and its site."""

    root: Path
    spec: ClusterSpec

    def ask(self, **body: object) -> dict[str, object]:
        return control.request(self.root / "control.sock", body)

    def fault(self, name: str, *args: str) -> None:
        self.ask(op="fault", device=name, args=list(args))

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

    def load_modules(self) -> None:
        """What the host stage does: `ib_umad` is a setting of its plan."""
        key = client_key(STACK).private_openssh
        for plan in plan_hosts(self.spec, STACK)[1:]:
            assert plan.desired.values["module.ib_umad"] == "loaded"
            command = render_remote_command("modprobe ib_umad\n", 30)
            asyncio.run(run_on_host(plan.endpoint, key, command, deadline_s=60))

    def judge(self) -> Rows:
        """(check, subject) to verdict and actual value."""
        looks = plan_ib_looks(self.spec)

        async def look() -> list[IbFacts]:
            return [*await asyncio.gather(*(look_at_fabric(each, SECRETS) for each in looks))]

        names = [each.endpoint.device for each in looks]
        facts = dict(zip(names, asyncio.run(look()), strict=True))
        found = judge_ib(facts, plan_ib_limits(self.spec))
        return {(row.check, row.subject): (row.verdict, row.actual) for row in found}


SECRETS = {"ssh_private_key": client_key(STACK).private_openssh}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[FabricLab]:
    spec = ClusterSpec.model_validate(overlay(load_document(SITE), STACK, FAKE_ARTEFACT))
    whole = lab_file(spec, STACK, (PROJECT, tmp_path / "cache", Path(sys.executable)))
    workers = tuple(host for host in whole.hosts if host.name != "mgmt01")
    root = tmp_path / "lab"
    root.mkdir()
    file = root / "lab.json"
    file.write_bytes(TypeAdapter(LabFile).dump_json(replace(whole, root=root, hosts=workers)))
    control.start(file)
    try:
        yield FabricLab(root, spec)
    finally:
        control.stop(root)


def failed(rows: Rows) -> dict[tuple[str, str], str]:
    return {key: actual for key, (verdict, actual) in rows.items() if verdict != "passed"}


def test_hosts_see_what_the_switches_have(lab: FabricLab) -> None:
    before = lab.judge()
    assert before["ib ports", "gpu01"][0] == "failed"
    assert "mlx5_0 2: INIT" in before["ib ports", "gpu01"][1]
    assert "Failed to open '(null)' port '0'" in before["subnet manager", "gpu01"][1]
    lab.configure()
    lab.load_modules()
    rows = lab.judge()
    assert failed(rows) == {}
    assert rows["one master", FABRIC][1].count("master") == 1
    assert rows["partition storage", "gpu02"] == ("passed", "all have it")
    assert ("ibdiagnet Partition Keys", FABRIC) in rows
    assert lab.configure() == [[], []]

    # A partition that lost a port by hand, on the switch that is master.
    lab.fault("ib-leaf-01", "cli", "no", "ib", "partition", "training", "member", GUID)
    assert failed(lab.judge()) == {("partition training", "gpu01"): "mlx5_0 lacks it"}
    # The standby takes over, with partitions of its own: nothing is missing, but not as planned.
    lab.fault("ib-leaf-01", "sm", "off")
    lost = failed(lab.judge())
    assert {*lost} == {("one master", FABRIC)}
    assert "priority 13, master" in lost["one master", FABRIC]
    # Nobody is left.
    lab.fault("ib-leaf-02", "sm", "off")
    lost = failed(lab.judge())
    assert lost["ib ports", "gpu02"].startswith("0 of 8 active; mlx5_0 2: INIT")
    assert "sminfo: iberror: failed: query" in lost["subnet manager", "gpu01"]
    assert ("one master", FABRIC) in lost
    assert lost["ibdiagnet Subnet Manager", FABRIC] == "1 errors"
    # Both come back; a cable does not.
    lab.configure()
    lab.fault("ib-leaf-02", "link-down", "1/1/1", "on")
    lab.fault("gpu02", "link-down", "mlx5_0", "on")
    pulled = {"gpu01": "mlx5_4", "gpu02": "mlx5_0"}
    expected = {("ib ports", host): f"7 of 8 active; {hca} 1: DOWN" for host, hca in pulled.items()}
    for name in ("Default", "training", "storage"):
        expected |= {(f"partition {name}", host): f"{hca} lacks it" for host, hca in pulled.items()}
    assert failed(lab.judge()) == expected
    answer = lab.ask(op="unmodelled")["unmodelled"]
    assert answer == {"gpu01": [], "gpu02": [], "ib-leaf-01": [], "ib-leaf-02": []}
