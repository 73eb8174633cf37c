"""`Site`, the component for a user's own program, under the recording engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pulumi
import pytest

from components.checks.site import load_checked_site
from components.testing import Graph, Run, is_secret, record_program, record_refusal
from stacks import site as site_module
from stacks.site import Site, SiteArgs
from tests.golden.site import EXAMPLES
from tests.graph.locked import put_lock

TOKENS = {"k3s_token": "value-of-token", "k3s_agent_token": "value-of-agents"}
SECRETS = {"switch_password": "value-of-switch", "ssh_private_key": "value-of-key"}
RUN = Run(
    config={"observe": "never", **TOKENS},  # these are in the stack's configuration
    secrets=tuple(TOKENS),
    stdout={"leaf-01-baseline": '{"ports": {}}', "acceptance-gate": "PASSED"},
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program's folder with a site and its lock; the engine finds `railyard`."""
    path = tmp_path / "site.yaml"
    path.write_text((EXAMPLES / "dgx-roce" / "site.yaml").read_text())
    put_lock(path, load_checked_site(path).spec_or_raise())
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "railyard").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(site_module, "_SITES", {})
    return tmp_path


def program(
    args: SiteArgs, secrets: Mapping[str, pulumi.Input[str]] = SECRETS
) -> Callable[[], None]:
    def run() -> None:
        made = Site("train", {**args, "secrets": secrets})
        for name in ("cluster", "verdict", "kubeconfig", "endpoints"):
            pulumi.export(name, getattr(made, name))
        beside = pulumi.Stash("beside", input="own")
        pulumi.export("beside", beside.output)

    return run


def ancestors(graph: Graph, name: str) -> list[str]:
    found = graph.named(name)
    by_name = {each.name: each for each in graph.resources}
    names: list[str] = []
    while found.parent in by_name:
        found = by_name[found.parent]
        names.append(found.name)
    return names


def test_every_stage_is_below_the_site_and_the_rest_is_beside_it() -> None:
    graph = record_program(RUN, program({"site": "site.yaml"}))
    assert graph.named("train").type == "railyard:index:Site"
    assert ancestors(graph, "leaf-01-apply")[:2] == ["fabric", "train"]
    assert ancestors(graph, "acceptance-gate")[:2] == ["acceptance", "train"]
    assert "train" not in ancestors(graph, "beside")
    assert all("train" in ancestors(graph, each.name) for each in graph.of_type("command:"))
    environment = graph.named("leaf-01-apply").plain("environment")
    assert isinstance(environment, dict)
    assert is_secret(environment["RAILYARD_SECRET_SWITCH_PASSWORD"])


def test_the_outputs_are_those_of_the_site() -> None:
    graph = record_program(RUN, program({"site": "site.yaml"}))
    assert graph.outputs["cluster"] == "dgx-roce"
    assert graph.outputs["verdict"] == "PASSED"
    endpoints = graph.outputs["endpoints"]
    assert isinstance(endpoints, dict)
    assert endpoints["leaf-01"] == "192.168.1.5:22"
    assert endpoints["gpu02"] == "192.168.2.12:22"
    assert str(endpoints["kubernetes"]).startswith("https://192.168.1.10:")


def test_a_text_and_its_lock_make_the_same_resources(folder: Path) -> None:
    whole = record_program(RUN, program({"site": "site.yaml"}))
    text = (folder / "site.yaml").read_text()
    lock = folder / "site.lock.yaml"
    again = record_program(RUN, program({"site": text, "lock": lock.read_text()}))
    assert [each.name for each in again.resources] == [each.name for each in whole.resources]
    assert again.named("leaf-01-apply").inputs == whole.named("leaf-01-apply").inputs
    assert again.named("train").plain("locked") is True


def test_one_part_has_no_other_device_and_an_empty_verdict() -> None:
    run = program({"site": "site.yaml", "parts": ["switches"]}, {"switch_password": "made-up"})
    graph = record_program(RUN, run)
    assert {each.name for each in graph.of_type("command:")} == {
        "leaf-01-baseline",
        "leaf-01-apply",
    }
    assert graph.outputs["verdict"] == ""


def test_a_secret_of_another_resource_is_taken_as_it_comes() -> None:
    def run(*, preview: bool) -> Graph:
        def program() -> None:
            made = pulumi.Stash("made", input="value-of-switch")
            secrets = pulumi.Output.all(switch_password=made.output, ssh_private_key="value-of-key")
            Site("train", {"site": "site.yaml", "secrets": secrets})

        config = RUN.config if not preview else {**RUN.config, "observe": "always"}
        return record_program(replace(RUN, preview=preview, config=config), program)

    graph = run(preview=False)
    assert "made" in graph.named("leaf-01-apply").dependencies
    seen = run(preview=True)
    assert "made" in seen.named("leaf-01-apply").dependencies
    assert any("this preview reads no device" in each for each in seen.messages)


def test_a_secret_that_the_program_does_not_mark_is_named_for_policies() -> None:
    def run() -> None:
        marked = pulumi.Output.secret("value-of-switch")
        Site("train", {"site": "site.yaml", "secrets": {**SECRETS, "switch_password": marked}})

    assert record_program(RUN, run).named("train").plain("plainSecrets") == ["ssh_private_key"]


@pytest.mark.parametrize(
    ("args", "secrets", "parts_of_the_report"),
    [
        ({"site": "sit.yaml"}, SECRETS, ["sit.yaml: file not found"]),
        ({"site": "name: a\n", "lock": "- a\n- b\n"}, SECRETS, ["lock:1"]),
        ({"site": "site.yaml", "parts": ["switch"]}, SECRETS, ["has switch", "switches, hosts"]),
        (
            {"site": "site.yaml", "lock": "artefacts: {}\n"},
            SECRETS,
            ["`lock` of the Site belongs to a text", "site.yaml is a file", "remove `lock`"],
        ),
        ({"site": "site.yaml", "parts": []}, SECRETS, ["has nothing", "remove `parts`"]),
        (
            {"site": "site.yaml"},
            {**SECRETS, "switch_password": ""},
            ["these `secrets` of the Site are empty: switch_password.", "give their values"],
        ),
        (
            {"site": "site.yaml"},
            {**SECRETS, "switch_password": None},
            ["these `secrets` of the Site are empty: switch_password.", "give their values"],
        ),
        (
            {"site": "site.yaml"},
            {**SECRETS, "switch_password": 7},
            ["these `secrets` of the Site are no text: switch_password.", "quotes"],
        ),
        ({"site": 5}, SECRETS, ["`site` of the Site is an int", "a path or the text of a site"]),
        ({"site": "name: a\n", "lock": {}}, SECRETS, ["`lock` of the Site is a dict", "text"]),
        ({"site": "site.yaml", "parts": "hosts"}, SECRETS, ["`parts` of the Site is a str"]),
        (
            {"site": "site.yaml"},
            {"switch_password": "x"},
            ["missing: ssh_private_key.", "config set --secret railyard:ssh_private_key"],
        ),
        (
            {"site": "site.yaml"},
            {"ssh_private_key": "x", "swich_password": "x"},
            ["of the Site: swich_password", "k3s_token, ssh_private_key, switch_password"],
        ),
    ],
)
def test_wrong_arguments_are_refused_with_a_fix(
    args: SiteArgs, secrets: Mapping[str, str], parts_of_the_report: list[str]
) -> None:
    refused, graph = record_refusal(RUN, program(args, secrets))
    for part in parts_of_the_report:
        assert part in refused
    assert graph.of_type("command:") == []


def test_a_wrong_text_is_refused_with_its_lines(folder: Path) -> None:
    text = (folder / "site.yaml").read_text().replace("name: gpu01", "name: gpu_01")
    refused, graph = record_refusal(RUN, program({"site": text}))
    assert "site:" in refused
    assert "gpu_01" in refused
    assert "fix" in refused
    assert graph.of_type("command:") == []


def test_a_text_without_a_lock_is_refused(folder: Path) -> None:
    refused, _ = record_refusal(RUN, program({"site": (folder / "site.yaml").read_text()}))
    assert "pinned" in refused


def test_a_second_site_of_a_stack_is_refused() -> None:
    def run() -> None:
        program({"site": "site.yaml"})()
        Site("other", {"site": "site.yaml", "secrets": SECRETS})

    refused, _ = record_refusal(RUN, run)
    assert "the stack has the Site `train` already" in refused


def test_a_stack_that_lost_its_piece_sets_up_no_device_of_another_stack(folder: Path) -> None:
    before = record_program(RUN, program({"site": "site.yaml"}))
    with (folder / "site.yaml").open("a") as file:
        file.write("stacks: {units: {a: {leaves: [leaf-01]}}}\n")
    mine = {urn: each for urn, each in before.state().items() if "leaf-01" not in urn}
    lost = replace(RUN, stack="dev-cluster", state=mine, states={"dev-a": before.state()})
    refused, graph = record_refusal(lost, program({"site": "site.yaml"}))
    assert "leaf-01 is new in this stack, and the state of stack dev-a has it" in refused
    assert "config set railyard:piece UNIT --stack dev-cluster" in refused
    assert graph.of_type("command:") == []


def of_piece(folder: Path, piece: str) -> Run:
    """A `Site` in the stack of a piece: all devices but `mgmt01` are of the unit."""
    text = (folder / "site.yaml").read_text()
    if "stacks:" not in text:
        (folder / "site.yaml").write_text(
            f"{text}stacks: {{units: {{a: {{leaves: [leaf-01]}}}}}}\n"
        )
    config = {**RUN.config, "piece": piece}
    return replace(RUN, stack=f"dev-{piece}", config=config)


def test_the_cluster_of_a_split_site_knows_the_site_of_another_stack(folder: Path) -> None:
    run = program({"site": "site.yaml"})
    unit = record_program(of_piece(folder, "a"), run).state()
    cluster = of_piece(folder, "cluster")
    refused, _ = record_refusal(replace(cluster, states={"dev-a": {}}), run)
    assert "the stack dev-a was never updated completely" in refused
    made = record_program(replace(cluster, states={"dev-a": unit}), run)
    assert "acceptance-gate" in {each.name for each in made.resources}


def test_a_site_that_was_a_piece_is_known_without_the_split_in_the_file(folder: Path) -> None:
    unit = record_program(of_piece(folder, "a"), program({"site": "site.yaml"})).state()
    (folder / "site.yaml").write_text((EXAMPLES / "dgx-roce" / "site.yaml").read_text())
    lost = replace(RUN, stack="dev-a", state=unit)
    refused, graph = record_refusal(lost, program({"site": "site.yaml"}))
    assert "the state of stack dev-a is a piece of a split site" in refused
    assert graph.of_type("command:") == []


def test_a_program_that_the_engine_does_not_find_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / ".venv" / "bin" / "railyard").unlink()
    monkeypatch.setenv("PATH", "/nowhere")
    refused, _ = record_refusal(RUN, program({"site": "site.yaml"}))
    assert "the engine does not find `railyard`" in refused
    assert "export PATH=" in refused
