"""A program of a user's own, with one component, has the refusals of the whole program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pulumi
import pytest
import yaml

from components.artefacts.lock import lock_path
from components.checks.site import load_checked_site
from components.fabric import Fabric
from components.testing import Graph, Run, record_program, record_refusal
from components.update.pieces import OF_PIECES, SINCE
from stacks import guarded
from tests.golden.site import EXAMPLES
from tests.graph.locked import put_lock

SECRETS = {"switch_password": "value-of-switch_password"}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site with its lock, under `disruption: deny`."""
    path = tmp_path / "site.yaml"
    document = yaml.safe_load((EXAMPLES / "dgx-roce" / "site.yaml").read_text())
    document["disruption"] = {"ports": "deny", "reboots": "deny"}
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    put_lock(path, load_checked_site(path).spec_or_raise())
    monkeypatch.chdir(tmp_path)
    return path


def switches() -> None:
    ready = guarded(Path("site.yaml"), parts=["switches"])
    fabric = Fabric("fabric", ready.plan.switches, ready.remote)
    pulumi.export("ready", fabric.ready.gate.urn)
    for name, value in ready.outputs_after(fabric.ready.gate.urn).items():
        pulumi.export(name, value)


def everything() -> None:
    guarded(Path("site.yaml"))


def first_run() -> Run:
    return Run(
        config={**SECRETS, "observe": "never"},
        secrets=tuple(SECRETS),
        stdout={"leaf-01-baseline": '{"ports": {}}'},
    )


def later(before: Graph, run: Run | None = None) -> Run:
    return replace(run or first_run(), state=before.state())


def edit(site: Path, old: str, new: str) -> None:
    text = site.read_text()
    assert old in text
    site.write_text(text.replace(old, new))
    put_lock(site, load_checked_site(site).spec_or_raise(), fetched=False)


def test_it_asks_for_the_secrets_and_devices_of_its_part_alone(site: Path) -> None:
    graph = record_program(first_run(), switches)
    assert {each.name for each in graph.resources} == {
        *("fabric", "fabric-ready", "leaf-01-baseline", "leaf-01-apply")
    }
    assert site.exists()


def test_a_site_that_is_not_pinned_is_refused(site: Path) -> None:
    lock_path(site).unlink()
    refused, graph = record_refusal(first_run(), everything)
    assert "unpinned: " in refused
    assert "Nothing was touched." in refused
    assert graph.resources == []


def test_switches_need_no_pinned_artefact(site: Path) -> None:
    lock_path(site).unlink()
    assert record_program(first_run(), switches).resources


def test_an_interruption_that_the_file_denies_is_refused(site: Path) -> None:
    before = record_program(first_run(), switches)
    edit(site, "port_mtu_bytes: 9216", "port_mtu_bytes: 9100")
    refused, graph = record_refusal(later(before), switches)
    assert "leaf-01 would interrupt traffic" in refused
    assert graph.resources == []


def test_a_wrong_file_is_refused_with_its_report(site: Path) -> None:
    site.write_text(site.read_text().replace("name: gpu01", "name: gpu_01"))
    refused, graph = record_refusal(first_run(), switches)
    assert "gpu_01" in refused
    assert "site.yaml:" in refused
    assert graph.resources == []


def test_a_piece_exports_its_outputs(site: Path) -> None:
    with site.open("a") as file:
        file.write("stacks: {units: {a: {leaves: [leaf-01]}}}\n")
    run, secrets = first_run(), {"ssh_private_key": "value-of-key"}
    config = {**run.config, **secrets, "piece": "a"}
    unit = replace(run, stack="dev-a", config=config, secrets=(*run.secrets, *secrets))
    graph = record_program(unit, switches)
    assert {*OF_PIECES} <= {*graph.outputs}
    assert graph.outputs[SINCE] == record_program(later(graph, unit), switches).outputs[SINCE]


def test_the_emptied_stack_of_a_split_site_sets_up_nothing_without_the_split(site: Path) -> None:
    before = record_program(first_run(), switches)
    site.with_name("Pulumi.dev-a.yaml").write_text("config:\n  railyard:piece: a\n")
    emptied = replace(first_run(), states={"dev-a": before.state()})
    refused, graph = record_refusal(emptied, switches)
    assert "leaf-01 is new in this stack, and the state of stack dev-a has it" in refused
    assert "put `stacks` back into the file" in refused
    assert "railyard site join dev" in refused
    assert graph.resources == []


@pytest.mark.parametrize("text", ["config: {}\n", "config:\n  railyard:piece: b-a\n"])
def test_a_stack_with_a_longer_name_may_be_another_site(site: Path, text: str) -> None:
    before = record_program(first_run(), switches)
    site.with_name("Pulumi.dev-a.yaml").write_text(text)
    assert record_program(replace(first_run(), states={"dev-a": before.state()}), switches)


def test_a_stack_that_lost_its_piece_sets_up_no_switch_of_another_stack(site: Path) -> None:
    before = record_program(first_run(), switches)
    with site.open("a") as file:
        file.write("stacks: {units: {a: {leaves: [leaf-01]}}}\n")
    lost = replace(first_run(), stack="dev-cluster", states={"dev-a": before.state()})
    refused, graph = record_refusal(lost, switches)
    assert "leaf-01 is new in this stack, and the state of stack dev-a has it" in refused
    assert "config set railyard:piece UNIT --stack dev-cluster" in refused
    assert graph.resources == []
