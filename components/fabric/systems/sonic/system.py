"""SONiC as the rest of the house knows it."""

from __future__ import annotations

import re
from typing import Final

from components.fabric.identity import Field, IdentityQuestions
from components.fabric.queues import marking_of
from components.fabric.state import PortState, SwitchState
from components.fabric.systems import bash_cli
from components.fabric.systems.base import Drain, Script
from components.fabric.systems.sonic import exec as sonic_exec
from components.fabric.systems.sonic import routing as bgp
from components.fabric.systems.sonic.driver import SonicDriver
from components.fabric.systems.sonic.rows import (
    MBIT_PER_GBIT,
    MIN_RELEASE,
    delete_fields,
    document,
    parse_branch,
)
from components.fabric.systems.switch_system import (
    Caution,
    ExecForm,
    Intent,
    LinkForm,
    LinkWish,
    RoutedForm,
    SwitchSystem,
)
from components.model.fabric import Rdma


def plan_intent(rdma: Rdma) -> Intent:
    """Every part on its own, and which DSCP and which class belong to a priority."""
    lossless = rdma.mode == "lossless"
    return Intent(
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
            # The platform's template pauses 3 and 4 on every port, so "none" must be said.
            pfc_priorities=(rdma.priority,) if lossless else (),
            lossless_buffers=(rdma.priority,) if lossless else None,
        ),
    )


def _link_words(wish: LinkWish) -> dict[str, str]:
    """The fields of a row of PORT: Mbit/s, and of them what is offered."""
    speed = f"{wish.speed_gbit_s * MBIT_PER_GBIT}" if wish.speed_gbit_s else None
    words = {"speed": speed, "fec": wish.fec}
    if wish.autoneg is not None:
        offered = f" {speed}" if speed and wish.autoneg else ""
        words["autoneg"] = f"on{offered}" if wish.autoneg else "off"
    return {key: text for key, text in words.items() if text}


SYSTEM: Final = SwitchSystem(
    driver=SonicDriver(),
    intent=plan_intent,
    session=bash_cli.SESSION,
    exec_form=ExecForm(
        render=bash_cli.render_chain,
        mark=bash_cli.mark_chain,
        enter=(*SonicDriver.enter, *SonicDriver.configure),
        commit=("echo applied",),
        save=(Script(SonicDriver.save),),
        save_enter=SonicDriver.enter,
        expects=re.compile(r"(?:.*\n)?applied\s*", re.DOTALL),
        start=sonic_exec.start,
        prepare=sonic_exec.prepare,
        back=sonic_exec.back,
        find_missing=sonic_exec.find_missing,
        longest=bash_cli.LONGEST_ARGUMENT,
    ),
    # The right to configure is asked for by `enter`: `sudo -n true`.
    identity=IdentityQuestions(
        release=Field("show version", r"^SONiC Software Version: (?:SONiC\.)?(\S+)"),
        model=(Field("show version", r"^HwSKU: (\S+)"),),
        # The command reference of sonic-utilities (sources.md#switch-identity); it has no MAC.
        serial=Field("show version", r"^Serial Number: (\S+)"),
        marks=True,
    ),
    min_release=(MIN_RELEASE, 0, 0),
    older="makes lossless buffers for priorities 3 and 4 only",
    reads_release=lambda text: parse_branch(text) > 0,
    a_release="202405",
    native_of=lambda release: bgp.release_words(release[0]),
    parse_release=lambda text: (parse_branch(text), 0, 0),
    semi_lossless="its ports pause and are paused together",
    # `pfcwd_sw_enable`, which says what is watched, came with 202205 as well (sonic-swss 2171).
    pfc_watchdog=(MIN_RELEASE, 0, 0),
    cable_length=(MIN_RELEASE, 0, 0),
    cable_per_port=True,
    # Queues 3 and 4 mark after `config qos reload` (sonic-buildimage, qos_config.j2).
    template_marks=frozenset({3, 4}),
    # The tables of the unified management framework came with 202012 (sonic-buildimage 5142).
    routing=(MIN_RELEASE, 0, 0),
    routed=RoutedForm(
        loopback=bgp.LOOPBACK,
        vlan="Vlan{}",
        link=(bgp.LINK_LOCAL,),
        max_paths=bgp.MAX_PATHS,
        sessions="show ip bgp summary",
        session="show ip bgp neighbors {}",
        cautions=(
            Caution(
                "whether BGP sessions over ports without addresses come back after a boot of SONiC "
                "is not proven: issue 27723 of sonic-buildimage is open, and with FRR 10.5.1 they "
                "stay Idle (issue 26959)",
                "give the links an address, or restart one switch before the rack is in use and "
                "look at its sessions.",
                unnumbered=True,
            ),
            Caution(
                f"SONiC's BGP before {bgp.UP_SINCE} takes rows that its own YANG refuses, so that "
                f"{bgp.NO_UP}",
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
        away=(*document({bgp.GLOBALS: {bgp.SHUTDOWN: "true"}}),),
        back=(
            *document({bgp.GLOBALS: {bgp.SHUTDOWN: "false"}}),
            *delete_fields([(bgp.GLOBALS, bgp.SHUTDOWN)]),
        ),
        asks="sudo vtysh -c 'show running-config bgpd' | grep 'bgp graceful-shutdown'",
        is_away=r"^ +bgp graceful-shutdown\s*$",
    ),
    links=LinkForm(_link_words),
    # sonic-utilities, config/stp.py, 202411: `portfast` with PVST, `edge_port` with MST.
    edge_ports="it has no spanning tree unless the site switches it on, and the field of an edge "
    "port depends on the mode of that",
    mark_percent=None,
    class_shares=None,
    watchdog_ms=None,
    cnp_class=None,
    port_ecn="its driver has one profile of thresholds for the whole switch",
)
