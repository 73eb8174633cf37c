"""What a preview says of hosts that will leave service, and what `deny` refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from components.core.key_values import HostState
from components.disruption.disruption_plan import RebootGroup
from components.disruption.forecast import (
    departures_refused,
    forecast_departures,
    passing_refused,
)
from components.model.cards import DriverPackage
from components.model.cluster import Disruption
from tests.disruption.played import groups_of
from tests.golden.site import changed_spec, load_example
from tests.update.judged import written

SPEC = load_example("dgx-roce")
GROUPS = groups_of(SPEC)
CARD = "nic.0000:05:00.0"
DROPPED = "nic.0000:07:00.0"
"""A card that an earlier plan had."""
BACK = "as before Railyard"
BOTH = ("eswitch switchdev", "vfs 8")
LEAVES = "WILL LEAVE SERVICE (group 1 of 2): gpu01"


def as_seen(changes: dict[str, str]) -> dict[str, HostState]:
    """gpu01 as planned, but for the changes; it is in service."""
    request = GROUPS[0].steps[0].request
    return {"gpu01": HostState({**request.settings, "pending.in_service": "yes", **changes})}


def lines_of(groups: Sequence[RebootGroup], seen: Mapping[str, HostState]) -> tuple[str, ...]:
    """The lines of a preview about hosts that leave service."""
    return tuple(map(str, forecast_departures(groups, seen)))


def test_a_host_as_planned_goes_nowhere() -> None:
    assert lines_of(GROUPS, as_seen({})) == ()
    assert lines_of(GROUPS, {}) == ()


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
        (
            {"pending.begun": ""},
            f"{LEAVES}: an earlier run took it out of service, and did not finish",
        ),
        ({f"{DROPPED}.vfs": "8"}, f"{LEAVES}: nic 0000:07:00.0 vfs 8 -> {BACK}"),
        (
            {f"{DROPPED}.vfs": "8", f"pending.drain.{DROPPED}.vfs": "waits"},
            f"{LEAVES}: nic 0000:07:00.0 vfs 8 -> {BACK}",
        ),
        (
            {f"{DROPPED}.vfs": "8", f"{DROPPED}.eswitch": "switchdev"},
            f"{LEAVES}: {'; '.join(f'nic 0000:07:00.0 {was} -> {BACK}' for was in BOTH)}",
        ),
        (
            {
                f"{DROPPED}.fw_num_of_vfs": "16",
                f"pending.back.{DROPPED}.fw_num_of_vfs": "16 -> 8",
                f"pending.boot.{DROPPED}.fw_num_of_vfs": "16 -> 32",
            },
            "WILL REBOOT (group 1 of 2): gpu01: nic 0000:07:00.0 fw_num_of_vfs 16 -> 8, " + BACK,
        ),
        (
            {"pending.back.kernel.cmdline.iommu": "pt -> default"},
            f"WILL REBOOT (group 1 of 2): gpu01: kernel cmdline iommu pt -> default, {BACK}",
        ),
        ({f"pending.back.{DROPPED}.fw_num_of_vfs": "16 -> 16"}, ""),  # it was so before
        (
            {  # taken back while it waits for its start
                f"pending.back.{DROPPED}.fw_num_of_vfs": "8 -> 8",
                f"pending.boot.{DROPPED}.fw_num_of_vfs": "8 -> 16",
            },
            "",
        ),
        ({f"{DROPPED}.vfs": "absent"}, ""),  # it is not in the host any more either
        ({f"{DROPPED}.vfs": "0", f"{DROPPED}.eswitch": "switchdev"}, ""),
        ({f"{DROPPED}.vfs": "8", "pending.in_service": "no"}, ""),
        ({f"{DROPPED}.mtu_bytes": "9000", "driver.version": "24.10"}, ""),
        (
            {f"pending.drain.{CARD}.vfs": "waits"},
            f"{LEAVES}: nic 0000:05:00.0 vfs waits",
        ),
        (
            {"pending.drain.vf.0000:05:00.0.3.guid": "waits"},
            f"{LEAVES}: vf 0000:05:00.0.3 guid waits",
        ),
    ],
)
def test_the_words_of_a_preview(changes: dict[str, str], words: str) -> None:
    assert "\n".join(lines_of(GROUPS, as_seen(changes))) == words


def guids(changes: dict[str, str]) -> tuple[str, ...]:
    """What a preview says where the first VF of gpu01's first HCA shall have a GUID."""
    (group, *others) = GROUPS
    (step,) = group.steps
    key = "vf.0000:05:00.0.0.guid"
    settings = {**step.request.settings, key: "0000000000000001"}
    wanting = replace(step, request=replace(step.request, settings=settings))
    groups = (replace(group, steps=(wanting,)), *others)
    return lines_of(groups, as_seen({key: "0000000000000000", **changes}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, f"{LEAVES}: vf 0000:05:00.0.0 guid 0000000000000000 -> 0000000000000001"),
        ({"vf.0000:05:00.0.0.guid": "absent"}, ""),  # its VF is made with it
        ({f"{CARD}.vfs": "0"}, ""),
        ({"pending.in_service": "no"}, ""),
    ],
)
def test_the_guid_of_a_vf_takes_it_from_its_job(changes: dict[str, str], words: str) -> None:
    assert "\n".join(guids(changes)) == words


RELOADS = "reboots unless the modules can be reloaded"


def driven(changes: dict[str, str]) -> tuple[Sequence[RebootGroup], dict[str, HostState]]:
    """The site with a driver of NVIDIA's, and gpu01 as planned but for the changes."""
    package = DriverPackage(kind="doca_ofed", version="3.1.0")
    defaults = SPEC.host_defaults.model_copy(update={"driver": package})
    groups = groups_of(changed_spec(SPEC, host_defaults=defaults))
    settings = groups[0].steps[0].request.settings
    return groups, {"gpu01": HostState({**settings, "pending.in_service": "yes", **changes})}


def test_a_driver_may_need_a_boot_on_a_host_in_service() -> None:
    groups, seen = driven({"driver.kind": "inbox"})
    assert lines_of(groups, seen) == (f"{LEAVES}: driver kind inbox -> doca_ofed; {RELOADS}",)
    (text,) = written(departures_refused(groups, seen))
    assert "gpu01 would be drained: driver kind inbox -> doca_ofed" in text


def test_a_driver_may_need_a_boot_on_an_idle_host() -> None:
    groups, seen = driven({"driver.kind": "inbox", "pending.in_service": "no"})
    assert lines_of(groups, seen) == (
        f"MAY REBOOT (group 1 of 2): gpu01: driver kind inbox -> doca_ofed; {RELOADS}",
    )
    (text,) = written(departures_refused(groups, seen))
    assert text.startswith("disruption: gpu01 would perhaps be rebooted: driver kind inbox")


def test_a_driver_that_comes_with_a_boot_is_told_as_one() -> None:
    groups, seen = driven({"driver.kind": "inbox", "pending.boot.update": "an update"})
    (line,) = lines_of(groups, seen)
    assert line.startswith("WILL REBOOT")
    assert RELOADS not in line


def test_a_driver_where_none_is_loaded_takes_its_host_out_of_service() -> None:
    groups, seen = driven({"driver.kind": "absent"})
    assert lines_of(groups, seen) == (f"{LEAVES}: driver kind absent -> doca_ofed",)


def test_where_no_driver_is_loaded_none_needs_a_boot() -> None:
    changes = {"driver.kind": "absent", "driver.version": "absent", "pending.in_service": "no"}
    assert lines_of(*driven(changes)) == ()


def test_firmware_of_a_guest_waits_for_its_hypervisor() -> None:
    groups = groups_of(load_example("esxi-roce"))
    settings = groups[0].steps[0].request.settings
    key = next(key for key in settings if key.endswith(".ats"))
    seen = HostState({**settings, f"pending.boot.{key}": "off -> on", "pending.in_service": "yes"})
    assert lines_of(groups, {groups[0].hosts[0]: seen}) == ()


def test_groups_do_not_pass_over_a_host_that_is_away() -> None:
    waiting = {"gpu02": HostState({"pending.boot.update": "an update"})}
    away = {"gpu01": "gpu01 (192.168.2.11:22): no answer"}
    (text,) = written(passing_refused(GROUPS, waiting, away))
    assert text == (
        "unreachable: gpu01 (192.168.2.11:22): no answer\n"
        "  where  gpu01 is in group 1 of 2, and gpu02 of group 2 would be rebooted in this update:"
        " a host that did not come back ends the groups after it\n"
        "  fix    bring gpu01 back, or take it out of the file"
    )
    assert passing_refused(GROUPS, {}, away) == ()
    assert passing_refused(GROUPS, as_seen({f"{CARD}.vfs": "4"}), {"gpu02": "no answer"}) == ()


def test_firmware_of_a_card_stays_while_one_of_its_ports_wants_it() -> None:
    firmware = SPEC.host_defaults.firmware.model_copy(update={"manage": True})
    defaults = SPEC.host_defaults.model_copy(update={"firmware": firmware})
    groups = groups_of(changed_spec(SPEC, host_defaults=defaults))
    settings = groups[0].steps[0].request.settings
    back = {
        f"pending.back.nic.{pci}.fw_num_of_vfs": "16 -> 8"
        for pci in ("0000:05:00.0", "0000:05:00.1")
    }
    assert lines_of(groups, {"gpu01": HostState({**settings, **back})}) == ()


def test_an_edit_of_firmware_is_told_once() -> None:
    firmware = SPEC.host_defaults.firmware.model_copy(update={"ats": True})
    defaults = SPEC.host_defaults.model_copy(update={"firmware": firmware})
    spec = changed_spec(SPEC, host_defaults=defaults)
    groups = groups_of(spec)
    off = HostState({**groups[0].steps[0].request.settings, f"{CARD}.ats": "off"})
    half = HostState({**off.values, f"{CARD}.ats": "on", f"pending.boot.{CARD}.ats": "off -> on"})
    for state in (off, half):
        (line,) = lines_of(groups, {"gpu01": state})
        assert line == "WILL REBOOT (group 1 of 2): gpu01: nic 0000:05:00.0 ats off -> on"


@pytest.mark.parametrize("needs", ["power_cycle", "mlxfwreset"])
@pytest.mark.parametrize("fact", ["fw_needs", "fw_loads"])
def test_firmware_that_a_reboot_does_not_load_reboots_nothing(fact: str, needs: str) -> None:
    firmware = SPEC.host_defaults.firmware.model_copy(update={"ats": True})
    defaults = SPEC.host_defaults.model_copy(update={"firmware": firmware})
    groups = groups_of(changed_spec(SPEC, host_defaults=defaults))
    settings = groups[0].steps[0].request.settings
    changes = {
        f"{CARD}.ats": "off",
        f"{CARD}.{fact}": needs,
        f"pending.back.{CARD}.fw_num_of_vfs": "16 -> 8",
    }
    assert lines_of(groups, {"gpu01": HostState({**settings, **changes})}) == ()


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (4, "WILL REBOOT (group 1 of 2): gpu01: nic 0000:05:00.0 fw_num_of_vfs 16 -> 4"),
        (16, ""),  # taken back: no start is due any more
    ],
)
def test_an_edit_while_an_older_value_waits(wanted: int, words: str) -> None:
    firmware = SPEC.host_defaults.firmware.model_copy(update={"manage": True, "num_of_vfs": wanted})
    defaults = SPEC.host_defaults.model_copy(update={"firmware": firmware})
    groups = groups_of(changed_spec(SPEC, host_defaults=defaults))
    settings = groups[0].steps[0].request.settings
    key = f"{CARD}.fw_num_of_vfs"
    waits = HostState({**settings, key: "8", f"pending.boot.{key}": "16 -> 8"})
    assert "\n".join(lines_of(groups, {"gpu01": waits})) == words


def test_a_card_that_is_not_there_is_no_reason_to_boot() -> None:
    firmware = SPEC.host_defaults.firmware.model_copy(update={"manage": True})
    defaults = SPEC.host_defaults.model_copy(update={"firmware": firmware})
    groups = groups_of(changed_spec(SPEC, host_defaults=defaults))
    settings = groups[0].steps[0].request.settings
    gone = {key: "absent" for key in settings if key.startswith(CARD)}
    assert lines_of(groups, {"gpu01": HostState({**settings, **gone})}) == ()


def test_groups_are_told_by_number() -> None:
    spec = changed_spec(SPEC, disruption=Disruption(reboots="allow", max_unavailable=2))
    groups = groups_of(spec)
    waiting = {"pending.boot.update": "an update changed what only a boot loads"}
    both = {name: HostState(waiting) for name in ("gpu01", "gpu02")}
    lines = lines_of(groups, both)
    assert lines == tuple(
        f"WILL REBOOT (group 1 of 1): {name}: update {waiting['pending.boot.update']}"
        for name in ("gpu01", "gpu02")
    )


def test_deny_names_the_host_and_the_way_out() -> None:
    (text,) = written(departures_refused(GROUPS, as_seen({f"{CARD}.vfs": "4"})))
    assert text == (
        "disruption: gpu01 would be drained: nic 0000:05:00.0 vfs 4 -> 8\n"
        "  where  disruption.reboots = deny\n"
        "  fix    plan a window and set disruption.reboots to allow, or take the change back"
    )
    (text,) = written(
        departures_refused(GROUPS, as_seen({"pending.boot.driver.modules": "A -> B"}))
    )
    assert "gpu01 would be rebooted: driver modules A -> B" in text
