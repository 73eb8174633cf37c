from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from enum import Enum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.core.to_json import flatten, to_json
from components.model.cluster import ClusterSpec
from components.plan.make import make_plan, scripts_of
from components.plan.sections import list_sections, port_lines, stages_of_steps, yaml_of
from components.plan.text import STAGES, Choice, choose, render_plan, render_summary
from components.update.secrets import secret_names
from tests.golden.site import EXAMPLES, changed_spec, load_example

SPEC = load_example("dgx-roce")
PLAN = make_plan(SPEC, "dev")
TEXT = render_plan(PLAN)


def test_the_same_file_gives_the_same_text() -> None:
    assert render_plan(make_plan(load_example("dgx-roce"), "dev")) == TEXT


def test_every_device_and_step_has_its_heading() -> None:
    headings = [line for line in TEXT.splitlines() if line.startswith("## ")]
    for switch in PLAN.switches:
        assert any(f"Switch {switch.name} (onyx, SN2700), " in line for line in headings)
    steps = PLAN.steps
    for step in steps:
        assert f"## Step {step.name} on {step.endpoint.where}, deadline" in TEXT
    assert len(steps) == 18


def test_the_page_has_every_decision_and_no_script() -> None:
    assert len(TEXT.splitlines()) <= 500
    lines = set(TEXT.splitlines())
    for host in PLAN.hosts[:2]:
        assert set(host.converge.desired.splitlines()) <= lines
    for name, text in scripts_of(PLAN).items():
        shown = name.startswith(("names ", "peers "))
        assert (text.splitlines()[-1] in lines) is shown
        assert f"# {name}" in lines


def test_a_step_like_an_earlier_one_shows_what_differs() -> None:
    assert _section("Step gpu02-host").splitlines() == [
        "# As gpu01-host, but for:",
        "hostname=gpu02",
        "hosts_block=2 names 0569cbefb431708f35252b1db3c5809d6921a426f5751c4a1825a6a17f1a11c6",
    ]
    assert "settings=as gpu02-host wants" in _section("Step gpu02-reboot")
    assert "# not set here: config.yaml.06" in _section("Step gpu01-k3s on")


def _section(heading: str, text: str = TEXT) -> str:
    return text.partition(f"\n## {heading}")[2].partition("\n")[2].partition("\n\n")[0]


def test_ports_that_are_alike_are_one_line() -> None:
    lines = _section("Switch leaf-01").splitlines()
    ports = {"# 1/1, 1/3: trunk_vlans=111", "# 1/2, 1/4: trunk_vlans=112"}
    assert {"# Every one of 4 ports:", "mtu_bytes=9216", "ecn.3.min_kib=150", *ports} <= {*lines}


def test_ports_in_a_row_are_named_by_their_ends() -> None:
    even = {"mtu": "9216", "vlan": "111"}
    odd = {"mtu": "9216", "vlan": "112"}
    ports = dict.fromkeys(["swp1", "swp2", "swp3", "swp10s0", "swp10s1"], even) | {"swp4": odd}
    assert [*port_lines(ports)] == [
        "# Every one of 6 ports:",
        "mtu=9216",
        "# swp1 to swp3, swp10s0, swp10s1: vlan=111",
        "# swp4: vlan=112",
    ]
    assert [*port_lines({})] == []


def test_what_is_empty_decides_nothing() -> None:
    value: object = {
        "a": {"b": True, "none": None, "text": "", "list": []},
        "n": [1, 2],
        "d": [{"x": 0.5}],
    }
    assert flatten(value) == {"a.b": "true", "n": "1, 2", "d.0.x": "0.5"}


def test_with_scripts_all_commands_scripts_and_objects_are_printed_once() -> None:
    text = render_plan(PLAN, Choice(scripts=True))
    for line in PLAN.switches[0].commands_from_factory:
        assert f"\n{line}\n" in text
    for name, script in scripts_of(PLAN).items():
        assert text.count(f"# {name}\n{script}") == 1
    for manifest in PLAN.pod_network.manifests:
        assert yaml_of(manifest.body) in text


def test_a_device_is_shown_whole_and_alone() -> None:
    text = render_plan(PLAN, Choice(device="gpu02"))
    assert PLAN.hosts[2].converge.desired in text
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert [line.split()[2] for line in headings if line.startswith("## Step")] == [
        "gpu02-tools", "gpu02-host", "gpu02-reboot", "gpu02-k3s-token", "gpu02-k3s",
    ]  # fmt: skip
    assert all("gpu02" in line for line in headings)


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_is_shown_alone(stage: str) -> None:
    own = [section for section in list_sections(PLAN) if section.stage == stage]
    assert _headings(stage) == [f"## {section.heading}" for section in own]
    assert (stage in {"cloud", "hypervisors", "containers"}) is not bool(own)


def _headings(stage: str) -> list[str]:
    text = render_plan(PLAN, Choice(stage=stage))
    return [line for line in text.splitlines() if line.startswith("## ")]


def test_every_step_has_its_stage() -> None:
    for name in ("dgx-roce", "esxi-roce", "shared-rdma"):
        plan = make_plan(load_example(name), "dev")
        of_stages = [step.name for own in stages_of_steps(plan).values() for step in own]
        assert sorted(of_stages) == sorted(step.name for step in plan.steps)


def test_every_object_is_named_and_small_ones_are_printed() -> None:
    rooms = (PLAN.operators, PLAN.pod_network, PLAN.jobs)
    for manifest in (manifest for room in rooms for manifest in room.manifests):
        assert f"{manifest.kind} {manifest.resource_name} (group {manifest.group})" in TEXT
    assert "lines; --format json prints it whole" in TEXT
    assert "k8s.v1.cni.cncf.io/resourceName=intel.com/sriov_111" in TEXT
    assert "ghcr.io/k8snetworkplumbingwg/multus-cni:" in TEXT


def test_a_summary_has_what_is_decided_for_the_site_and_counts() -> None:
    text = render_summary(PLAN, SPEC)
    assert len(text.splitlines()) < 40
    assert "rdma.dscp=26\n" in text
    assert "\nfabric       1 switch\n" in text
    assert "\nhosts        3 hosts, 6 steps\n" in text
    assert "\nacceptance   6 probes\n" in text


def test_the_evidence_store_is_shown_without_its_defaults() -> None:
    key = "RWSLRWwpbvN+ieJaB1p8pt+vq4V2vA3kizyLu+RQLRRbpH4BFxIP2gPY"
    store = {"address": "/srv/proofs", "signing_key": {"secret": "a"}, "trusted_keys": [key]}
    spec = ClusterSpec.model_validate(SPEC.model_dump() | {"evidence_store": store})
    assert _section("Evidence store", render_plan(make_plan(spec, "dev"))).splitlines() == [
        "address=/srv/proofs",
        "signing_key.secret=a",
        f"trusted_keys={key}",
    ]
    assert "Evidence store" not in TEXT


def test_what_destroy_leaves_is_said_last() -> None:
    assert TEXT.rstrip("\n").splitlines()[-7:] == [
        "## What destroy leaves",
        "# stays on mgmt01, if it came with the stack: the home folder of its account",
        "# stays on gpu01, if it came with the stack: the home folder of its account",
        "# stays on gpu02, if it came with the stack: the home folder of its account",
        "# gpu01-reboot: a reboot cannot be taken back; other steps put back what it loaded",
        "# gpu02-reboot: a reboot cannot be taken back; other steps put back what it loaded",
        "# mgmt01-cluster-access: it only reads",
    ]


def test_secrets_are_names() -> None:
    assert secret_names(SPEC) == (
        "k3s_agent_token",
        "k3s_token",
        "ssh_private_key",
        "switch_password",
    )
    for name in ("k3s_token", "k3s_agent_token"):
        assert f"# stdin: the secret {name}\n" in TEXT


def test_json_is_plain_and_complete() -> None:
    data = to_json(PLAN)
    assert json.loads(json.dumps(data)) == data
    assert set(data) == {
        "name",
        "stack",
        "cloud",
        "switches",
        "hypervisors",
        "hosts",
        "payload",
        "reboots",
        "kubernetes",
        "operators",
        "pod_network",
        "jobs",
        "acceptance",
    }


@pytest.mark.parametrize("seed", ["0", "1", "4711"])
def test_the_digest_does_not_depend_on_the_process(seed: str) -> None:
    program = (
        "from tests.golden.site import load_example;from components.plan.make import make_plan;"
        "print(make_plan(load_example('dgx-roce'), 'dev').digest)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=EXAMPLES.parent,
        env={"PYTHONHASHSEED": seed, "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == PLAN.digest


def test_the_digest_follows_the_plan() -> None:
    assert len(PLAN.digest) == 16
    assert make_plan(SPEC, "other").digest != PLAN.digest
    quieter = SPEC.acceptance.model_copy(update={"perftest_min_fraction": 0.8})
    assert make_plan(changed_spec(SPEC, acceptance=quieter), "dev").digest != PLAN.digest


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Pair:
    left: object
    right: object


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(left=VALUES, right=VALUES)
def test_plain_data_stays_as_it_is(left: object, right: object) -> None:
    assert to_json(Pair(left, right)) == {"left": left, "right": right}


def test_other_types_have_one_form() -> None:
    assert to_json((Colour.RED, {1: "a"})) == ["red", {"1": "a"}]
    assert to_json(frozenset({"c", "a", "b"})) == ["a", "b", "c"]


def test_what_cannot_be_printed_is_refused() -> None:
    with pytest.raises(TypeError, match="must not hold a object"):
        to_json(Pair(object(), 1))


def test_the_lines_of_a_switch_are_short_in_the_whole_plan_and_all_there_for_one_device() -> None:
    (switch,) = PLAN.switches
    lines = switch.commands_from_factory
    assert "interface ethernet <port> mtu 9216  # 1/1 to 1/4" in _section("Switch leaf-01")
    whole = render_plan(PLAN, choose(PLAN, "leaf-01", None, scripts=False))
    shown = whole.partition("## Switch leaf-01")[2].splitlines()
    assert [line for line in shown if line in lines] == [*lines]
