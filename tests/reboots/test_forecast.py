"""What a preview says of hosts that will leave service, and what `deny` refuses."""

from __future__ import annotations

import pytest

from components.hosts.state import HostState
from components.model.cluster import Disruption
from components.reboots.forecast import departures_refused, render_departures
from tests.golden.site import changed_spec, load_example
from tests.reboots.played import groups_of

SPEC = load_example("dgx-roce")
GROUPS = groups_of(SPEC)
CARD = "nic.0000:05:00.0"
LEAVES = "WILL LEAVE SERVICE (group 1 of 2): gpu01"


def as_seen(changes: dict[str, str]) -> dict[str, HostState]:
    """gpu01 as planned, but for the changes; it is in service."""
    request = GROUPS[0].steps[0].request
    return {"gpu01": HostState({**request.settings, "pending.in_service": "yes", **changes})}


def test_a_host_as_planned_goes_nowhere() -> None:
    assert render_departures(GROUPS, as_seen({})) == ()
    assert render_departures(GROUPS, {}) == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {f"pending.boot.{CARD}.fw_num_of_vfs": "16 -> 32"},
            "WILL REBOOT (group 1 of 2): gpu01: nic 0000:05:00.0 fw_num_of_vfs 16 -> 32",
        ),
        (
            {f"{CARD}.vfs": "4"},
            "WILL LEAVE SERVICE (group 1 of 2): gpu01: nic 0000:05:00.0 vfs 4 -> 8",
        ),
        (
            {"driver.kind": "mlnx_ofed"},
            "",  # an inbox driver that is wanted is never brought by Railyard
        ),
        ({f"{CARD}.vfs": "0"}, ""),
        ({f"{CARD}.vfs": "4", "pending.in_service": "no"}, ""),
        ({f"{CARD}.mtu_bytes": "1500"}, ""),
        (
            {"pending.begun": "boot-7"},
            f"{LEAVES}: an earlier run took it out of service at boot boot-7, and did not finish",
        ),
    ],
)
def test_the_words_of_a_preview(changes: dict[str, str], words: str) -> None:
    assert "\n".join(render_departures(GROUPS, as_seen(changes))) == words


def test_an_edit_of_firmware_is_told_once() -> None:
    firmware = SPEC.host_defaults.firmware.model_copy(update={"ats": True})
    defaults = SPEC.host_defaults.model_copy(update={"firmware": firmware})
    spec = changed_spec(SPEC, host_defaults=defaults)
    groups = groups_of(spec)
    off = HostState({**groups[0].steps[0].request.settings, f"{CARD}.ats": "off"})
    half = HostState({**off.values, f"{CARD}.ats": "on", f"pending.boot.{CARD}.ats": "off -> on"})
    for state in (off, half):
        (line,) = render_departures(groups, {"gpu01": state})
        assert line == "WILL REBOOT (group 1 of 2): gpu01: nic 0000:05:00.0 ats off -> on"


def test_groups_are_told_by_number() -> None:
    spec = changed_spec(SPEC, disruption=Disruption(reboots="allow", max_unavailable=2))
    groups = groups_of(spec)
    waiting = {"pending.boot.update": "an update changed what only a boot loads"}
    both = {name: HostState(waiting) for name in ("gpu01", "gpu02")}
    lines = render_departures(groups, both)
    assert lines == tuple(
        f"WILL REBOOT (group 1 of 1): {name}: update {waiting['pending.boot.update']}"
        for name in ("gpu01", "gpu02")
    )


def test_deny_names_the_host_and_the_way_out() -> None:
    (text,) = departures_refused(GROUPS, as_seen({f"{CARD}.vfs": "4"}))
    assert text == (
        "disruption: gpu01 would be drained: nic 0000:05:00.0 vfs 4 -> 8\n"
        "  where  disruption.reboots = deny\n"
        "  fix    plan a window and set disruption.reboots to allow, or take the change back"
    )
    (text,) = departures_refused(GROUPS, as_seen({"pending.boot.driver.modules": "A -> B"}))
    assert "gpu01 would be rebooted: driver modules A -> B" in text
