"""What the Cumulus driver reads: transcripts of the vendor's page, and shapes of other clients."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from components.fabric.native import DEFAULT, WHOLE, WRITTEN, read_list
from components.fabric.state import EcnState, PortState, SwitchState
from components.fabric.systems.base import PauseCounters, PortCounters, Unreadable
from components.fabric.systems.cumulus.counters import parse_counters, parse_storms, with_storms
from components.fabric.systems.cumulus.driver import CONFIG, ROCE, CumulusDriver
from components.fabric.systems.cumulus.read import (
    PortConfig,
    parse_config,
    parse_port_names,
    parse_profile,
)

SINGLE_POOL = """\
                    operational            applied
------------------  ---------------------  ---------------------
enable                                     on
mode                lossless-single-ipool  lossless-single-ipool
pfc
  pfc-priority      3
  rx-enabled        enabled
  tx-enabled        enabled
  cable-length      100
congestion-control
  congestion-mode   ECN
  enabled-tc        0,3
  min-threshold     146.48 KB
  max-threshold     1.43 MB
  probability       100
trust
  trust-mode        pcp,dscp
RoCE SP->TC mapping and ETS configurations
=============================================
       switch-prio  traffic-class  scheduler-weight
    -  -----------  -------------  ----------------
    0  0            0              DWRR-50%
    3  3            3              DWRR-50%
    6  6            6              strict-priority
"""
MULTI_TC = (
    SINGLE_POOL.replace("lossless-single-ipool", f"{'lossy-multi-tc':<21}")
    .replace(
        "enable                                     on", f"{'state':<20}{'enabled':<23}enabled"
    )
    .replace(
        "  pfc-priority      3\n  rx-enabled        enabled\n  tx-enabled        enabled\n",
        "  pfc-priority      -\n",
    )
    .replace("146.48 KB", "163.00 KB")
    .replace("1.43 MB", "234.00 KB")
    .replace("0,3", "1,2,3")
    .replace("strict-priority", "DWRR-4%")
)


def test_the_transcript_of_a_lossless_profile() -> None:
    profile = parse_profile(ROCE, SINGLE_POOL)
    ecn = EcnState(min_kib=146, max_kib=1464)
    assert (profile.mode, profile.pfc_priorities) == ("lossless-single-ipool", (3,))
    assert (profile.trust, profile.strict_classes) == ("both", (6,))
    assert profile.ecn == {0: ecn, 3: ecn}


def test_the_transcript_of_a_profile_without_pause_and_strict_classes() -> None:
    profile = parse_profile(ROCE, MULTI_TC)
    assert (profile.mode, profile.pfc_priorities) == ("lossy-multi-tc", ())
    assert (profile.strict_classes, profile.ecn[1]) == ((), EcnState(min_kib=163, max_kib=234))


@pytest.mark.parametrize("text", ["", "enable   off\n", "state    disabled\nmode   lossless\n"])
def test_what_is_not_on_is_no_profile(text: str) -> None:
    assert parse_profile(ROCE, text).mode == "none"


@pytest.mark.parametrize(
    ("gone", "why"),
    [
        ("lossless-single-ipool", "no RoCE mode"),
        ("146.48 KB", "no ECN thresholds"),
        ("DWRR-50%\n    3  3            3              DWRR-50%\n    6  6", "no scheduler"),
    ],
)
def test_a_profile_of_another_form_is_shown_raw(gone: str, why: str) -> None:
    text = SINGLE_POOL.replace(gone, "?")
    if why == "no scheduler":
        text = SINGLE_POOL.partition("RoCE SP->TC")[0]
    with pytest.raises(Unreadable, match=why) as caught:
        parse_profile(ROCE, text)
    assert caught.value.text == text


def _show(tree: Mapping[str, object]) -> str:
    return json.dumps([{"header": {"model": "mqm"}}, {"set": tree}])


def test_a_configuration_with_grouped_keys() -> None:
    br = {"access": 111}
    config = parse_config(
        CONFIG,
        _show(
            {
                "bridge": {"domain": {"br_default": {"vlan": {"10-12,20": {}, "30": {}}}}},
                "interface": {
                    "swp1-3,swp7": {"link": {"mtu": 9000, "state": {"up": {}}}, "type": "swp"},
                    "swp2": {"bridge": {"domain": {"br_default": br}}},
                    "swp4": {"link": {"state": {"down": {}}}},
                    "swp5s0-1": {"bridge": {"domain": {"br_default": {"vlan": {"10": {}}}}}},
                    "vlan20": {"type": "svi", "vlan": 20},
                    "vlan11-12": {"type": "svi", "ip": {"ipv4": {"forward": "on"}}},
                    "bond1": {"bridge": {"domain": {"br_default": {"untagged": 30}}}},
                },
            }
        ),
    )
    assert config.vlans == (10, 11, 12, 20, 30)
    states = {name: port.state for name, port in config.ports.items()}
    two = states["swp2"]
    assert (two.mode, two.access_vlan, two.mtu_bytes, two.admin_up) == ("access", 111, 9000, True)
    assert (states["swp3"].mode, states["swp7"].mtu_bytes) == ("routed", 9000)
    assert not states["swp4"].admin_up
    assert states["swp5s1"].trunk_vlans == (10,)
    assert (states["bond1"].mode, states["bond1"].trunk_vlans) == ("hybrid", "all")
    assert config.holders == {
        111: ("swp2",),
        10: ("swp5s0", "swp5s1"),
        30: ("bond1",),
        20: ("vlan20",),
        11: ("vlan11",),
        12: ("vlan12",),
    }


def test_a_port_that_stands_nowhere_is_shut_and_has_the_default_mtu() -> None:
    wanted = SwitchState(ports={"swp1": PortState(mtu_bytes=0)})
    reading = CumulusDriver().parse({CONFIG: '[{"header": {}}]'}, wanted)
    port = reading.state.ports["swp1"]
    assert (port.admin_up, port.mtu_bytes, port.mode) == (False, 9216, "routed")
    assert port.native == dict.fromkeys(
        ("admin_up", "mtu_bytes", "pfc_watchdog", "adaptive_routing", "rest"), DEFAULT
    )
    words = read_list(reading.state.native[WHOLE]) or ()
    assert words[:2] == ("bridge domain br_default", "bridge domain br_default rest")


def _port_of(entry: Mapping[str, object], **tree: object) -> PortConfig:
    return parse_config(CONFIG, _show({"interface": {"swp1": entry}, **tree})).ports["swp1"]


def test_what_is_written_of_one_port_in_two_keys_is_put_together() -> None:
    both: dict[str, object] = {
        "swp1-2": {"link": {"mtu": 9000}, "bridge": {"domain": {"br_default": {}}}},
        "swp1": {"link": {"state": "down"}, "type": "swp"},
    }
    port = parse_config(CONFIG, _show({"interface": both})).ports["swp1"].state
    assert (port.mtu_bytes, port.admin_up, port.native["admin_up"]) == (9000, False, WRITTEN)
    assert (port.mode, port.trunk_vlans) == ("trunk", "all")


@pytest.mark.parametrize(
    ("member", "mode", "access", "trunk"),
    [
        ({"access": 20}, "access", 20, ()),
        ({"vlan": {"10-11": {}}}, "trunk", None, (10, 11)),
        ({"vlan": {"10": {}}, "untagged": 30}, "hybrid", 30, (10,)),
        ({"vlan": {"10": {}}, "untagged": "none"}, "hybrid", 0, (10,)),
        ({}, "trunk", None, "all"),
    ],
)
def test_a_member_of_the_bridge(
    member: dict[str, object], mode: str, access: int | None, trunk: object
) -> None:
    port = _port_of({"bridge": {"domain": {"br_default": member}}}).state
    assert (port.mode, port.access_vlan, port.trunk_vlans) == (mode, access, trunk)


@pytest.mark.parametrize(
    ("state", "watched"),
    [(None, None), ("enable", True), ("enabled", True), ("disable", False), ("off", False)],
)
def test_the_watchdog_of_a_port(state: str | None, watched: bool | None) -> None:  # noqa: FBT001
    written = {} if state is None else {"qos": {"pfc-watchdog": {"state": state}}}
    port = _port_of({"type": "swp", **written}).state
    assert port.pfc_watchdog is bool(watched)
    assert port.native["pfc_watchdog"] == (DEFAULT if watched is None else WRITTEN)


@pytest.mark.parametrize(
    ("said", "trust"),
    [
        ({"trust": "l3"}, "L3"),
        ({"trust": "both"}, "both"),
        ({"trust": "port"}, "port"),
        ({}, "L2"),
        ({"trust": "odd"}, None),
    ],
)
def test_a_port_with_a_mapping_of_its_own_trusts_what_that_says(
    said: dict[str, str], trust: str | None
) -> None:
    own = {"qos": {"mapping": {"profile": "mine"}}}
    assert _port_of(own, qos={"mapping": {"mine": said}}).trust == trust
    assert _port_of({"type": "swp"}, qos={"mapping": {"mine": said}}).trust is None


@pytest.mark.parametrize(
    ("entry", "others"),
    [
        ({}, False),
        ({"type": "swp", "link": {"mtu": 9000, "state": "up"}}, False),
        ({"bridge": {"domain": {"br_default": {"access": 1, "untagged": 1, "vlan": {}}}}}, False),
        ({"qos": {"pfc-watchdog": {"state": "enable"}}}, False),
        ({"ip": {"address": {"10.1.1.0/31": {}}}}, False),  # `addresses` of the switch has it
        ({"ip": {"vrf": "RED"}}, True),
        ({"link": {"duplex": "full"}}, True),
        ({"bridge": {"domain": {"br_default": {"stp": {"admin-edge": "on"}}}}}, False),
        ({"bridge": {"domain": {"br_default": {"stp": {"network": "on"}}}}}, True),
        ({"bridge": {"domain": {"br_default": {}, "br_other": {}}}}, True),
        ({"bridge": {"domain": {"br_default": {}}, "port": 1}}, True),
        ({"qos": {"mapping": {}}}, True),
    ],
)
def test_what_no_driver_writes_is_noted(entry: dict[str, object], others: bool) -> None:  # noqa: FBT001
    assert (_port_of(entry).state.native["rest"] == WRITTEN) is others


@pytest.mark.parametrize(
    ("tree", "there", "ours"),
    [
        ({}, False, True),
        ({"bridge": {"domain": {"br_other": {}}}}, False, True),
        ({"bridge": {"domain": {"br_default": {}}}}, True, True),
        ({"bridge": {"domain": {"br_default": {"vlan": {"10": {}}}}}}, True, True),
        ({"bridge": {"domain": {"br_default": {"vlan": {}, "type": "vlan-aware"}}}}, True, False),
    ],
)
def test_whether_the_bridge_is_there_and_ours_alone(
    tree: dict[str, object],
    there: bool,  # noqa: FBT001 - a table
    ours: bool,  # noqa: FBT001 - the same
) -> None:
    words = parse_config(CONFIG, _show(tree)).words
    assert ("bridge domain br_default" not in words) is there
    assert ("bridge domain br_default rest" in words) is ours


@pytest.mark.parametrize(
    ("said", "metres"), [(40, 40), ("40", 40), ("far", 0), (None, 0), ({"x": 1}, 0)]
)
def test_the_longest_cable_of_the_profile(said: object, metres: int) -> None:
    tree = {"qos": {"roce": {"enable": "on", "cable-length": said}}}
    assert parse_config(CONFIG, _show(tree)).cable_m == metres


@pytest.mark.parametrize(("rx", "tx"), [("enabled", "disabled"), ("disabled", "enabled")])
def test_a_pause_of_one_direction_is_no_lossless_class(rx: str, tx: str) -> None:
    text = SINGLE_POOL.replace("rx-enabled        enabled", f"rx-enabled        {rx}")
    text = text.replace("tx-enabled        enabled", f"tx-enabled        {tx}")
    assert parse_profile(ROCE, text).pfc_priorities == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nv: no such thing", "the JSON is broken"),
        ("[]", "neither a header"),
        (_show({"bridge": {"domain": {"br_default": {"vlan": {"x": {}}}}}}), "invalid literal"),
    ],
)
def test_a_configuration_of_another_form_is_shown_raw(text: str, why: str) -> None:
    with pytest.raises(Unreadable, match=why) as caught:
        parse_config(CONFIG, text)
    assert caught.value.text == text


def test_ports_are_those_called_swp() -> None:
    table = '{"eth0": {}, "swp10": {}, "swp2": {}, "swp3s1": {}, "lo": {}, "bond1": {}}'
    assert parse_port_names("x", table) == ("swp2", "swp3s1", "swp10")
    with pytest.raises(Unreadable, match="no port"):
        parse_port_names("x", "{}")


def test_counters_as_numbers_or_as_the_text_form_prints_them() -> None:
    roce = {
        "rx-stats": {
            "rx-roce-stats": {"roce-bytes": "1.50 KB", "no-buffer-discard": 1},
            "rx-non-roce-stats": {"non-roce-bytes": 7, "no-buffer-discard": "2"},
        },
        "tx-stats": {"tx-ecn-stats": {"ecn-marked-packets": 5}},
    }
    queues = {
        "egress-queue-stats": {"0": {"tx-bytes": "0 Bytes"}, "3": {"tx-bytes": 9}},
        # Keys: a public tool's own tests (aliaydemir/lldpq-src-edt).
        "pfc-stats": {"3": {"rx-pause-frames": 200, "tx-pause-frames": 300}},
    }
    found = parse_counters("a", json.dumps(roce), "b", json.dumps(queues))
    counted = {tc: (c.rx_bytes, c.tx_bytes) for tc, c in found.by_priority.items()}
    assert counted == {0: (7, 0), 3: (1536, 9)}
    assert (found.ecn_marked, found.rx_discards) == (5, 3)
    assert found.pauses == {3: PauseCounters(200, 300)}
    assert found.unread == ()


ARRIVED = {"rx-roce-stats": {"roce-bytes": 8}, "rx-non-roce-stats": {"non-roce-bytes": 1}}
SENT = {"egress-queue-stats": {"3": {"tx-bytes": 9}}}


@pytest.mark.parametrize(
    ("roce", "queues", "lost", "kept"),
    [
        ("{}", json.dumps(SENT), "no roce-bytes", (None, 9)),
        (json.dumps({"rx-stats": ARRIVED}), "{}", "no egress queue", (8, None)),
    ],
)
def test_counters_of_an_unknown_form_leave_the_others(
    roce: str, queues: str, lost: str, kept: tuple[int | None, int | None]
) -> None:
    found = parse_counters("a", roce, "b", queues)
    assert (found.by_priority[3].rx_bytes, found.by_priority[3].tx_bytes) == kept
    assert any(lost in each.why for each in found.unread)
    assert {each.text for each in found.unread} <= {roce, queues}


def test_a_class_that_only_departs_has_arrived_without_bytes() -> None:
    queues = {"egress-queue-stats": {"3": {"tx-bytes": 9}, "5": {"tx-bytes": 2}, "all": {}}}
    found = parse_counters("a", json.dumps({"rx-stats": ARRIVED}), "b", json.dumps(queues))
    counted = {tc: (c.rx_bytes, c.tx_bytes) for tc, c in found.by_priority.items()}
    assert counted == {0: (1, None), 3: (8, 9), 5: (0, 2)}


@pytest.mark.parametrize(
    ("output", "refused"),
    [
        ("", None),
        ("applied [rev_id: 5]\n", None),
        ("Invalid config [rev_id: 6]\n  why\n", "Invalid config [rev_id: 6] why"),
        ("-bash: nv: command not found\n[status 127]\n", "-bash: nv: command not found"),
        ("something else\n[status 2]\n", "something else"),
        (
            "reloadingError: Could not connect to nvued.\n",
            "reloadingError: Could not connect to nvued.",
        ),
        ("Error: Failed to parse YAML\n", "Error: Failed to parse YAML"),
        ("[status 2]\n", "[status 2]"),
        ("\n[status unknown]\n", "[status unknown]"),
    ],
)
def test_refusals_are_found_by_status_and_by_text(output: str, refused: str | None) -> None:
    assert CumulusDriver().find_refusal(output) == refused


WATCHDOG = """\
                 operational  applied\x20
---------------  -----------  -------\x20
state            enabled      enabled\x20

PFC WD Status\x20
===========================\x20
    traffic-class  status    deadlock-count\x20
    -------------  --------  --------------\x20

    0              OK        0\x20
    1              OK        3\x20
    2              DEADLOCK  2 \x20
    3              OK        0\x20
    4              OK        0\x20
    5              OK        0\x20
    6              OK        0\x20
    7              DEADLOCK  3
"""
"""CumulusNetworks/docs, page "Quality of Service" and the NVUE reference."""


def test_the_deadlocks_of_each_class() -> None:
    command = "nv show interface swp1 qos pfc-watchdog"
    assert parse_storms(command, WATCHDOG) == {0: 0, 1: 3, 2: 2, 3: 0, 4: 0, 5: 0, 6: 0, 7: 3}
    off = WATCHDOG.partition("\n\n")[0].replace("enabled", "disabled")
    assert parse_storms(command, off) == {}
    other = WATCHDOG.replace("deadlock-count", "storms").replace("state ", "mode  ")
    with pytest.raises(Unreadable, match="no table of the watchdog"):
        parse_storms(command, other)
    counted = PortCounters({}, 4, 7)
    found = with_storms(counted, command, other, None)
    assert (found.ecn_marked, found.storms) == (4, {})
    assert [(each.way, each.command) for each in found.unread] == [("storms", command)]
    older = "Error: Invalid parameter"  # before 5.6
    assert with_storms(counted, command, older, older) == counted
