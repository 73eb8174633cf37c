"""EOS as the rest of the house knows it."""

from __future__ import annotations

from typing import Final

from components.fabric.identity import Field, IdentityQuestions
from components.fabric.queues import marking_of
from components.fabric.state import PortState, SwitchState
from components.fabric.systems import switch_system
from components.fabric.systems.base import Drain
from components.fabric.systems.eos.driver import EosDriver
from components.fabric.systems.eos.routing import LINK_LOCAL
from components.fabric.systems.eos.rows import DEFAULT_CLASSES, ROWS
from components.model.fabric import Rdma
from components.remote.session_profile import SessionProfile

MIN_RELEASE: Final = (4, 28, 0)
"""A guess: no text that was found says which release brought the commit timer of configuration
sessions, `l2 mtu` or this chip. Sessions themselves came with 4.15.0F (Arista's announcement); the
public captures that the driver follows are of 4.28 and later."""
MAX_PATHS: Final = 64
"""`maximum-paths`: EOS uses one path unless a line says more. A public capture of a spine has 64;
chips of the models here take as many or more."""


def plan_intent(rdma: Rdma) -> switch_system.Intent:
    """Every part on its own, PFC by port."""
    lossless = rdma.mode == "lossless"
    return switch_system.Intent(
        # The class of a DSCP is said by a map that anybody can change, so ours are watched.
        SwitchState(dscp_classes={rdma.dscp: rdma.traffic_class, rdma.cnp_dscp: rdma.cnp_priority}),
        PortState(
            trust="L3",
            ecn={rdma.traffic_class: marking_of(rdma, "eos")},
            pfc=True if lossless else None,
            pfc_priorities=(rdma.priority,) if lossless else None,
            strict_classes=(rdma.cnp_priority,),
        ),
    )


def _link_words(wish: switch_system.LinkWish) -> dict[str, str]:
    """`400g-4`, and `auto 400g-4` where that is negotiated.

    That 25 Gbit/s on one lane is said without it is a guess.
    """
    words = {"fec": str(wish.fec)} if wish.fec else {}
    speed, lanes = wish.speed_gbit_s, wish.lanes
    if speed is None or lanes is None:
        return words
    said = f"{speed}g-{lanes}" if lanes > 1 or speed > _OLD_LANE else f"{speed}g"
    return {**words, "speed": f"auto {said}" if wish.autoneg else said}


_OLD_LANE: Final = 25
"""The fastest speed of a lane that has no form with lanes in its name."""
SYSTEM: Final = switch_system.SwitchSystem(
    driver=EosDriver(),
    intent=plan_intent,
    session=SessionProfile(
        # `leaf-01(config-s-railya-if-Et1/1)#`, without a blank after it. There may be a supervisor
        # too, `leaf-01(s1)#` (netmiko PR#226), or the time, `upp306.17:16:58>` (netmiko#720).
        prompt=r"(?P<own>[^\s>#]+?)(?:\([^)\r\n]*\))*[>#]",
        # netmiko's width, 32767, makes some releases close the session (sources.md#eos).
        prepare=("terminal length 0", "terminal width 511"),
        enables=True,
    ),
    exec_form="what EOS does with the lines of one exec after it refused one of them is not "
    "documented, so that half of a configuration could be committed",
    identity=IdentityQuestions(
        release=Field("show version", r"^Software image version: (\S+)"),
        model=(Field("show version", r"^Arista (\S+)"),),
        # Captures of 4.28.0F and 4.31.2F (sources.md#switch-identity).
        serial=Field("show version", r"^Serial number: +(\S+)"),
        base_mac=Field("show version", r"^System MAC address: +(\S+)"),
        # As the driver opens one for every change; a role may allow it and refuse
        # `configure terminal`, and the other way round.
        tries=("configure session railyard-look", "abort"),
    ),
    min_release=MIN_RELEASE,
    older="is older than all whose answers its driver was written after",
    a_release="4.32.1F",
    semi_lossless="its ports pause and are paused together",
    # The watchdog itself came with 4.21.1F (Arista's list of features), the lines of a port by
    # May 2023 (aristanetworks/avd #2796). A release without them refuses the line, and then
    # everything is taken back.
    pfc_watchdog=MIN_RELEASE,
    # `platform trident mmu queue profile` has an `ingress headroom` (Intel's pages on Gaudi).
    cable_length="its headroom is a number of bytes in a buffer profile of the chip, and no "
    "published text tells how many a length needs",
    port_ecn=None,
    # Sessions between link-local addresses came with 4.22.1F, before all that the driver reads.
    routing=MIN_RELEASE,
    routed=switch_system.RoutedForm(
        loopback="Loopback0",
        vlan="Vlan{}",
        link=(LINK_LOCAL,),
        own_mtu=True,
        says_number=True,
        max_paths=MAX_PATHS,
        forwards=True,
        sessions="show ip bgp summary",
        session="show ip bgp summary",
        bfd_sessions="show bfd peers",
        routes="show ip route bgp",
        route="show ip bgp {}",
    ),
    # Since 4.15.2F. Lines: Arista's manual, chapter "Maintenance Mode", and AVD's template of
    # `maintenance`; answers: ANTA's unit tests of VerifyMaintenance (sources.md#graceful-drain).
    drain=Drain(
        title="EOS maintenance mode",
        away=("configure", "maintenance", "unit System", "quiesce", "end"),
        back=("configure", "maintenance", "unit System", "no quiesce", "end"),
        asks="show maintenance | json",
        is_away=r'"System": *\{[^{}]*"adminState": *"underMaintenance"',
        is_empty=r'"System": *\{[^{}]*"state": *"underMaintenance"',
    ),
    rows=dict.fromkeys((row.name for row in ROWS), MIN_RELEASE),
    native_apart=True,
    # `speed 200g-4` in AMD's guide for an Arista 7388; Arista's manual, page "Octal Port Renumber".
    splits=MIN_RELEASE,
    links=switch_system.LinkForm(_link_words, by_lanes=True),
    mark_percent=None,
    class_shares=None,
    watchdog_ms=None,
    cnp_class=None,
    all_strict=True,
    class_of_dscp=DEFAULT_CLASSES.__getitem__,
    repairs=frozenset({"switch.ecn_elsewhere", "switch.pfc_elsewhere"}),
)
