"""The machines of a site as they are: what was set on each, whatever the file calls it."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import Final

from campaign.intent.record import Machine, Registration, machine_of
from components.core.key_values import HostState
from components.core.record import field, record, replace
from components.disruption.forecast import IN_SERVICE
from components.drift.device_drift import Unreachable
from components.fabric.edit import render_baseline
from components.fabric.state import PortState, SwitchState
from components.plan.make import ClusterPlan
from components.update.seen import Facts, Seen

FACTORY_PORT: Final = PortState(
    admin_up=True,
    mtu_bytes=1500,
    mode="access",
    access_vlan=1,
    trust="L2",
    ecn=dict.fromkeys(range(8)),
    pfc=False,
    strict_classes=(),
    wrr_weights=dict.fromkeys(range(8), 12),
)
"""A port before anybody set it: IEEE 802.1Q's first VLAN, Ethernet's own frame size, and classes
that are served alike."""
AWAY: Final = 0.04
"""How often one machine does not answer a look."""


@record
class World:
    """What is set where. A step that is not undone stays."""

    switches: Mapping[Machine, SwitchState] = field(default_factory=dict[Machine, SwitchState])
    steps: Mapping[tuple[Machine, str], Mapping[str, str]] = field(
        default_factory=dict[tuple[Machine, str], Mapping[str, str]]
    )
    """Machine and kind of step to the settings that it last had."""

    def after(self, plan: ClusterPlan, registration: Registration) -> World:
        """The machines after an update that succeeded."""
        switches = dict(self.switches)
        switches |= {machine_of(each.endpoint): each.desired for each in plan.switches}
        steps = dict(self.steps)
        for watched in plan.watched:
            made = registration.steps.get(watched.step.name)
            if made is not None:
                key = machine_of(watched.step.endpoint), made.kind
                steps[key] = dict(watched.desired.values)
        return replace(self, switches=switches, steps=steps)

    def look(self, plan: ClusterPlan, chance: random.Random) -> Seen:
        """What a look finds: what was set on the machine, and the rest as it is planned.

        One machine now and then does not answer.
        """
        found: dict[str, Facts] = {}
        for switch in plan.switches:
            held = self._switch(machine_of(switch.endpoint))
            found[switch.name] = _with_factory(switch.desired, held)
        for watched in plan.watched:
            kind = watched.step.name.removeprefix(watched.step.endpoint.device)
            held = self._step(machine_of(watched.step.endpoint), kind)
            values = {**watched.desired.values, **held, IN_SERVICE: "yes"}
            found[watched.device] = HostState(values)
        if found and chance.random() < AWAY:
            found[chance.choice([*found])] = Unreachable("nothing answers (the campaign's fault)")
        return Seen(found)

    def _switch(self, machine: Machine) -> SwitchState | None:
        return self.switches.get(_known(machine, {*self.switches}))

    def _step(self, machine: Machine, kind: str) -> Mapping[str, str]:
        known = _known(machine, {key for key, of in self.steps if of == kind})
        return self.steps.get((known, kind), {})


def _known(machine: Machine, known: Collection[Machine]) -> Machine:
    """The machine as it was reached before: by its host key, if no other one has that key."""
    same = [each for each in known if each[2] == machine[2]]
    return same[0] if machine not in known and len(same) == 1 else machine


def _with_factory(wanted: SwitchState, held: SwitchState | None) -> SwitchState:
    """What a look at a switch finds of all that is wanted."""
    ports = dict.fromkeys(wanted.ports, FACTORY_PORT) | (dict(held.ports) if held else {})
    base = held or SwitchState(vlans=(1,))
    return base.model_copy(update={"ports": ports})


def printed_by(plan: ClusterPlan, given: Mapping[str, str]) -> dict[str, str]:
    """What the steps print that later ones, or a later update, read."""
    first = {
        switch.step_named("baseline"): render_baseline(
            SwitchState(vlans=(1,), ports=dict.fromkeys(switch.desired.ports, FACTORY_PORT))
        )
        for switch in plan.switches
    }
    return {**given, **first}
