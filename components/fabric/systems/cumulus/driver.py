"""The driver of NVIDIA Cumulus Linux (NVUE): which commands, in which order, read how.

Lines collect in a pending revision and act together at `nv config apply`: what is refused before
leaves the switch as it was, and what is not confirmed after it is taken back by the switch. RoCE is
a profile of the whole switch: trust, ECN, PFC and scheduler come with it, so they are read and
compared, not set (docs/explanation/sources.md#cumulus).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from components.fabric.effects import ByTable
from components.fabric.native import WHOLE, sources, write_list
from components.fabric.parts import Sessions
from components.fabric.state import BgpState, Neighbour, PortState, SwitchState
from components.fabric.systems import bash_cli
from components.fabric.systems.base import (
    Guard,
    LinkForm,
    PortCounters,
    Reading,
)
from components.fabric.systems.cumulus import link, profiles
from components.fabric.systems.cumulus import read as cumulus_parse
from components.fabric.systems.cumulus import sessions as cumulus_sessions
from components.fabric.systems.cumulus import write as cumulus_actions
from components.fabric.systems.cumulus.counters import parse_counters, with_storms
from components.fabric.systems.cumulus.facts import AUTO_SAVE, DSCP_PER_CLASS, FACTORY_MTU_BYTES
from components.fabric.systems.cumulus.profiles import OwnQos
from components.fabric.systems.cumulus.read import Config, PortConfig, Profile
from components.fabric.systems.cumulus.routing import port_native, words_of
from components.fabric.systems.cumulus.splits import find_configured, find_words, read_splits
from components.fabric.systems.cumulus.write import GUARD
from components.fabric.systems.membership import others_of

CONFIG: Final = "nv config show -o json"
ROCE: Final = "nv show qos roce"
INTERFACES: Final = "nv show interface -o json"
NEIGHBOURS: Final = "nv show interface lldp -o json"
ROCE_COUNTERS: Final = "nv show interface {port} qos roce counters -o json"
QUEUE_COUNTERS: Final = "nv show interface {port} counters qos -o json"
STORMS: Final = "nv show interface {port} qos pfc-watchdog"
"""Of this one the text is published, and no JSON."""

_ERRORS: Final = (
    "Invalid config",
    "Config invalid at",
    "Error: Invalid parameter",
    "Unable to restart services",
    "Failure during apply",
    "command not found",
    "is not a physical interface on this switch",
    "Could not connect to nvued",
    "Failed to parse YAML",
    "must contain a list of operation objects",
)
"""Texts of failures whatever the status. The first seven are those that
openstack/networking-generic-switch looks for (its Cumulus NVUE device); then a service that died
in an apply (networkop/cx, issue 9), and a file that `nv config patch` cannot read (NVIDIA's own
tests of NVUE, `test_config_patch_replace`)."""


FIRST_WORDS: Final = ("bridge", "rest")
"""What is there of an untouched switch, in `whole_words`: no bridge, and so nothing of others."""


class CumulusDriver(ByTable):
    """See `components.fabric.systems.base.Driver`."""

    system = "cumulus"
    title = "Cumulus"
    links = LinkForm(INTERFACES, cumulus_parse.parse_links)
    enter: Sequence[str] = ()
    # A run that was killed may have left lines pending: an apply would take them as well.
    configure: Sequence[str] = ("nv config detach",)
    discard: Sequence[str] = ()
    guard: Guard | None = GUARD
    save = "nv config save"

    def list_ports_commands(self) -> tuple[str, ...]:
        """The interface table names every port, configured or not."""
        return (INTERFACES,)

    def parse_port_names(self, answers: Mapping[str, str]) -> tuple[str, ...]:
        """Every front panel port, by number."""
        return cumulus_parse.parse_port_names(INTERFACES, answers[INTERFACES])

    def read_commands(self, wanted: SwitchState) -> tuple[str, ...]:
        """The whole configuration, and what the RoCE profile gives if any of it is ours."""
        return (CONFIG, ROCE) if _wants_profile(wanted) else (CONFIG,)

    def parse(self, answers: Mapping[str, str], wanted: SwitchState) -> Reading:
        """Read what `read_commands` asked for."""
        config = cumulus_parse.parse_config(CONFIG, answers[CONFIG])
        profile = cumulus_parse.parse_profile(ROCE, answers[ROCE]) if ROCE in answers else None
        state = SwitchState(
            vlans=config.vlans,
            pfc_priorities=profile.pfc_priorities if profile else None,
            pfc_enabled=bool(profile.pfc_priorities) if profile else None,
            roce=profile.mode if profile else None,
            roce_cable_m=config.cable_m,
            addresses=config.routing.addresses,
            bgp=config.routing.bgp,
            adaptive_routing=config.spreads,
            **_splits(config, wanted),
            native=_native(config, wanted),
            ports={
                name: _port(config.ports.get(name, PortConfig()), profile, port)
                for name, port in wanted.ports.items()
            },
        )
        ours = wanted.ports
        holders = {
            vlan: tuple(name for name in names if name not in ours)
            for vlan, names in config.holders.items()
        }
        rest = {name: each for name, each in config.ports.items() if name not in ours}
        return Reading(
            state,
            {vlan: names for vlan, names in holders.items() if names},
            others_of({name: _member(port) for name, port in rest.items()}),
        )

    plan_changes = staticmethod(cumulus_actions.plan_changes)

    def find_refusal(self, output: str) -> str | None:
        """Exit status or text: some releases print an error and exit 0."""
        return bash_cli.find_refusal(output, _ERRORS)

    def factory_state(self, ports: Sequence[str]) -> SwitchState:
        """No bridge, ports shut and in no bridge, MTU 9216, no RoCE."""
        port = PortState(
            admin_up=False,
            mtu_bytes=FACTORY_MTU_BYTES,
            mode="routed",
            trunk_vlans=(),
            pfc_watchdog=False,
            speed="",
            fec="",
            autoneg="",
            native=sources(admin_up=False, mtu_bytes=False, pfc_watchdog=False),
        )
        return SwitchState(
            pfc_priorities=(),
            pfc_enabled=False,
            roce="none",
            roce_cable_m=0,
            addresses={},
            bgp=BgpState(),
            native={WHOLE: write_list(FIRST_WORDS)},
            ports=dict.fromkeys(ports, port),
        )

    def neighbour_commands(self) -> tuple[str, ...]:
        """What lldpd heard on every port."""
        return (NEIGHBOURS,)

    def parse_neighbours(self, answers: Mapping[str, str]) -> dict[str, Neighbour]:
        """Read what `neighbour_commands` asked for."""
        return cumulus_parse.parse_neighbours(NEIGHBOURS, answers[NEIGHBOURS])

    def session_commands(self, *, bfd: bool) -> tuple[str, ...]:
        """The sessions, with BFD where any neighbour has it, and the next hops."""
        asked = cumulus_sessions.WITH_BFD if bfd else cumulus_sessions.NEIGHBORS
        return asked, cumulus_sessions.NEXT_HOPS

    def parse_sessions(self, answers: Mapping[str, str]) -> Sessions:
        """Read what `session_commands` asked for."""
        return cumulus_sessions.parse_sessions(answers)

    def counter_commands(self, ports: Sequence[str]) -> tuple[str, ...]:
        """Received as RoCE or not, sent per class, marked and discarded packets, storms."""
        templates = (ROCE_COUNTERS, QUEUE_COUNTERS, STORMS)
        return tuple(template.format(port=port) for port in ports for template in templates)

    def parse_counters(
        self, answers: Mapping[str, str], ports: Sequence[str]
    ) -> dict[str, PortCounters]:
        """Read what `counter_commands` asked for."""
        found: dict[str, PortCounters] = {}
        for port in ports:
            roce, queues = ROCE_COUNTERS.format(port=port), QUEUE_COUNTERS.format(port=port)
            counted = parse_counters(roce, answers[roce], queues, answers[queues])
            storms = STORMS.format(port=port)
            refusal = self.find_refusal(answers[storms])
            found[port] = with_storms(counted, storms, answers[storms], refusal)
        return found


def _splits(config: Config, wanted: SwitchState) -> dict[str, Any]:
    if wanted.splits is None:
        return {}
    return {
        "splits": read_splits(config.ports, wanted.splits),
        "configured_parts": find_configured(config.ports),
    }


def _split_words(config: Config, wanted: SwitchState) -> dict[str, str]:
    if wanted.splits is None:
        return {}
    return find_words(config.ports, config.routing.addresses or ())


def _native(config: Config, wanted: SwitchState) -> dict[str, str]:
    routed, spread = config.routing.implied, words_of(config.release, config.spreads)
    spread = (*spread, *link.words_of(config.release), *((AUTO_SAVE,) if config.auto_save else ()))
    return {
        **_split_words(config, wanted),
        WHOLE: write_list((*config.implied, *routed, *spread)),
        **profiles.write_holders(config.profiles),
    }


def _wants_profile(wanted: SwitchState) -> bool:
    ports = any(
        port.trust is not None or port.ecn or port.strict_classes is not None
        for port in wanted.ports.values()
    )
    named = (wanted.roce, wanted.pfc_priorities, wanted.pfc_enabled)
    return ports or any(value is not None for value in named)


def _member(port: PortConfig) -> PortState:
    access, trunk = port.access_vlan, port.trunk_vlans
    return PortState(mode=port.mode, access_vlan=access, trunk_vlans=trunk)


def _port(port: PortConfig, profile: Profile | None, wanted: PortState) -> PortState:
    plain = _plain_port(port, profile)
    found = _beside(port.own, profile, wanted)
    native = profiles.native_of(port.named, wanted) | port_native(port.spreads)
    found["adaptive_routing"] = port.spreads
    found |= {"speed": "", "fec": "", "autoneg": "", **port.link}
    beside = any(text and getattr(wanted, key) is None for key, text in port.link.items())
    if beside or (port.spreads is not None and wanted.adaptive_routing is None):
        native |= sources(rest=True)
    return plain.model_copy(update={**found, "native": plain.native | native})


def _strict(own: OwnQos, profile: Profile | None) -> tuple[int, ...] | None:
    if profile is None or profile.mode == "none" or own.strict is None:
        return profile.strict_classes if profile else None
    return own.strict


def _beside(own: OwnQos, profile: Profile | None, wanted: PortState) -> dict[str, object]:
    """What is set over the profile, where a look asks for more than is ours."""
    if not wanted.class_shares:
        return {}
    given = profile.shares if profile and own.strict is None else dict[int, int]()
    shares: dict[str, object] = {"class_shares": {**given, **own.shares}}
    if wanted.rewrite_dscp is None:
        return shares
    usual = {dscp: dscp // DSCP_PER_CLASS for dscp in range(64)}
    return {
        "rewrite_dscp": own.rewrite_dscp,
        "dscp_priorities": {**usual, **own.priorities},
        **shares,
    }


def _plain_port(port: PortConfig, profile: Profile | None) -> PortState:
    return PortState(
        admin_up=port.admin_up,
        mtu_bytes=FACTORY_MTU_BYTES if port.mtu_bytes is None else port.mtu_bytes,
        mode=port.mode,
        access_vlan=port.access_vlan,
        trunk_vlans=port.trunk_vlans,
        trust=port.trust or (profile.trust if profile else None),
        ecn=dict(profile.ecn) | dict(port.own.ecn) if profile else {},
        pfc_priorities=port.own.pfc_priorities,
        strict_classes=_strict(port.own, profile),
        pfc_watchdog=port.pfc_watchdog or False,
        native=sources(
            admin_up=port.admin_written,
            mtu_bytes=port.mtu_bytes is not None,
            pfc_watchdog=port.pfc_watchdog is not None,
            rest=port.others_wrote,
        ),
    )
