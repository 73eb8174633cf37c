"""Cumulus as the rest of the house knows it."""

from __future__ import annotations

from typing import Final

from components.fabric.identity import Field, IdentityQuestions
from components.fabric.parts import WHOLE, write_list
from components.fabric.state import PortState, SwitchState
from components.fabric.systems import bash_cli, switch_system
from components.fabric.systems.base import Drain
from components.fabric.systems.cumulus import non_rows, rows, tree
from components.fabric.systems.cumulus.driver import CumulusDriver
from components.model.fabric import Rdma


def plan_intent(rdma: Rdma) -> switch_system.Intent:
    """One profile of the whole switch; its parts are wanted as it gives them.

    A check refuses a file that asks for others, since no line could set its `rdma.dscp`.
    """
    lossless = rdma.mode == "lossless"
    return switch_system.Intent(
        SwitchState(
            pfc_priorities=(non_rows.ROCE_PRIORITY,) if lossless else None,
            pfc_enabled=True if lossless else None,
            roce="lossless" if lossless else "lossy",
        ),
        PortState(
            trust="both",
            ecn={non_rows.ROCE_PRIORITY: non_rows.GIVEN},
            strict_classes=(non_rows.CNP_PRIORITY,),
        ),
    )


def _link_words(wish: switch_system.LinkWish) -> dict[str, str]:
    """`400G`, and the other two as everywhere."""
    words = {"speed": f"{wish.speed_gbit_s}G"} if wish.speed_gbit_s else {}
    words |= {"fec": wish.fec} if wish.fec else {}
    return words if wish.autoneg is None else {**words, "autoneg": "on" if wish.autoneg else "off"}


def _leave_bridge(desired: SwitchState, lines: switch_system.Lines) -> switch_system.Lines:
    """Access and tagged VLANs exclude each other; in one revision nothing of this is seen."""
    ports = tree.collapse_ports(desired.ports)
    return (f"nv unset interface {ports} {rows.DOMAIN}", *lines) if desired.ports else lines


SYSTEM: Final = switch_system.SwitchSystem(
    driver=CumulusDriver(),
    profile=switch_system.RoceProfile(
        priority=non_rows.ROCE_PRIORITY,
        cnp_priority=non_rows.CNP_PRIORITY,
        ecn_min_bytes=non_rows.ECN_MIN_BYTES,
        ecn_max_bytes=non_rows.ECN_MAX_BYTES,
        mark_percent=100,
        marked_classes=non_rows.MARKED_CLASSES,
        # 150 KiB is 2.4 % more than 150,000 bytes; the hardware itself rounds to 153 or 156 KiB.
        ecn_tolerance=0.05,
        # NVUE reference: `nv set interface <interface-id> qos congestion-control profile`, 5.4.0.
        others_since=(5, 4, 0),
    ),
    intent=plan_intent,
    session=bash_cli.SESSION,
    exec_form=switch_system.ExecForm(
        expects=r"(?s).*\bapplied(?:_and_saved)?\b.*",
        commit=("nv config apply -y",),
        around=_leave_bridge,
        lacks={
            **dict.fromkeys(("class_shares", "ecn"), "the profiles of marking and shares of ports"),
            **dict.fromkeys(("addresses", "bgp"), "addresses and BGP"),
            "splits": "splits of ports",
            "adaptive_routing": "adaptive routing",
        },
        given=({non_rows.ROCE_PRIORITY: non_rows.GIVEN},),
    ),
    identity=IdentityQuestions(
        release=Field("nv config show -o json", r'"version": "Cumulus Linux ([^"]+)"'),
        # Up to 5.8 the hardware is one level down; there `nv show platform` lists software.
        model=tuple(
            Field(f"nv show platform{part} -o json", r'"(?:product-name|model)": "([^"]+)"')
            for part in ("", " hardware")
        ),
        # Guide, "Monitoring System Hardware": a table of name, code, length and value.
        serial=Field("decode-syseeprom", r"^Serial Number +0x23 +\d+ (\S+)"),
        base_mac=Field("decode-syseeprom", r"^Base MAC Address +0x24 +\d+ (\S+)"),
        # Who is in neither group may look and not apply (page "User Accounts").
        rights=Field("id -Gn", r"^(.*)$"),
        may=r"\b(sudo|nvapply)\b",
        marks=True,
    ),
    # 4.4 has NVUE as early access, switched off; the ESXi guide links 4.2, without any NVUE.
    min_release=(*rows.MIN_RELEASE, 0),
    older="lacks NVUE by default, which reads and sets it",
    a_release="5.9.2",
    native_of=lambda release: {
        WHOLE: write_list((*rows.branch_words({}), *rows.release_words(release)))
    },
    one_shot_modes=frozenset({"lossless", "lossy_ecn"}),
    semi_lossless="its RoCE profiles are lossless, lossy, lossless-single-ipool and "
    "lossy-multi-tc; each pauses in both directions or in none",
    # NVUE reference: `nv set interface <interface-id> qos pfc-watchdog state`, 5.6.0.
    pfc_watchdog=rows.WATCHDOG.since,
    # NVUE reference: `nv set qos roce cable-length`, 5.0.0.
    cable_length=rows.CABLE.since,
    port_ecn=None,
    mark_percent=None,
    class_shares=None,
    watchdog_ms="the documented polling interval applies to the whole switch only",
    cnp_class="its RoCE profile has the notifications in class 6",
    # NVUE reference, page Adaptive Routing: 5.6 on Spectrum-4; a beta on others before it.
    adaptive_routing=rows.SPREADS.since,
    # NVUE reference: `nv set vrf <vrf-id> router bgp neighbor <neighbor-id> type`, 5.0.0.
    routing=(5, 0, 0),
    # NVUE reference: `nv set interface <interface-id> link speed`, `fec`, `auto-negotiate`, 5.0.0.
    links=switch_system.LinkForm(_link_words),
    # Since 5.0.0; `enabled` in place of `on` since 5.15 (NVUE reference; "Optional BGP
    # Configuration"; sources.md#graceful-drain).
    drain=Drain(
        title="BGP graceful shutdown",
        away=("nv set router bgp graceful-shutdown {on}", "nv config apply -y"),
        back=("nv unset router bgp graceful-shutdown", "nv config apply -y"),
        asks="nv show router bgp",
        is_away=r"^graceful-shutdown +(?:on|enabled)\b",
        on=lambda state: "enabled" if rows.NEW_WORDS in rows.whole_words(state) else "on",
    ),
    rows={row.setting: row.since for row in rows.PORT},
    # NVUE reference: `nv set interface <interface-id> link breakout`, 5.4.0; before it, a mode has
    # a speed in it.
    splits=(5, 4, 0),
    # Page "VLAN-aware Bridge Mode": the default of 4.4 and 5.x.
    reserved_vlans=range(3725, 4000),
)
