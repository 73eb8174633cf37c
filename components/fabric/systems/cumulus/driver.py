"""The driver of NVIDIA Cumulus Linux (NVUE): which commands, in which order, read how.

Lines collect in a pending revision and act together at `nv config apply`: what is refused before
leaves the switch as it was, and what is not confirmed after it is taken back by the switch. RoCE is
a profile of the whole switch: trust, ECN, PFC and scheduler come with it, so they are read and
compared, not set (docs/explanation/sources.md#cumulus).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from components.fabric.effects import ByTable
from components.fabric.native import WHOLE, sources, write_list
from components.fabric.parts import Sessions
from components.fabric.state import BgpState, Neighbour, PortState, SwitchState
from components.fabric.systems import bash_cli
from components.fabric.systems.base import Guard, LinkForm, PortCounters, Reading
from components.fabric.systems.cumulus import read as cumulus_parse
from components.fabric.systems.cumulus import sessions as cumulus_sessions
from components.fabric.systems.cumulus.counters import parse_counters, with_storms
from components.fabric.systems.cumulus.rows import FACTORY_MTU_BYTES, branch_words, read_ports
from components.fabric.systems.cumulus.write import (
    GUARD,
    find_configured,
    find_words,
    plan_changes,
    read_splits,
)

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


class CumulusDriver(ByTable):
    """See `components.fabric.systems.base.Driver`."""

    system = "cumulus"
    title = "Cumulus"
    links = LinkForm(INTERFACES, cumulus_sessions.parse_links)
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
        reading = cumulus_parse.read_state(config, profile, wanted)
        if wanted.splits is None:
            return reading
        native = find_words(config.ports, config.routing.addresses)
        more = {
            "splits": read_splits(config.ports, wanted.splits),
            "configured_parts": find_configured(config.ports),
            "native": reading.state.native | native,
        }
        return replace(reading, state=reading.state.model_copy(update=more))

    plan_changes = staticmethod(plan_changes)

    def find_refusal(self, output: str) -> str | None:
        """Exit status or text: some releases print an error and exit 0."""
        return bash_cli.find_refusal(output, _ERRORS)

    def factory_state(self, ports: Sequence[str]) -> SwitchState:
        """No bridge, ports shut and in no bridge, MTU 9216, no RoCE."""
        _, noted = read_ports({})
        port = PortState(
            admin_up=False,
            mtu_bytes=FACTORY_MTU_BYTES,
            mode="routed",
            trunk_vlans=(),
            pfc_watchdog=False,
            speed="",
            fec="",
            edge_port="",
            bpdu_guard="",
            autoneg="",
            native=sources(admin_up=False) | noted,
        )
        return SwitchState(
            pfc_priorities=(),
            pfc_enabled=False,
            roce="none",
            roce_cable_m=0,
            addresses={},
            bgp=BgpState(),
            native={WHOLE: write_list(branch_words({}))},
            ports=dict.fromkeys(ports, port),
        )

    def neighbour_commands(self) -> tuple[str, ...]:
        """What lldpd heard on every port."""
        return (NEIGHBOURS,)

    def parse_neighbours(self, answers: Mapping[str, str]) -> dict[str, Neighbour]:
        """Read what `neighbour_commands` asked for."""
        return cumulus_sessions.parse_neighbours(NEIGHBOURS, answers[NEIGHBOURS])

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


def _wants_profile(wanted: SwitchState) -> bool:
    ports = any(
        port.trust is not None or port.ecn or port.strict_classes is not None
        for port in wanted.ports.values()
    )
    named = (wanted.roce, wanted.pfc_priorities, wanted.pfc_enabled)
    return ports or any(value is not None for value in named)
