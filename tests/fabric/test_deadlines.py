"""`deadlines` of the file: what it reaches, and that it leaves everything else as it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.fabric import device
from components.model.cluster import ClusterSpec
from components.plan.make import make_plan
from components.reading.load import parse_site
from components.remote.step import COMMAND_S, render_request
from components.remote.switch_session import SwitchSession
from tests.graph.whole_program import ROOT
from tests.over_ssh.switch_room import switch_room

SITE = (ROOT / "examples/dgx-roce/site.yaml").read_text()


def _spec(deadlines: str = "") -> ClusterSpec:
    loaded = parse_site(f"{SITE}\n{deadlines}", "site.yaml")
    assert loaded.spec is not None, loaded.problems
    return loaded.spec


def test_defaults_are_in_no_request_and_no_digest() -> None:
    plain = make_plan(_spec(), "dev")
    written = make_plan(_spec("deadlines: {switch: {write_s: 180}, host: {look_s: 60}}"), "dev")
    assert written.digest == plain.digest
    request = render_request(plain.switches[0].endpoint)
    assert not any(name in request for name in ("read_s", "write_s", "command_s"))


def test_what_the_file_sets_reaches_looks_and_steps() -> None:
    text = "deadlines: {switch: {read_s: 90, command_s: 2}, host: {look_s: 70, converge_s: 600}}"
    plan = make_plan(_spec(text), "dev")
    endpoint = plan.switches[0].endpoint
    assert (endpoint.read_s, endpoint.write_s, endpoint.command_s) == (90, 0, 2)
    assert plan.look_s == 70
    assert {host.converge.deadline_s for host in plan.hosts} == {600}


@pytest.mark.parametrize("key", ["switch: {write_s", "switch: {command_s", "host: {look_s"])
@pytest.mark.parametrize("value", ["0", "-5"])
def test_zero_and_less_are_refused_with_their_line(key: str, value: str) -> None:
    text = f"{SITE}\ndeadlines:\n  {key}: {value}}}\n"
    problems = parse_site(text, "site.yaml").problems
    assert [problem.rule for problem in problems] == ["out-of-range"]
    assert problems[0].where[0].line == text.splitlines().index(f"  {key}: {value}}}") + 1


def test_the_deadline_grows_with_the_commands(tmp_path: Path) -> None:
    with switch_room("onyx", tmp_path) as room, room.session(deadline_s=20) as session:
        before = session.ends_at_s
        for _ in range(4):
            session.run("show version")
        assert session.ends_at_s == pytest.approx(before + 4 * COMMAND_S)


@pytest.mark.lab
def test_a_slow_switch_needs_the_time_of_its_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A base that is far too short for all lines: with time for each one they fit."""
    monkeypatch.setattr(device, "WRITE_DEADLINE_S", 0.5)
    run, spent = SwitchSession.run, [0.0]

    def slow(self: SwitchSession, command: str) -> str:
        spent[0] += 0.3
        self.ends_at_s -= 0.3  # a command that took so long, without the wait
        return run(self, command)

    monkeypatch.setattr(SwitchSession, "run", slow)
    with switch_room("onyx", tmp_path) as room:
        asked: Any = room.endpoint
        room.endpoint = replace(asked, command_s=5.0)
        assert room.apply()["saved"]
        assert spent[0] > 0.5
