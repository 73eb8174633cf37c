"""What each switch system can do at all, on any model: data for the plan and the rules.

A system that is not named here can do nothing of what is optional: lossless and lossy RoCE on
trunks and access ports is what every Ethernet system has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from components.catalogue.switches.switch_model import (
    Release,
    SwitchModel,
    is_numbered,
    parse_release,
    show_release,
)
from components.fabric.systems.cumulus import facts as cumulus_profile
from components.fabric.systems.eos import facts as eos_defaults
from components.fabric.systems.sonic import facts as sonic_facts

Mode = Literal["lossy_ecn", "lossless", "semi_lossless"]
ONE_SHOT_PRIORITY: Final = 3
"""The priority of the one-shot `roce`, on Onyx and on Cumulus; the vendor offers no other."""


@dataclass(frozen=True, slots=True)
class SwitchSystem:
    """One switch system. Where a text stands in place of a release, it says why there is none."""

    min_release: Release = (0, 0, 0)
    """Oldest release that has the commands we send and the answers we read, on any model."""
    older: str = "lacks commands that its driver sends"
    """What a switch of an older release does or lacks, after its name."""
    reads_release: Callable[[str], bool] = is_numbered
    """Whether a text is a release of the system at all."""
    a_release: str = "1.2.3"
    """A release as a file says it, for people."""
    parse_release: Callable[[str], Release] = parse_release
    """How the system counts its releases."""
    show_release: Callable[[Release], str] = show_release
    """A release as the system writes it."""
    one_shot_modes: frozenset[Mode] = frozenset()
    """Modes that are one command for the whole switch, on priority 3 only."""
    one_shot_flaps: bool = False
    """Such a command may flap every port."""
    semi_lossless: str | None = "it has no documented mode that pauses one way only"
    """Why there is no such mode; None: there is."""
    pfc_watchdog: Release | str = "no command of it is known here"
    """First release with a PFC watchdog per port."""
    cable_length: Release | str = "no command of it is known here"
    """First release in which the headroom of the lossless buffer follows the length of a cable."""
    cable_per_port: bool = False
    """Each port has a length of its own; else the longest one counts for the whole switch."""
    default_cable_m: int = 100
    """Length that a system assumes of a cable of which it was told nothing (NVUE reference)."""
    port_ecn: str | None = "its ECN thresholds are one setting for the whole switch"
    """Why a port cannot have thresholds of its own; None: it can."""
    routing: Release | str = "its driver sets no routed ports and no BGP"
    """First release that is routed between switches."""
    reserved_vlans: range = range(0)
    """VLANs that the switching chip uses itself."""


SYSTEMS: Final[dict[str, SwitchSystem]] = {
    "onyx": SwitchSystem(
        # `roce` and `show roce` (Onyx user manual 3.8.2000, "RoCE Commands"). Trust, traffic pools
        # and ECN per class came with 3.6.5000 (docs/explanation/sources.md#onyx).
        min_release=(3, 8, 2000),
        older="has no `show roce`, by which its state is read",
        a_release="3.9.2504",
        one_shot_modes=frozenset({"lossless", "semi_lossless"}),
        one_shot_flaps=True,  # manual "RoCE Commands": interfaces may toggle
        semi_lossless=None,
        # `interface ethernet 1/1 pfc-wd` stands in one public transcript, with no release and no
        # show command that tells whether it is on.
        pfc_watchdog="no published command shows whether its `pfc-wd` is on, so that it could be "
        "set and never read back",
        cable_length="its lossless pool sizes the headroom itself, and no command for the length "
        "of a cable is documented",
        port_ecn=None,
    ),
    "cumulus": SwitchSystem(
        # 4.4 has NVUE as early access, switched off; the ESXi guide links 4.2, without any NVUE.
        min_release=(*cumulus_profile.MIN_RELEASE, 0),
        older="has no NVUE by default, by which it is read and set",
        a_release="5.9.2",
        one_shot_modes=frozenset({"lossless", "lossy_ecn"}),
        semi_lossless="its RoCE profiles are lossless, lossy, lossless-single-ipool and "
        "lossy-multi-tc; none of them pauses one way only",
        # NVUE reference: `nv set interface <interface-id> qos pfc-watchdog state`, 5.6.0.
        pfc_watchdog=(5, 6, 0),
        # NVUE reference: `nv set qos roce cable-length`, 5.0.0.
        cable_length=(5, 0, 0),
        port_ecn="its RoCE profile gives one pair of thresholds to every port",
        # NVUE reference: `nv set vrf <vrf-id> router bgp neighbor <neighbor-id> type`, 5.0.0.
        routing=(5, 0, 0),
        # Page "VLAN-aware Bridge Mode": the default of 4.4 and 5.x.
        reserved_vlans=range(3725, 4000),
    ),
    "eos": SwitchSystem(
        min_release=eos_defaults.MIN_RELEASE,
        older="is older than all whose answers its driver was written after",
        a_release="4.32.1F",
        semi_lossless="its ports pause and are paused together",
        # The watchdog itself came with 4.21.1F (Arista's list of features), the lines of a port by
        # May 2023 (aristanetworks/avd #2796). A release without them refuses the line, and then
        # everything is taken back.
        pfc_watchdog=eos_defaults.MIN_RELEASE,
        # `platform trident mmu queue profile` has an `ingress headroom` (Intel's pages on Gaudi).
        cable_length="its headroom is a number of bytes in a buffer profile of the chip, and no "
        "published text tells how many a length needs",
        port_ecn=None,
    ),
    "sonic": SwitchSystem(
        min_release=(sonic_facts.MIN_RELEASE, 0, 0),
        older="makes lossless buffers for priorities 3 and 4 only",
        reads_release=lambda text: sonic_facts.parse_branch(text) > 0,
        a_release="202405",
        parse_release=lambda text: (sonic_facts.parse_branch(text), 0, 0),
        show_release=lambda release: str(release[0]),
        semi_lossless="its ports pause and are paused together",
        # `pfcwd_sw_enable`, which says what is watched, came with 202205 as well (sonic-swss 2171).
        pfc_watchdog=(sonic_facts.MIN_RELEASE, 0, 0),
        cable_length=(sonic_facts.MIN_RELEASE, 0, 0),
        cable_per_port=True,
        port_ecn="its driver has one profile of thresholds for the whole switch",
    ),
    "mlnxos": SwitchSystem(
        # `show ib partition` has the layout that we read since 3.6.8010 (Stacki's driver).
        min_release=(3, 6, 8010),
        older="prints `show ib partition` in a layout that is not read here",
        a_release="3.11.2016",
        port_ecn="InfiniBand has no ECN thresholds",
        routing="InfiniBand is no IP fabric: its subnet manager makes the routes",
    ),
}
"""By the name that the site file uses."""


def system_of(name: str) -> SwitchSystem:
    """What a system can do; one that is not in the registry can do nothing that is optional."""
    return SYSTEMS.get(name, SwitchSystem())


def least_release(name: str, model: SwitchModel | None) -> Release:
    """The oldest release with which a switch of a system and a model can be used."""
    first = model.first_release.get(name, (0, 0, 0)) if model else (0, 0, 0)
    return max(system_of(name).min_release, first)
