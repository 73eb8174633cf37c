from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import dataclass
from enum import Enum

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from components.core.to_json import to_json
from components.plan.make import make_plan, scripts_of
from components.plan.text import render_plan
from components.remote.tools import ToolCall
from components.update.secret_names import secret_names
from tests.golden.files import abridge, check_golden
from tests.golden.site import EXAMPLES, changed_spec, load_example

SPEC = load_example("dgx-roce")
PLAN = make_plan(SPEC, "dev")
TEXT = render_plan(PLAN)


def test_the_same_file_gives_the_same_text() -> None:
    assert render_plan(make_plan(load_example("dgx-roce"), "dev")) == TEXT


def test_every_command_for_the_dgx_site_stands_in_the_plan() -> None:
    check_golden("dgx-roce/plan.txt", abridge(TEXT))


def test_every_device_and_step_has_its_heading() -> None:
    headings = [line for line in TEXT.splitlines() if line.startswith("## ")]
    for switch in PLAN.switches:
        assert any(f"Switch {switch.name} (onyx, SN2700), " in line for line in headings)
    steps = PLAN.steps
    for step in steps:
        assert f"## Step {step.name} on {step.endpoint.where}, deadline" in TEXT
    assert len(steps) == 15


def test_all_commands_and_desired_states_are_printed() -> None:
    for line in PLAN.switches[0].commands_from_factory:
        assert f"\n{line}\n" in TEXT
    for host in PLAN.hosts:
        assert host.converge.desired in TEXT
    for step in PLAN.steps:
        call = step.apply
        if isinstance(call, ToolCall):
            assert (
                f"# runs: {call.verb} of the tool {call.tool.name} {call.tool.digest[:12]}" in TEXT
            )
        else:
            assert f"# runs: railyard {call}\n" in TEXT


def test_no_script_is_in_a_plan_and_each_can_be_had_by_its_digest() -> None:
    scripts = scripts_of(PLAN)
    assert {name.split()[0] for name in scripts} == {"host", "kubernetes", "names"}
    whole = TEXT + json.dumps(to_json(PLAN))
    for name, text in scripts.items():
        kind, digest = name.split()
        assert hashlib.sha256(text.encode()).hexdigest() == digest
        lines = [line for line in text.splitlines() if len(line) > 20 and kind != "names"]
        assert not [line for line in lines if line in whole]


def test_the_names_of_the_hosts_are_printed_once() -> None:
    for host in SPEC.hosts:
        assert TEXT.count(f"{host.address} {host.name}\n") == 1
    assert all("hosts_block=3 names " in host.converge.desired for host in PLAN.hosts)


def test_every_object_is_named_and_small_ones_are_printed() -> None:
    rooms = (PLAN.operators, PLAN.pod_network, PLAN.jobs)
    for manifest in (manifest for room in rooms for manifest in room.manifests):
        assert f"{manifest.kind} {manifest.resource_name} (group {manifest.group})" in TEXT
    assert "lines; --format json prints it whole" in TEXT
    assert "k8s.v1.cni.cncf.io/resourceName: intel.com/sriov_111" in TEXT


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
    assert secret_names(SPEC) == ("k3s_token", "ssh_private_key", "switch_password")
    assert "# stdin: the secret k3s_token" in TEXT


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


def test_yaml_of_the_text_can_be_read_back() -> None:
    block = TEXT.partition("# Wanted state:\n")[2].partition("\n\n## ")[0]
    assert yaml.safe_load(block) == PLAN.switches[0].desired.model_dump(
        mode="json", exclude_none=True
    )


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
