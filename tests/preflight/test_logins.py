"""`railyard plan --rights`: the programs that sudo starts are in the lines; switches have roles."""

from __future__ import annotations

import re

import pytest

from components.catalogue.switches.systems import SWITCH_SYSTEMS
from components.preflight.cluster import SWITCH_ROLES, render_logins, sudoers
from components.remote.login import asking
from components.remote.step import render_step_command
from tests.cli.conftest import Call, railyard
from tests.golden.site import EXAMPLES
from tests.graph.example_sites import NAMES, example_plan, example_spec

__all__ = ["railyard"]


@pytest.mark.parametrize("name", NAMES)
def test_each_step_of_each_example_is_allowed_by_the_lines(name: str) -> None:
    spec, plan = example_spec(name), example_plan(name)
    for step in plan.steps:
        if step.dialect != "sh":
            continue
        asks = step.endpoint.sudo_secret is not None
        allowed = " ".join(sudoers(spec, step.endpoint.user, asks=asks))
        for call in (step.apply, *([step.undo] if step.undo else [])):
            text = render_step_command(step, call)
            started = set(re.findall(r"sudo -n ([a-z]+)", text))
            assert started <= {"timeout"}
            asked = asking(text)[0] if asks else ""
            programs = re.findall(r"sudo -k -S -p \S+ ([a-z]+)", asked) if asks else [*started]
            assert all(f"/{program}" in allowed for program in programs), (step.name, programs)


def test_every_system_has_a_role() -> None:
    assert SWITCH_ROLES.keys() == SWITCH_SYSTEMS.keys()


def test_root_needs_no_line_and_a_password_no_nopasswd() -> None:
    spec = example_spec(NAMES[0])
    assert sudoers(spec, "root", asks=False) == ()
    assert all("NOPASSWD" not in line for line in sudoers(spec, "ops", asks=True)[:1])


def test_the_command_prints_lines_that_visudo_reads_and_says_what_they_are_worth(
    railyard: Call,
) -> None:
    done = railyard("plan", str(EXAMPLES / "dgx-roce" / "site.yaml"), "--rights")
    lines = [line for line in done.out.splitlines() if not line.startswith("#")]
    assert lines == ["nvidia ALL=(root) NOPASSWD: /usr/bin/timeout"]
    assert "This is equal to root" in done.out
    assert "# leaf-01 (onyx), admin: capability admin" in done.out
    existing = railyard("plan", str(EXAMPLES / "shared-rdma" / "existing.yaml"), "--rights")
    assert "railyard rbac" in existing.out
    refused = railyard("plan", str(EXAMPLES / "dgx-roce" / "site.yaml"), "--rights", "--summary")
    assert refused.code == 2


@pytest.mark.parametrize("name", NAMES)
def test_every_example_has_its_rights(name: str) -> None:
    assert render_logins(example_spec(name))
