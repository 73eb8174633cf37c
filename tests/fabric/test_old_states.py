"""What earlier releases recorded still leads back to exactly what was there.

`recorded/` has what the release before `native` wrote, on switches with settings of other people on
them: `hand` is what they typed, `baseline` the recorded baseline as the engine hands it on,
`desired` the input of the apply step, and `evidence` what that apply printed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import ValidationError

from components.fabric.device import (
    BASELINE_VARIABLE,
    PREVIOUS_OUTPUT,
    parse_request,
    previous_of,
)
from components.fabric.exchange import Exchange
from components.fabric.state import Difference, PortState, SwitchState, diff_states
from tests.fabric import cumulus_lab, eos_lab, sonic_lab
from tests.fabric.in_process import apply, baseline_of, edit, restore

FOLDER: Final = Path(__file__).parent / "recorded"
RECORDS: Final[list[tuple[str, int, Any]]] = [
    (system, number, record)
    for system in ("cumulus", "eos", "sonic")
    for number, record in enumerate(json.loads((FOLDER / f"{system}.json").read_text()))
]
MAKE: Final[dict[str, Callable[[Path], Any]]] = {
    "cumulus": cumulus_lab.make_switch,
    "eos": eos_lab.make_switch,
    "sonic": sonic_lab.make_switch,
}
TALK: Final[dict[str, Callable[[Any], Exchange]]] = {
    "cumulus": cumulus_lab.talk,
    "eos": eos_lab.talk,
    "sonic": sonic_lab.talk,
}
SAVE: Final[dict[str, Callable[[Any], object]]] = {
    "cumulus": lambda switch: switch.session().run("nv config save"),
    "eos": lambda switch: switch.save_configuration(),
    "sonic": lambda switch: switch.run_line("sudo config save -y"),
}
ENDPOINT: Final = {
    "device": "leaf-01",
    "kind": "switch",
    "address": "127.209.0.5",
    "port": 22,
    "user": "admin",
    "host_key": "ssh-ed25519 AAAA",
}


def found_by_old_release(system: str, folder: Path, record: Any) -> Any:  # noqa: ANN401 - any emulator
    """A switch as it was when the baseline was recorded."""
    switch = MAKE[system](folder)
    for line in record["hand"]:
        switch.run_line(line)
    SAVE[system](switch)
    return switch


def unlike(actual: SwitchState, desired: SwitchState) -> list[Difference]:
    """What differs in what that release read.

    It read no shares of classes, no link settings and no native VLAN, and took the 5 % of packets
    that SONiC's template marks for all.
    """
    return [
        found
        for found in diff_states(actual, desired)
        if not found.setting.endswith(("_share", "speed", "fec", "autoneg", "native_vlan"))
        and found.actual.removesuffix(" at 5 %") != found.desired.removesuffix(" at 5 %")
    ]


@pytest.mark.parametrize(
    ("system", "record"), [pytest.param(s, r, id=f"{s}-{n}") for s, n, r in RECORDS]
)
def test_an_old_baseline_is_restored_exactly(system: str, record: Any, tmp_path: Path) -> None:  # noqa: ANN401 - JSON
    switch = found_by_old_release(system, tmp_path, record)
    first = switch.snapshot()
    stdin = json.dumps({"endpoint": ENDPOINT, "os": system, "desired": record["desired"]})
    request = parse_request(stdin, {BASELINE_VARIABLE: record["baseline"]})
    assert request.baseline is not None
    exchange = TALK[system](switch)
    now = baseline_of(exchange, request.desired)
    assert unlike(now, request.baseline) == unlike(request.baseline, now) == []
    apply(exchange, request.desired)
    assert diff_states(exchange.read(request.desired).state, request.desired) == ()
    restore(exchange, request.desired, request.baseline)
    assert switch.snapshot() == first
    assert restore(exchange, request.desired, request.baseline) == ()
    assert switch.unmodelled == ()


@pytest.mark.parametrize(
    ("system", "record"),
    # A port that a person made name a row of ours holds that row once it has left the file.
    [pytest.param(s, r, id=f"{s}-{n}") for s, n, r in RECORDS if "RAILYARD" not in str(r["hand"])],
)
def test_an_edit_gives_back_what_old_evidence_names(
    system: str,
    record: Any,  # noqa: ANN401 - JSON
    tmp_path: Path,
) -> None:
    switch = found_by_old_release(system, tmp_path, record)
    first = switch.snapshot()
    baseline = parse_request(
        json.dumps({"endpoint": ENDPOINT, "os": system}), {BASELINE_VARIABLE: record["baseline"]}
    ).baseline
    assert baseline is not None
    previous = previous_of({PREVIOUS_OUTPUT: json.dumps(record["evidence"])})
    assert previous is not None
    exchange = TALK[system](switch)
    apply(exchange, previous)
    kept = dict([*previous.ports.items()][:1])
    fewer = previous.model_copy(update={"ports": kept})
    edit(exchange, previous, fewer, baseline)
    assert diff_states(exchange.read(fewer).state, fewer) == ()
    restore(exchange, fewer, baseline)
    assert switch.snapshot() == first


def test_what_is_read_is_written_in_the_new_form() -> None:
    old = {"implied": ["mtu_bytes"], "bindings": {"trust": {"a b": "c"}}, "mtu_bytes": 9100}
    port = PortState.model_validate(old)
    assert PortState.model_validate_json(port.model_dump_json()) == port
    assert not {"implied", "bindings"} & {*port.model_dump()}
    assert (port.native["mtu_bytes"], port.native["admin_up"]) == ("default", "written")
    assert json.loads(port.native["trust"]) == {"a b": "c"}
    # The inputs of steps had the key and said nothing by it.
    assert PortState.model_validate({"implied": None}) == PortState()
    assert SwitchState.model_validate({"implied": None}) == SwitchState()


@pytest.mark.parametrize(
    "broken", [{"implied": 5}, {"rows": ["a"]}, {"ports": {"1": {"bindings": {"trust": 3}}}}]
)
def test_a_broken_old_state_is_refused(broken: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        SwitchState.model_validate(broken)
