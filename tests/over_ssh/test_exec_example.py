"""The example with plain execs, played over real SSH: sent, judged, saved, looked at, undone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import pytest

from components.core.errors import DeviceError
from components.fabric.device import OUTPUT_VARIABLE, judge_request, run_judge
from components.fabric.fabric_plan import SwitchPlan, plan_fabric
from components.fabric.targets import ExecPlan, numbered
from components.model.cluster import ClusterSpec
from lab.site import lab_file, load_document, overlay, secrets_of
from lab.switches.emulators import Switch, make_switch
from tests.fabric.eos_lab import Clock
from tests.fabric.switch_labs import K3S, LABS
from tests.over_ssh.switch_room import SwitchRoom, switch_room

pytestmark = pytest.mark.lab
EXAMPLE: Final = Path(__file__).parents[2] / "examples/mixed-fabric/plain-exec.yaml"
SITE: Final = ClusterSpec.model_validate(
    cast("dict[str, Any]", overlay(load_document(EXAMPLE), "test", K3S))
)
PLANS: Final = {plan.os: plan for plan in plan_fabric(SITE) if plan.exec is not None}


@pytest.fixture(params=PLANS)
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SwitchRoom]:
    plan = PLANS[request.param]
    (config,) = (
        each
        for each in lab_file(SITE, "test", (tmp_path, tmp_path, tmp_path)).switches
        if each.name == plan.name
    )
    (switch,) = (each for each in SITE.switches if each.name == plan.name)
    spec = SITE.model_copy(update={"switches": (switch,)})

    def make(folder: Path, _clock: Clock) -> Switch:
        return make_switch(config, folder / "switch.json")

    def load(**_: object) -> ClusterSpec:
        return spec

    lab = replace(
        LABS[plan.os],
        make_switch=make,
        load_spec=load,
        address=config.address,
        user=switch.ssh.user,
        password=secrets_of("test")["switch_password"],
    )
    with switch_room(plan.os, tmp_path, lab) as room:
        if plan.os == "onyx":
            room.switch.fault(["exit-status", "0"])  # its SSH server may or may not send one
        yield room


def texts_of(room: SwitchRoom) -> tuple[SwitchPlan, ExecPlan]:
    plan = PLANS[room.system]
    assert plan.exec is not None
    return plan, plan.exec


def test_the_example_is_sent_judged_saved_and_undone(room: SwitchRoom) -> None:
    plan, texts = texts_of(room)
    views = [room.switch.port_view(port) for port in plan.desired.ports]
    for text in (texts.apply, numbered(plan.os, texts.apply, "1")):
        printed, status = room.exec(text)
        assert status == 0, printed
        run_judge(judge_request(plan, "apply", text, ""), {OUTPUT_VARIABLE: printed})
    printed, status = room.exec(texts.save)
    assert status == 0, printed
    run_judge(judge_request(plan, "save", texts.save, ""), {OUTPUT_VARIABLE: printed})
    assert room.drift() == ()
    assert room.lab.saved_part(room.switch) == next(iter(room.switch.snapshot().values()))
    printed, status = room.exec(texts.undo)
    assert status == 0, printed
    assert [room.switch.port_view(port) for port in plan.desired.ports] == views
    assert room.switch.unmodelled == ()


def test_a_refused_line_fails_the_judge_and_saves_nothing(room: SwitchRoom) -> None:
    plan, texts = texts_of(room)
    saved = room.lab.saved_part(room.switch)
    room.switch.fault(["reject", "mtu"])
    printed, status = room.exec(texts.apply)
    if status == 0:  # on Onyx it says nothing
        with pytest.raises(DeviceError, match="refused a line of the exec"):
            run_judge(judge_request(plan, "apply", texts.apply, ""), {OUTPUT_VARIABLE: printed})
    assert (status == 0) == (plan.os == "onyx")
    assert room.lab.saved_part(room.switch) == saved
