"""A site of two units on the real engine: one stack, split, updated, repaired, and joined again.

Its switches and hosts are emulated and reached over SSH. The program leaves Kubernetes out.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

import pytest
import yaml
from pydantic import TypeAdapter

from bench.sites import Form, site_text
from components.model.cluster import ClusterSpec
from components.update.secrets import secret_names
from lab import control
from lab.hosts.lab_file import LabFile
from lab.site import lab_file, overlay, secrets_of
from tests.engine.runner import EngineRunner

pytestmark = pytest.mark.engine
ROOT: Final = Path(__file__).parents[2]
LAB: Final = "two-units"
FORM: Final = Form(1, "ConnectX-5", 100, "SN4600C", hosts_a_leaf=1, links_a_spine=63, gpus=0)
SUMS: Final = {"k3s": "1" * 64, "install.sh": "2" * 64}
LEAVES: Final = {"a": "leaf-0-0001", "b": "leaf-0-0002"}
RAILYARD: Final = "from components.cli.main import main; main()"
PIECES: Final = ("dev-spines", "dev-a", "dev-b", "dev-cluster")
PROGRAM: Final = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import components.plan.make as make
make.plan_kubernetes = lambda spec, stack: None
from stacks import run
run()
"""


@dataclass
class Site:
    """The running lab, and a project with its site file."""

    engine: EngineRunner
    root: Path
    folder: Path
    document: dict[str, Any]

    def write(self, **changes: object) -> None:
        self.document |= changes
        (self.folder / "site.yaml").write_text(yaml.safe_dump(self.document, sort_keys=False))

    def railyard(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", RAILYARD, *arguments],
            cwd=self.folder,
            env={**self.engine.environment(), "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
            timeout=1200,
        )

    def ask(self, **body: object) -> dict[str, Any]:
        return cast("dict[str, Any]", control.request(self.root / "control.sock", body))

    def devices(self) -> object:
        return self.ask(op="snapshot")["snapshot"]

    def stacks(self) -> Mapping[str, int]:
        done = self.engine.call(self.folder, "stack", "ls", "--json")
        return {each["name"]: each.get("resourceCount") or 0 for each in json.loads(done.stdout)}

    def records(self, stack: str) -> dict[str, Any]:
        state = self.engine.export(self.folder, stack)
        found = cast("list[dict[str, Any]]", state["deployment"].get("resources") or [])
        return {each["urn"].rpartition("::")[2]: each for each in found if each.get("custom")}


@pytest.fixture
def site(engine: EngineRunner, tmp_path: Path) -> Iterator[Site]:
    document = overlay(yaml.safe_load(site_text(len(LEAVES), FORM)), LAB, SUMS)
    spec = ClusterSpec.model_validate(document)
    root = tmp_path / "lab"
    root.mkdir()
    lab = lab_file(spec, LAB, (ROOT, root / "cache", Path(sys.executable)))
    (root / "lab.json").write_bytes(TypeAdapter(LabFile).dump_json(replace(lab, root=root)))
    folder = engine.project(LAB, PROGRAM)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    (folder / "lab").symlink_to(ROOT / "lab")  # its charts are paths of the project
    engine = replace(engine, deadline_s=600)
    made = Site(engine, root, folder, cast("dict[str, Any]", document))
    made.write()
    secrets = {f"railyard:{name}": secrets_of(LAB)[name] for name in secret_names(spec)}
    values = {"railyard:site": "site.yaml", "railyard:lab": "true"}
    engine.configure(folder, "dev", values, secrets)
    control.start(root / "lab.json")
    try:
        yield made
    finally:
        control.stop(root)


@pytest.mark.timeout(2400)
def test_a_site_is_split_updated_and_joined(site: Site) -> None:
    units = {name: {"leaves": [leaf]} for name, leaf in LEAVES.items()}
    for changes in ({}, {"stacks": {"units": units}}):
        site.write(**changes)
        done = site.engine.up(site.folder, "dev")
        assert done.rc == 0, done.stderr + done.errors
    before, whole = site.devices(), site.records("dev")
    _split(site, whole)
    assert site.devices() == before
    _lose_the_piece(site)

    site.write(rdma={**site.document["rdma"], "port_mtu_bytes": 9200})
    _fail_in_unit_b(site)
    _continue(site)

    after = site.devices()
    joined = site.railyard("site", "join", "dev")
    assert joined.returncode == 0, joined.stdout + joined.stderr
    assert [*site.stacks()] == ["dev"]
    assert site.records("dev").keys() == whole.keys()
    preview = site.engine.preview(site.folder, "dev")
    assert (preview.rc, preview.changes) == (0, {}), preview.stderr + preview.errors
    assert site.devices() == after


def _split(site: Site, whole: Mapping[str, Any]) -> None:
    split = site.railyard("site", "split", "dev")
    assert split.returncode == 0, split.stdout + split.stderr
    assert {name for name, count in site.stacks().items() if count} == {*PIECES}
    parts = {stack: site.records(stack) for stack in PIECES}
    for name, record in whole.items():
        if not name.endswith("-ready") and "providers" not in record["type"]:
            (part,) = [found for found in parts.values() if name in found]
            assert part[name]["id"] == record["id"], "it is the same record"


def _lose_the_piece(site: Site) -> None:
    """A stack that forgot its piece would set up all devices, and record them a second time."""
    for stack, key in (("dev-a", "rm"), ("dev-a", "set")):
        words = ("config", key, "railyard:piece", *(("a",) if key == "set" else ()))
        assert site.engine.call(site.folder, *words, "--stack", stack).returncode == 0
        preview = site.engine.preview(site.folder, stack)
        refused = "Pulumi.dev-a.yaml lacks `railyard:piece`" in preview.errors + preview.stderr
        assert (preview.rc != 0, refused) == ((key == "rm"),) * 2, preview.errors
    emptied = site.railyard("status", "dev", "--no-look")
    assert emptied.returncode == 2
    assert "the site file splits the site into dev-spines, dev-a" in emptied.stderr


def _fail_in_unit_b(site: Site) -> None:
    """A switch of one unit refuses the change: no later stack runs, and the cluster sees it."""
    site.ask(op="fault", device=LEAVES["b"], args=["read-only", "on"])
    failed = site.railyard("site", "up", "dev")
    assert failed.returncode == 1, failed.stdout + failed.stderr
    table = dict(re.findall(r"^(dev-\w+)  +(.+)$", failed.stdout, re.MULTILINE))
    assert table["dev-a"].startswith("updated: ")
    assert table["dev-b"] == "FAILED, see above"
    assert table["dev-cluster"] == "not run"
    cluster = site.engine.up(site.folder, "dev-cluster")
    assert cluster.rc != 0
    assert "the stack dev-b has the plan" in cluster.errors + cluster.stderr
    assert "dev-a" not in cluster.errors


def _continue(site: Site) -> None:
    site.ask(op="fault", device=LEAVES["b"], args=["read-only", "off"])
    done = site.railyard("site", "up", "dev")
    assert done.returncode == 0, done.stdout + done.stderr
    (first,) = [line for line in done.stdout.splitlines() if line.startswith("dev-a  ")]
    assert "update" not in first.replace("updated:", ""), "it had nothing to do"
    digests = {site.engine.outputs(site.folder, stack)["plan_digest"] for stack in PIECES}
    assert len(digests) == 1
