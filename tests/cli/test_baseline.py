"""A baseline survives a lost state: exported, imported, and recorded by the first apply."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from components.drift.applied import Applied
from components.fabric.edit import read_baseline
from components.fabric.state import PortState, SwitchState
from components.plan.make import make_plan
from components.update.decide import judge_drift, unrecorded_switches
from components.update.seen import Facts, Seen
from tests.cli.conftest import Call
from tests.golden.site import load_example

BEFORE = SwitchState(vlans=(1,), ports={"1/1": PortState(mtu_bytes=1500, trust="L2")})
ENDPOINT = {
    "device": "leaf-01",
    "kind": "switch",
    "address": "127.0.0.1",
    "port": 1,  # nothing listens here: an answer cannot come from the switch
    "user": "admin",
    "host_key": "ssh-ed25519 AAAA",
    "password_secret": "switch_password",
}


def test_an_imported_baseline_is_what_the_step_records(
    railyard: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAILYARD_SECRET_SWITCH_PASSWORD", "unused")
    Path("kept.json").write_text(json.dumps({"leaf-01": BEFORE.model_dump(mode="json")}))

    imported = railyard("baseline", "import", "dev", "kept.json")
    request = json.dumps({"endpoint": ENDPOINT, "os": "onyx"})
    recorded = railyard("device", "baseline", "--stack", "dev", stdin=request)

    assert imported.code == 0
    assert "leaf-01" in imported.out
    assert SwitchState.model_validate(read_baseline(recorded.out)) == BEFORE


@pytest.mark.parametrize("text", ["", "[]", '{"leaf-01": {"vlans": "many"}}'])
def test_what_is_no_baseline_is_refused(
    railyard: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kept.json").write_text(text)
    done = railyard("baseline", "import", "dev", "kept.json")
    assert done.code == 2
    assert "kept.json is not an exported baseline" in done.err
    assert not Path(".railyard").exists()


def test_a_switch_that_is_as_planned_before_the_first_apply_is_named() -> None:
    plan = make_plan(load_example("dgx-roce"), "dev")
    facts: dict[str, Facts] = {"leaf-01": plan.switches[0].desired}
    drifts = judge_drift(plan, Applied(), Seen(facts))
    (line,) = unrecorded_switches(plan, drifts, facts)
    assert "leaf-01 already matches the plan" in line
    assert "railyard baseline import dev" in line
    assert unrecorded_switches(plan, drifts, {"leaf-01": BEFORE}) == ()
