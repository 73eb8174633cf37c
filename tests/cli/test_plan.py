from __future__ import annotations

import json
from pathlib import Path

import pytest

from components.core.to_json import to_json
from components.plan.make import make_plan, scripts_of
from tests.checks.cases import CASES
from tests.cli.conftest import Call
from tests.golden.site import EXAMPLES, load_example
from tests.graph.locked import pin_beside

EXAMPLE = str(EXAMPLES / "dgx-roce" / "site.yaml")
DEV = str(EXAMPLES.parent / "Pulumi.dev.yaml")


def test_a_plan_is_printed_and_is_the_same_twice(railyard: Call) -> None:
    first, second = railyard("plan", EXAMPLE), railyard("plan", EXAMPLE)
    assert first == second
    assert (first.code, first.err) == (0, "")
    assert first.out.startswith("# Plan of dgx-roce, stack dgx-roce, digest ")
    assert "# 1/2, 1/4: trunk_vlans=112" in first.out
    assert "interface ethernet 1/2" in railyard("plan", EXAMPLE, "--scripts").out


def test_a_plan_ends_with_what_an_update_would_refuse(railyard: Call, tmp_path: Path) -> None:
    line = f"# An update would refuse this site: unpinned; see `railyard check {EXAMPLE}`."
    assert railyard("plan", EXAMPLE).out.endswith(f"\n{line}\n")
    assert line not in railyard("plan", EXAMPLE, "--host", "gpu02").out
    site = tmp_path / "site.yaml"
    site.write_text(Path(EXAMPLE).read_text())
    pin_beside(site)
    assert "An update would refuse" not in railyard("plan", str(site)).out


def test_json_has_every_step(railyard: Call) -> None:
    done = railyard("plan", EXAMPLE, "--format", "json", "--stack", "dev")
    data = json.loads(done.out)
    assert done.code == 0
    assert data["stack"] == "dev"
    assert [host["name"] for host in data["hosts"]] == ["mgmt01", "gpu01", "gpu02"]
    digest = make_plan(load_example("dgx-roce"), "dev").digest
    assert f"stack dev, digest {digest}\n" in railyard("plan", EXAMPLE, "--stack", "dev").out


def test_json_says_what_destroy_leaves_as_the_text_does(railyard: Call) -> None:
    site = str(EXAMPLES / "shared-rdma" / "docker.yaml")
    data = json.loads(railyard("plan", site, "--format", "json").out)["left_by_destroy"]
    text = railyard("plan", site).out.partition("## What destroy leaves\n")[2]
    assert data["hosts"]
    said = [
        words
        for left in data["hosts"].values()
        for words in (*left["stays"], *left["until_restart"])
    ]
    assert said
    assert all(words in text for words in [*data["hosts"], *said])
    assert all(f"# {step}: {why}" in text for step, why in data["steps"].items())


def test_json_has_nothing_that_destroy_does_not_leave(railyard: Call) -> None:
    data = json.loads(railyard("plan", EXAMPLE, "--format", "json").out)["left_by_destroy"]
    assert all(any(left.values()) for left in data["hosts"].values())


def test_a_stack_file_names_its_stack(railyard: Call) -> None:
    done = railyard("plan", DEV)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("# Plan of dgx-roce, stack dev, digest ")


def test_a_wrong_file_is_exit_1_with_the_report_and_no_plan(railyard: Call, tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text(CASES["mtu-chain"].text())
    done = railyard("plan", str(site))
    assert (done.code, done.out) == (1, "")
    assert "site.yaml:20" in done.err


def test_a_missing_file_is_exit_2(railyard: Call, tmp_path: Path) -> None:
    done = railyard("plan", str(tmp_path / "none.yaml"))
    assert (done.code, done.out) == (2, "")
    assert "none.yaml" in done.err


def test_an_unknown_format_is_exit_2(railyard: Call) -> None:
    assert railyard("plan", EXAMPLE, "--format", "xml").code == 2


def test_an_unknown_command_is_exit_2(railyard: Call) -> None:
    assert railyard("plam", EXAMPLE).code == 2


@pytest.mark.parametrize(
    ("files", "stack"),
    [
        ({"prod": "railyard:site: site.yaml # ours"}, "prod"),
        ({"prod": 'railyard:site: "site.yaml"', "dev": "railyard:site: other.yaml"}, "prod"),
        ({"prod": "railyard:site: site.yaml", "dev": "railyard:site: site.yaml"}, "dgx-roce"),
        ({}, "dgx-roce"),
    ],
)
def test_a_site_file_has_the_stack_that_alone_names_it(
    railyard: Call, tmp_path: Path, files: dict[str, str], stack: str
) -> None:
    site = tmp_path / "site.yaml"
    site.write_text(Path(EXAMPLE).read_text())
    for name, line in files.items():
        (tmp_path / f"Pulumi.{name}.yaml").write_text(f"config:\n  {line}\n")
    head = railyard("plan", str(site)).out.partition("\n")[0]
    assert head.startswith(f"# Plan of dgx-roce, stack {stack}, digest ")


def test_a_stack_name_that_no_folder_can_have_is_exit_2(railyard: Call) -> None:
    done = railyard("plan", EXAMPLE, "--stack", "../x")
    assert (done.code, done.out) == (2, "")
    assert "'../x' cannot be used" in done.err


def test_a_host_is_printed_alone(railyard: Call) -> None:
    done = railyard("plan", EXAMPLE, "--host", "gpu02")
    assert (done.code, done.err) == (0, "")
    assert "hostname=gpu02" in done.out
    assert "Step gpu01-host" not in done.out
    data = json.loads(railyard("plan", EXAMPLE, "--host", "gpu02", "--format", "json").out)
    assert [host["name"] for host in data["hosts"]] == ["gpu02"]
    assert {step["endpoint"]["device"] for step in data["steps"]} == {"gpu02"}
    assert "switches" not in data


def test_a_switch_is_printed_alone(railyard: Call) -> None:
    done = railyard("plan", EXAMPLE, "--device", "leaf-01")
    assert done.out.count("\n## ") == 1
    data = json.loads(railyard("plan", EXAMPLE, "--device", "leaf-01", "--format", "json").out)
    assert [switch["name"] for switch in data["switches"]] == ["leaf-01"]
    assert data["steps"] == []


def test_a_stage_is_printed_alone(railyard: Call) -> None:
    assert (
        "## NetworkAttachmentDefinition" in railyard("plan", EXAMPLE, "--stage", "pod-network").out
    )
    data = json.loads(railyard("plan", EXAMPLE, "--stage", "fabric", "--format", "json").out)
    assert set(data) == {"name", "stack", "digest", "switches"}
    both = ("--stage", "reboots", "--host", "gpu01", "--format", "json")
    data = json.loads(railyard("plan", EXAMPLE, *both).out)
    assert [step["name"] for step in data["steps"]] == ["gpu01-reboot"]
    assert "hosts" not in data


def test_json_has_scripts_only_where_they_are_asked_for(railyard: Call) -> None:
    named = json.loads(railyard("plan", EXAMPLE, "--format", "json").out)
    whole = json.loads(railyard("plan", EXAMPLE, "--format", "json", "--scripts").out)
    plan = make_plan(load_example("dgx-roce"), "dgx-roce")
    assert whole["tools"] == dict(scripts_of(plan))
    assert "tools" not in named
    step = named["hosts"][0]["steps"][0]
    assert f"host {step['apply']['tool']['digest']}" in whole["tools"]
    assert not any(text in json.dumps(named) for text in whole["tools"].values())
    assert whole["hosts"] == to_json(plan.hosts)


def test_a_summary_is_of_the_whole_site(railyard: Call) -> None:
    done = railyard("plan", EXAMPLE, "--summary")
    assert "hosts        3 hosts, 6 steps" in done.out
    data = json.loads(railyard("plan", EXAMPLE, "--summary", "--format", "json").out)
    assert data["stages"]["fabric"] == "1 switch"
    assert data["site"]["rdma"]["dscp"] == 26
    assert railyard("plan", EXAMPLE, "--summary", "--host", "gpu01").code == 2


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--host", "gpu2", "did you mean gpu02 or gpu01?"),
        ("--device", "leaf01", "did you mean leaf-01?"),
        ("--host", "zzz", "there are: leaf-01, mgmt01, gpu01, gpu02"),
        ("--stage", "host", "did you mean hosts or jobs?"),
        ("--stage", "zzz", "there are: cloud, fabric, hypervisors"),
    ],
)
def test_an_unknown_name_gets_near_ones(
    railyard: Call, option: str, value: str, words: str
) -> None:
    done = railyard("plan", EXAMPLE, option, value)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
