"""SONiC as the rest of the house knows it."""

from __future__ import annotations

from typing import Final

from components.fabric.identity import Field, IdentityQuestions
from components.fabric.ports import marking_of
from components.fabric.state import PortState, SwitchState
from components.fabric.systems import bash_cli, switch_system
from components.fabric.systems.base import Drain, Script
from components.fabric.systems.sonic import counters
from components.fabric.systems.sonic import routing as bgp
from components.fabric.systems.sonic import rows as db
from components.fabric.systems.sonic.driver import SonicDriver
from components.fabric.systems.sonic.port import vlan_members
from components.model.fabric import Rdma


def plan_intent(rdma: Rdma) -> switch_system.Intent:
    """Every setting is set separately, with the DSCP and the class of each priority."""
    lossless = rdma.mode == "lossless"
    return switch_system.Intent(
        # The pools of the platform's template, which lossless buffers are taken from.
        SwitchState(roce="lossless" if lossless else None),
        PortState(
            trust="L3",
            ecn={rdma.traffic_class: marking_of(rdma, "sonic")},
            strict_classes=(rdma.cnp_priority,),
            dscp_priorities={rdma.dscp: rdma.priority, rdma.cnp_dscp: rdma.cnp_priority},
            priority_classes={
                rdma.priority: rdma.traffic_class,
                rdma.cnp_priority: rdma.cnp_priority,
            },
            # The platform's template pauses 3 and 4 on every port, so "none" must be set.
            pfc_priorities=(rdma.priority,) if lossless else (),
            lossless_buffers=(rdma.priority,) if lossless else None,
        ),
    )


def _link_words(wish: switch_system.LinkWish) -> dict[str, str]:
    """The fields of a row of PORT; speeds and offered speeds are in Mbit/s."""
    speed = f"{wish.speed_gbit_s * db.MBIT_PER_GBIT}" if wish.speed_gbit_s else None
    words = {"speed": speed, "fec": wish.fec}
    if wish.autoneg is not None:
        offered = f" {speed}" if speed and wish.autoneg else ""
        words["autoneg"] = f"on{offered}" if wish.autoneg else "off"
    return {key: text for key, text in words.items() if text}


_DB: Final = "sudo sonic-db-cli CONFIG_DB"
_KEYS: Final = f"{_DB} KEYS '*'"
_EACH_GOES: Final = f"xargs -r -n 1 {_DB} DEL"


def _around(desired: SwitchState, lines: switch_system.Lines) -> switch_system.Lines:
    """Refuse ports that no line can free, such as routed ones, then leave foreign VLANs.

    The switch ignores another tagging of a member, so such a member goes first.
    """
    names = f"({'|'.join(desired.ports)})"
    joined = rf"^(QUEUE|PORT_QOS_MAP|BUFFER_PG)\|[^|]*,|^QUEUE\|{names}\|.+-"
    routed = rf"^INTERFACE\|{names}(\||$)|^PORTCHANNEL_MEMBER\|.*\|{names}$"
    tests = {
        f"{_KEYS} | grep -Ecx 'PORT\\|{names}' | grep -qx {len(desired.ports)}": "a port of the "
        "file is not there",
        f"! {_KEYS} | grep -E '{joined}|{routed}'": "these rows are one for several queues or "
        "ports, or make a port routed or part of a bundle - executor device says what to do",
    }
    if desired.roce:
        tests |= {
            f"{_DB} HGET 'BUFFER_POOL|{db.LOSSLESS_POOL}' type | grep -Eqx 'ingress|both'": f"no "
            f"{db.LOSSLESS_POOL} - run sudo config qos reload once, save, and update again",
            f"! {_DB} HGET 'DEVICE_METADATA|localhost' buffer_model | grep -qx dynamic": "the "
            "buffer model is dynamic - executor device can set that",
        }
    other = {"tagged": "untagged", "untagged": "tagged"}
    members = {
        f"VLAN_MEMBER|Vlan{vlan}|{name}": other[tagging]
        for name, port in desired.ports.items()
        for vlan, tagging in vlan_members(port).items()
    }
    ours = "|".join(members).replace("|Vlan", "\\|Vlan").replace("|Ethernet", "\\|Ethernet")
    sent = [f'{{ {test} || {{ echo "Error: {why}"; false; }}; }}' for test, why in tests.items()]
    theirs = f"grep -E '^VLAN_MEMBER\\|.*\\|{names}$' | grep -Evx '{ours}'"
    sent.append(f"{_KEYS} | {theirs} | {_EACH_GOES}")
    for row, tagging in members.items():
        is_other = f"{_DB} HGET '{row}' tagging_mode | grep -qx {tagging}"
        sent.append(f"{{ ! {is_other} || {_DB} DEL '{row}'; }}")
    return (*map(Script, sent), *lines) if desired.ports else lines


def _around_undo(desired: SwitchState, lines: switch_system.Lines) -> switch_system.Lines:
    """Then restore the QoS of the platform's template, if it is in use, and delete our rows.

    A VLAN goes only if no other row names it: `config vlan del` refuses one with members or
    addresses, so it stays. Any other failure ends the undo.
    """
    alone = rf"{_KEYS} | grep -Ec '^VLAN(_MEMBER|_INTERFACE)?\|Vlan{{}}(\||$)' | grep -qx 1"
    sent = [
        f"{{ ! {alone.format(line.split()[-1])} || {line}; }}" if "vlan del" in line else line
        for line in lines
    ]
    template, ours = f"{_DB} HGET 'TC_TO_QUEUE_MAP|AZURE' 0 | grep -qx 0", db.OUR_NAME
    named = f"sudo sonic-cfggen -d --print-data | grep -F ': \"{ours}'"
    sent += [
        f"{{ ! {template} || sudo config qos reload --ports {','.join(desired.ports)}; }}",
        f"{{ {named} || {_DB} KEYS '*|{ours}*' | {_EACH_GOES}; }}",
    ]
    return (*map(Script, sent),) if desired.ports else lines


EXEC: Final = switch_system.ExecForm(
    expects=r"(?s)(?:.*\n)?applied\s*",
    commit=("echo applied",),
    lacks={"bgp": "addresses and BGP", "speed": "the speed of a port",
        "cable_m": "the length of a cable",
        "pfc_watchdog": "PFC watchdogs, their times and how often they look"},
    native=lambda name, port: db.write_settings(
        {
            each: dict.fromkeys(db.cells_of(name, row, tc), "unknown")
            for each, row, tc in db.settings_of(port)
        }
    ),
    around=_around,
    around_undo=_around_undo,
    # sonic-utilities, config/main.py, 202205 to 202511: the code is known, no switch was seen.
    unproven="that `config qos reload --ports` gives the ports the QoS of the platform again",
)  # fmt: skip


SYSTEM: Final = switch_system.SwitchSystem(
    driver=SonicDriver(),
    intent=plan_intent,
    session=bash_cli.SESSION,
    exec_form=EXEC,
    # The right to configure is asked for by `enter`: `sudo -n true`.
    identity=IdentityQuestions(
        release=Field("show version", r"^SONiC Software Version: (?:SONiC\.)?(\S+)"),
        model=(Field("show version", r"^HwSKU: (\S+)"),),
        # The command reference of sonic-utilities (sources.md#switch-identity): it shows no MAC.
        serial=Field("show version", r"^Serial Number: (\S+)"),
        marks=True,
    ),
    min_release=(counters.MIN_RELEASE, 0, 0),
    older="makes lossless buffers for priorities 3 and 4 only",
    reads_release=lambda text: counters.parse_branch(text) > 0,
    a_release="202405",
    native_of=lambda release: {bgp.RELEASE: str(release[0])},
    parse_release=lambda text: (counters.parse_branch(text), 0, 0),
    semi_lossless="its ports pause and are paused together",
    # `pfcwd_sw_enable`, the list of watched queues, came with 202205 as well (sonic-swss 2171).
    pfc_watchdog=(counters.MIN_RELEASE, 0, 0),
    cable_length=(counters.MIN_RELEASE, 0, 0),
    cable_per_port=True,
    # Queues 3 and 4 mark after `config qos reload` (sonic-buildimage, qos_config.j2).
    template_marks=frozenset({3, 4}),
    # The tables of the unified management framework came with 202012 (sonic-buildimage 5142).
    routing=(counters.MIN_RELEASE, 0, 0),
    routed=switch_system.RoutedForm(
        loopback="Loopback0",
        vlan="Vlan{}",
        link=(bgp.LINK_LOCAL,),
        max_paths=64,  # of 256 (sonic-bgp-global.yang, whose default is 1)
        sessions="show ip bgp summary",
        session="show ip bgp neighbors {}",
        cautions=(
            switch_system.Caution(
                "whether BGP sessions over ports without addresses come back after a boot of SONiC "
                "is not proven: issue 27723 of sonic-buildimage is open, and with FRR 10.5.1 they "
                "stay Idle (issue 26959)",
                "give the links an address, or restart one switch before the rack is in use and "
                "look at its sessions.",
                unnumbered=True,
            ),
            switch_system.Caution(
                f"SONiC's BGP before {bgp.UP_SINCE} takes rows that its own YANG refuses: while "
                "our sessions exist, it refuses `config apply-patch`, `config replace`, `config "
                "rollback` and `config interface breakout`",
                f"upgrade it to {bgp.UP_SINCE} or later, or do such changes before the first "
                "update.",
                until=(bgp.UP_SINCE, 0, 0),
            ),
        ),
    ),
    # TSA does nothing with frrcfgd (sonic-buildimage, issue 22729), which our BGP needs. The field
    # is in sonic-bgp-global.yang and frrcfgd.py (sources.md#graceful-drain). A release without it
    # shows nothing in FRR, and then the switch is not changed.
    drain=Drain(
        title="BGP graceful shutdown",
        away=(*db.document({bgp.GLOBALS: {bgp.SHUTDOWN: "true"}}),),
        back=(
            *db.document({bgp.GLOBALS: {bgp.SHUTDOWN: "false"}}),
            *db.delete_fields([(bgp.GLOBALS, bgp.SHUTDOWN)]),
        ),
        asks="sudo vtysh -c 'show running-config bgpd' | grep 'bgp graceful-shutdown'",
        is_away=r"^ +bgp graceful-shutdown\s*$",
    ),
    links=switch_system.LinkForm(_link_words),
    # sonic-utilities, config/stp.py, 202411: `portfast` with PVST, `edge_port` with MST.
    lacking={
        "bpdu_guard": "its spanning tree is off unless the site switches it on, and the field of "
        "an edge port depends on its mode"
    },
    mark_percent=None,
    class_shares=None,
    watchdog_ms=None,
    cnp_class=None,
    port_ecn="its driver has one profile of thresholds for the whole switch",
)
