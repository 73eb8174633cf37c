"""The queues of the ports of one switch, from the site's one intent: marking, shares, spreading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from components.fabric.marking import port_marking, port_speeds
from components.fabric.state import EcnState, PortState
from components.fabric.systems import system_of
from components.fabric.systems.switch_system import RoceProfile
from components.model.cluster import ClusterSpec
from components.model.fabric import Schedule, Switch

BYTES_PER_KIB = 1024


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """What is decided of queues, port by port."""

    marking: Mapping[str, EcnState]
    schedule: Schedule | None
    spreading: frozenset[str]
    """Ports with adaptive routing."""

    @classmethod
    def of(cls, spec: ClusterSpec, switch: Switch) -> QueuePlan:
        """The plan of one switch; whether its system can do it is for the rules to say."""
        rdma, system = spec.rdma, system_of(switch.os)
        speeds = port_speeds(spec, switch)
        if system.port_ecn is not None:
            # One marking for the switch: that of its fastest port, which fills a queue first.
            speeds = dict.fromkeys(speeds, max(speeds.values(), default=0))
        marking = {
            name: port_marking(rdma, switch.os, port, speeds[name])
            for name, port in switch.ports.items()
        }
        routed = (name for name, port in switch.ports.items() if port.mode == "routed")
        return cls(
            {name: as_profile(each, system.profile) for name, each in marking.items()},
            rdma.schedule,
            frozenset(routed) if rdma.adaptive_routing else frozenset(),
        )

    def settle(self, name: str, intent: PortState) -> PortState:
        """The intent of all ports with what is this one's own."""
        own: dict[str, object] = {"ecn": dict.fromkeys(intent.ecn, self.marking[name])}
        if self.schedule is not None:
            strict = {*(intent.strict_classes or ()), *self.schedule.strict}
            own["strict_classes"] = tuple(sorted(strict))
            own["class_shares"] = dict(sorted(self.schedule.shares.items()))
        if name in self.spreading:
            own["adaptive_routing"] = True
        return intent.model_copy(update=own)


def as_profile(marking: EcnState, profile: RoceProfile | None) -> EcnState:
    """The marking as a RoCE profile prints it, where the file means the same; else as it is."""
    if profile is None or marking.percent != profile.mark_percent:
        return marking
    given = profile.ecn_min_bytes, profile.ecn_max_bytes
    pairs = zip((marking.min_kib, marking.max_kib), given, strict=True)
    if any(abs(kib * BYTES_PER_KIB - own) > profile.ecn_tolerance * own for kib, own in pairs):
        return marking
    low, high = (own // BYTES_PER_KIB for own in given)
    return EcnState(min_kib=low, max_kib=high)
