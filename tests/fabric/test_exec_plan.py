"""The whole configuration as one exec: the same plan, over whatever the switch has."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.catalogue.switches.systems import SWITCH_SYSTEMS
from components.core.errors import Bug, DeviceError, UsageError
from components.fabric import targets
from components.fabric.device import OUTPUT_VARIABLE, judge_request, run_judge
from components.fabric.edit import every_key
from components.fabric.fabric_plan import SwitchPlan, plan_fabric
from components.fabric.moves import SwitchEvidence
from components.fabric.state import SwitchState, diff_states
from components.fabric.systems import system_of
from components.fabric.targets import ExecPlan, numbered, plan_exec
from components.remote.lines import parse_lines
from lab.switches.onyx.cli import Session as OnyxSession
from tests.fabric import test_cumulus_exchange, test_exchange, test_sonic_exchange
from tests.fabric.eos_lab import Clock
from tests.fabric.in_process import apply
from tests.fabric.switch_labs import LABS

HISTORIES = {
    "onyx": test_exchange.HISTORIES,
    "cumulus": test_cumulus_exchange.HISTORIES,
    "sonic": test_sonic_exchange.HISTORIES,
}
GOOD = {"onyx": "\n", "cumulus": "applied [rev_id: 5]\n", "sonic": "0\napplied\n"}
"""What an exec prints that went well."""


def plan_of(system: str, mode: str = "lossless", **rdma: object) -> SwitchPlan:
    spec = LABS[system].load_spec(mode=mode, **rdma)
    switch = spec.switches[0].model_copy(
        update={"executor": "exec", "exec_disruptive": "allow-interruptions"}
    )
    return plan_fabric(spec.model_copy(update={"switches": (switch,)}))[0]


def texts_of(system: str, mode: str = "lossless") -> ExecPlan:
    texts = plan_of(system, mode).exec
    assert texts is not None
    return texts


class StatusError(DeviceError):
    """The exec has a status other than 0: the command provider itself fails."""


def send(system: str, switch: Any, text: str) -> str:  # noqa: ANN401 - any emulator
    """What an exec prints; SSH itself is left out."""
    if system == "onyx":
        word, *lines = shlex.split(text)
        assert word == "cli"
        session = OnyxSession(switch)
        return "".join(session.run(line) for line in lines)
    shell, locks = switch.session(), getattr(switch, "holders", set[object]())
    locks.clear()  # the login of before is over
    output = shell.run(text)
    locks.clear()  # its bash is over, and its locks with it
    if shell.status:
        raise StatusError(output)
    return output


def judge(plan: SwitchPlan, output: str, kind: Any = "apply") -> SwitchEvidence:  # noqa: ANN401 - a word
    request = judge_request(plan, kind, "text", "")
    return SwitchEvidence(**json.loads(run_judge(request, {OUTPUT_VARIABLE: output})))


FORMS = [name for name in SWITCH_SYSTEMS if targets.find_form(name)]


@pytest.fixture(params=FORMS)
def system(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_system_is_in_or_out_with_a_reason() -> None:
    without = {name for name in SWITCH_SYSTEMS if targets.why_no_exec(name)}
    assert without == {*SWITCH_SYSTEMS} - {*FORMS}
    assert {*FORMS} == {*HISTORIES}, "a new form brings the histories it is tested over"
    assert not any(plan_exec(name, SwitchState()) for name in without)


def cells_of(text: str) -> set[tuple[str, ...]]:
    """What the merges of a text set."""
    documents = re.findall(r"sonic-cfggen -j [^']*'(.*?)'", text, re.DOTALL)
    return {
        (table, row, *cell)
        for data in map(json.loads, documents)
        for table, rows in data.items()
        for row, fields in rows.items()
        for cell in fields.items()
    }


@pytest.mark.parametrize("mode", ["lossy_ecn", "lossless"])
def test_it_holds_the_lines_of_the_same_plan_in_their_order(system: str, mode: str) -> None:
    plan = plan_of(system, mode)
    assert plan.exec is not None
    driver = system_of(system)
    around = {*driver.enter, *driver.configure, driver.save}
    around |= {line for line in plan.commands_from_factory if line.startswith("nv config")}
    wanted = [line for line in plan.commands_from_factory if line not in around]
    text = plan.exec.apply
    at = 0
    for line in wanted:
        if "sonic-cfggen" in line:  # the exec merges what the factory has already as well
            assert cells_of(line) <= cells_of(text)
            continue
        assert line in text
        if system_of(system).guard is None:  # a revision has no order
            at = text.index(line, at) + 1
    assert driver.save not in text, "saved only after it was judged"
    assert driver.save in plan.exec.save
    assert plan.exec.undo.count(driver.save) == 1


def switch_of(system: str, folder: str | Path, history: Sequence[str] = ()) -> Any:  # noqa: ANN401 - any emulator
    switch = LABS[system].make_switch(Path(folder), Clock())
    for line in history:
        switch.run_line(line)
    return switch


def _run(system: str, history: list[str], mode: str) -> None:
    lab, plan, texts = LABS[system], plan_of(system, mode), texts_of(system, mode)
    with TemporaryDirectory() as folder:
        switch = switch_of(system, folder, history)
        exchange = lab.talk(switch)
        others = tuple(p for p in exchange.list_ports()[:8] if p not in plan.desired.ports)
        asked, kept = every_key(others, SwitchState()), set[str]()
        if mode in system_of(system).one_shot_modes:  # it is one for the whole switch
            kept = {"trust", "ecn", "strict_classes", "pfc", "wrr_weights"}
            unasked: dict[str, object] = {"trust": None, "ecn": {}, "strict_classes": None}
            port = asked.ports[others[0]].model_copy(update=unasked)
            asked = SwitchState(ports=dict.fromkeys(others, port))
        before = exchange.read(asked).state.ports
        saved = lab.saved_part(switch)
        judge(plan, send(system, switch, texts.apply))
        if system != "cumulus":  # from 5.9 on NVUE saves with the apply
            assert lab.saved_part(switch) == saved, "nothing is saved before it was judged"
        assert diff_states(exchange.read(plan.desired).state, plan.desired) == ()
        now = switch.snapshot()
        judge(plan, send(system, switch, numbered(system, texts.apply, "2")))
        assert switch.snapshot() == now, "sent twice, it changes nothing"
        after = exchange.read(asked).state.ports
        for name in others:
            assert after[name].model_dump(exclude=kept) == before[name].model_dump(exclude=kept)
        assert judge(plan, send(system, switch, texts.save), "save").saved
        assert next(iter(switch.snapshot().values())) == lab.saved_part(switch)
        assert switch.unmodelled == ()


def _is_refused(history: list[str], mode: str) -> bool:
    """Whether nothing leads there from this history: the driver, which reads first, refuses too."""
    if mode == "lossless" and any("qos clear" in line or "dynamic" in line for line in history):
        return True
    with TemporaryDirectory() as folder:
        try:
            apply(
                LABS["sonic"].talk(switch_of("sonic", folder, history)),
                plan_of("sonic", mode).desired,
            )
        except DeviceError:
            return True
    return False


@settings(max_examples=15, deadline=None)
@given(data=st.data(), mode=st.sampled_from(["lossy_ecn", "lossless"]))
@pytest.mark.parametrize("name", FORMS)
def test_whatever_a_switch_has_one_exec_leads_there_or_is_refused(
    name: str, data: st.DataObject, mode: str
) -> None:
    history = data.draw(HISTORIES[name])
    if name != "sonic" or not _is_refused(history, mode):
        _run(name, history, mode)
        return
    with TemporaryDirectory() as folder:
        switch = switch_of(name, folder, history)
        saved = LABS[name].saved_part(switch)
        try:
            send(name, switch, texts_of(name, mode).apply)
        except StatusError as error:
            assert "Error: " in str(error)  # noqa: PT017 - it may also go well, in part
        assert LABS[name].saved_part(switch) == saved
        assert switch.unmodelled == ()


@pytest.mark.parametrize("mode", ["lossy_ecn", "lossless"])
def test_undo_leads_to_the_factory(system: str, mode: str, tmp_path: Path) -> None:
    texts, switch = texts_of(system, mode), switch_of(system, tmp_path)
    first, desired = switch.snapshot(), plan_of(system, mode).desired
    views = [switch.port_view(port) for port in desired.ports]
    send(system, switch, texts.apply)
    send(system, switch, texts.save)
    assert [switch.port_view(port) for port in desired.ports] != views
    for _ in range(2 if system == "sonic" else 1):
        assert system_of(system).find_refusal(send(system, switch, texts.undo)) is None
        assert [switch.port_view(port) for port in desired.ports] == views
        assert next(iter(switch.snapshot().values())) == LABS[system].saved_part(switch), "it saves"
        if system == "sonic":  # also what the template of the platform gave
            assert switch.snapshot() == first
    assert switch.unmodelled == ()


def test_a_rejected_line_is_found_and_nothing_is_saved(system: str, tmp_path: Path) -> None:
    switch = switch_of(system, tmp_path)
    first = switch.snapshot()
    line, words = {
        "onyx": ("mtu 9216", "refused a line of the exec(.|\n)*not saved"),
        "cumulus": ("mtu 9216", "Failure"),
        "sonic": ('"mtu":"9216"', 'refused: "mtu":"9216"'),
    }[system]
    switch.fault(["reject", line])
    with pytest.raises(DeviceError, match=words):
        judge(plan_of(system), send(system, switch, texts_of(system).apply))
    assert LABS[system].saved_part(switch) == first[LABS[system].saved]
    if system_of(system).guard is not None:
        assert switch.snapshot() == first, "a chain ends at the first refusal, before the apply"


def test_a_full_disk_is_found(system: str, tmp_path: Path) -> None:
    switch = switch_of(system, tmp_path)
    switch.fault(["disk-full", "on"])
    send(system, switch, texts_of(system).apply)
    with pytest.raises(DeviceError, match="No space left on device"):
        judge(plan_of(system), send(system, switch, texts_of(system).save), "save")


@pytest.mark.parametrize(
    ("system", "output"),
    [
        ("onyx", "UNIX shell commands cannot be executed using this account.\n"),
        ("onyx", "Type 'yes' to confirm: "),
        ("cumulus", ""),
        ("cumulus", "Are you sure? [y/N] "),
        ("sonic", ""),
        ("sonic", "0\n1\n"),
    ],
)
def test_an_unknown_is_no_yes(system: str, output: str) -> None:
    assert not targets.is_expected(system, output)
    with pytest.raises(DeviceError, match="tells no success"):
        judge(plan_of(system), output)


def test_evidence_is_of_the_form_of_an_apply(system: str) -> None:
    evidence = judge(plan_of(system), GOOD[system])
    assert (evidence.device, evidence.saved, evidence.changed) == ("leaf-01", False, [])
    assert judge(plan_of(system), "", "save").saved


def test_nothing_to_judge_is_a_mistake() -> None:
    request = judge_request(plan_of("onyx"), "apply", "text", "")
    with pytest.raises(UsageError, match="nothing to judge"):
        run_judge(request, {})
    asks = parse_lines(request)
    del asks["judges"]
    with pytest.raises(UsageError, match="nothing to judge"):
        run_judge(json.dumps(asks), {OUTPUT_VARIABLE: ""})


def test_a_repeated_run_has_a_number_that_the_switch_ignores(system: str, tmp_path: Path) -> None:
    text = texts_of(system).apply
    assert numbered(system, text, "") == text
    again = numbered(system, text, "7")
    assert (targets.number_of(text), targets.number_of(again)) == (0, 7)
    assert targets.digest_of(again) != targets.digest_of(text)
    judge(plan_of(system), send(system, switch_of(system, tmp_path), again))


def test_what_it_interrupts_is_said(system: str) -> None:
    assert re.search(r"mode, mtu_bytes.*: any value -> the file's", texts_of(system).interrupts[0])


def test_the_plan_of_a_switch_without_exec_is_written_as_before() -> None:
    plain = plan_fabric(LABS["onyx"].load_spec())[0]
    assert "exec" not in plain.model_dump(mode="json")
    with_exec = plan_of("onyx")
    again = SwitchPlan.model_validate_json(with_exec.model_dump_json())
    bare = with_exec.model_copy(update={"cables": {}, "guarded": None, "waves": ()})
    assert again == bare, "cables are told to people only"
    assert with_exec.desired == plan_fabric(LABS["onyx"].load_spec(mode="lossless"))[0].desired


@pytest.mark.parametrize("line", ['a "b"', "a\nb", "a `b`", "a $b", "a \\b"])
def test_a_line_that_could_be_more_than_one_is_a_bug(
    system: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module(f"components.fabric.systems.{system}.system")
    monkeypatch.setattr(module, "SYSTEM", replace(system_of(system), save=line))
    with pytest.raises(Bug):
        plan_exec(system, SwitchState())
