"""The rules on settings of a host that are not ours, one look at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from components.core.key_values import HostState, parse_state
from components.hosts.harms import (
    CARD_RULES,
    VF_RULES,
    Guarded,
    GuardedCard,
    find_foreign_settings,
    headroom_bytes,
)
from components.model.guard_spec import HostGuards

CARD = GuardedCard("0000:05:00.0", "enp5s0", gbit_s=100, mtu_bytes=9000, vfs=2)
HOST = Guarded((CARD,), priority=3, cnp_priority=6, pauses=True, attached=True)
RAILS = replace(HOST, rails=("enp5s0", "enp6s0.7"))
NIC, CONF = "nic.0000:05:00.0", "kernel.sysctl.net.ipv4.conf"


def kinds(*lines: str, host: Guarded = HOST, ours: str = "") -> list[str]:
    facts = parse_state("".join(f"{line}\n" for line in lines))
    owned = HostState(dict.fromkeys(ours.split(), "x"))
    return [f"{one.kind} {one.found.setting}" for one in find_foreign_settings(host, owned, facts)]


@pytest.mark.parametrize(
    "line",
    [
        f"{NIC}.priority_classes=1,0,2,3,4,5,6,7",
        f"{NIC}.priority_classes=0,0,0,3,0,0,6,0",  # each of ours has its own
        f"{NIC}.priority_classes=1,0,2,4,3,5,7,6",
        f"{NIC}.priority_classes=unsupported",
        f"{NIC}.ets=vendor,vendor,vendor,vendor,vendor,vendor,vendor,vendor",
        f"{NIC}.ets=ets:10,ets:10,ets:10,ets:30,ets:10,ets:10,strict,ets:20",
        f"{NIC}.ets=ets:12,ets:12,ets:12,ets:12,ets:12,ets:12,ets:14,ets:14",
        f"{NIC}.ets=unsupported",
        f"{NIC}.tc3_rate=unlimited",
        f"{NIC}.tc3_rate=100.0",
        f"{NIC}.tc4_rate=1.0",  # the class of others
        f"{NIC}.tc3_rate=absent",
        f"{NIC}.dscp_map=0:,07,06,05,04,03,02,01,00,, 3:,31,30,29,28,27,26,25,24,, 6:,48,",
        f"{NIC}.dscp_map=3:,26,, 0:,24,25,46,",  # what is elsewhere is not in ours
        f"{NIC}.dscp_map=unsupported",
        f"{NIC}.buffers=130944,130944,0,0,0,0,0,0/0,0,0,1,0,0,0,0",
        f"{NIC}.buffers=20000,130944,0,0,0,0,0,0/0,0,0,1,0,0,0,0",  # that of lossy priorities
        f"{NIC}.buffers=unsupported",
        "vf.0000:05:00.0.0.max_rate_mbit_s=100000",
        "vf.0000:05:00.0.0.link_state=enable",
        "vf.0000:05:00.0.0.trust=off",  # a VF that no pod has: its attachment sets it
        "vf.0000:05:00.0.0.spoofchk=on",
        "vf.0000:05:00.0.7.link_state=disable",  # beyond ours
        "nic.0000:07:00.0.tc3_rate=1.0",  # a card that is not in the file
    ],
)
def test_what_does_no_harm_is_not_said(line: str) -> None:
    assert kinds(line) == []


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ((f"{NIC}.priority_classes=0,0,0,0,0,0,0,0",), ["host.priority_classes priority_classes"]),
        ((f"{NIC}.ets=ets:0,ets:0,ets:50,ets:0,ets:50,vendor,vendor,strict",), ["host.ets ets"]),
        ((f"{NIC}.ets=ets:13,ets:13,ets:13,ets:11,ets:13,ets:13,ets:12,ets:12",), ["host.ets ets"]),
        # RoCE alone is strict, and congestion notifications wait for it.
        ((f"{NIC}.ets=ets:20,ets:20,ets:20,strict,ets:10,ets:10,ets:10,ets:10",), ["host.ets ets"]),
        ((f"{NIC}.tc3_rate=99.9",), ["host.rate_limit tc3_rate"]),
        (
            (f"{NIC}.priority_classes=1,0,2,5,4,3,6,7", f"{NIC}.tc5_rate=10.0"),
            ["host.rate_limit tc5_rate"],
        ),
        ((f"{NIC}.dscp_map=3:,26,24,01,",), ["host.dscp_map priority of DSCP 1"]),
        ((f"{NIC}.buffers=65295,0,0,0,0,0,0,0/0,0,0,0,0,0,0,0",), ["host.buffers buffers"]),
        (
            (f"{NIC}.buffers=66000,0,0,0,0,0,0,0/0,0,0,0,0,0,0,0", f"{NIC}.cable_length_m=100"),
            ["host.buffers buffers"],
        ),
        (
            ("vf.0000:05:00.0.0.min_rate_mbit_s=500", "vf.0000:05:00.0.1.min_rate_mbit_s=0"),
            ["host.rate_limit min_rate_mbit_s"],
        ),
        (
            ("vf.0000:05:00.0.0.trust=off", "vf.0000:05:00.0.0.place=away"),
            ["host.vf_rights trust"],
        ),
    ],
)
def test_what_harms_is_said(lines: tuple[str, ...], found: list[str]) -> None:
    assert kinds(*lines) == found
    assert kinds(*lines, ours=" ".join(line.partition("=")[0] for line in lines)) == (
        found if "dscp_map" in found[0] else []
    )


def test_a_guarantee_that_all_vfs_have_harms_none() -> None:
    assert kinds(*(f"vf.0000:05:00.0.{n}.min_rate_mbit_s=500" for n in (0, 1))) == []


def test_a_dscp_that_is_ours_is_drift() -> None:
    assert kinds(f"{NIC}.dscp_map=3:,26,01,", ours=f"{NIC}.dscp1_priority") == []


def test_a_class_that_never_pauses_needs_no_headroom() -> None:
    small = f"{NIC}.buffers=20016,0,0,0,0,0,0,0/0,0,0,0,0,0,0,0"
    assert kinds(small, host=replace(HOST, pauses=False)) == []


@pytest.mark.parametrize(
    ("device", "of_all", "setting", "found"),
    [
        (2, 1, "rp_filter", ""),
        (0, 1, "rp_filter", "net.ipv4.conf.all"),
        (1, 0, "rp_filter", "net.ipv4.conf.enp5s0"),
        (1, 2, "rp_filter", ""),
        (1, 1, "arp_ignore", ""),
        (1, 2, "arp_ignore", ""),
        (1, 3, "arp_ignore", "net.ipv4.conf.all"),
        (0, 0, "arp_ignore", "net.ipv4.conf.enp5s0"),
        (0, 1, "arp_announce", ""),
        (0, 0, "arp_announce", "net.ipv4.conf.enp5s0"),
    ],
)
def test_of_device_and_all_the_greater_counts(
    device: int, of_all: int, setting: str, found: str
) -> None:
    lines = (f"{CONF}.enp5s0.{setting}={device}", f"{CONF}.all.{setting}={of_all}")
    facts = parse_state("".join(f"{line}\n" for line in lines))
    said = find_foreign_settings(RAILS, HostState({}), facts)
    assert [one.found.where for one in said] == ([f"kernel.sysctl.{found}"] if found else [])


def test_arp_that_is_answered_by_the_route_is_no_flux() -> None:
    lines = (f"{CONF}.enp5s0.arp_ignore=0", f"{CONF}.all.arp_ignore=0", f"{CONF}.all.arp_filter=1")
    assert kinds(*lines, host=RAILS) == []


def test_headroom_is_that_of_the_driver() -> None:
    """(301 + 2.16 * metres) * Gbit/s + 2.72 * MTU, and the greatest packet."""
    assert headroom_bytes(100, 9000, 7) == 316 * 100 + 24480 + 9216
    assert headroom_bytes(25, 1500, 100) == 517 * 40 + 4080 + 9216


def test_every_kind_of_the_file_has_a_rule() -> None:
    ruled = {*CARD_RULES, *(rule.kind for rule in VF_RULES), "host.ip"}
    assert ruled == {f"host.{name}" for name in HostGuards.model_fields}
