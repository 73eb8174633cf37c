"""One update of one switch, from what was applied before to what is wanted now: pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from components.core.difference import Difference
from components.core.effect import Effect
from components.fabric.baselines import with_new_ports
from components.fabric.effects import find_effects
from components.fabric.state import BgpState, SwitchState
from components.fabric.systems import system_of
from components.fabric.systems.base import Drain, Reading
from components.fabric.targets import dropped, overlay, target_of_restore, target_of_update


@dataclass(frozen=True, slots=True)
class Edit:
    """What the step, its preview and its refusal start from."""

    system: str
    desired: SwitchState
    previous: SwitchState = field(default_factory=SwitchState)
    """What the last update made ours; an empty state at the first one."""
    baseline: SwitchState | None = None
    """The values from before the first update; None: not known, so nothing is given back."""

    @property
    def gone(self) -> SwitchState:
        """What is no longer wanted, and gets its recorded value back."""
        return dropped(self.previous, self.desired) if self.baseline else SwitchState()

    @property
    def wanted(self) -> SwitchState:
        """Names every setting that this update looks at."""
        return overlay(self.gone, self.desired)

    def target(
        self, actual: SwitchState, vlan_holders: Mapping[int, tuple[str, ...]]
    ) -> SwitchState:
        """What the switch shall have afterwards; the arguments are as in `target_of_restore`."""
        baseline = with_new_ports(self.baseline or SwitchState(), self.previous, self.system)
        back = target_of_restore(actual, self.gone, baseline, vlan_holders)
        return target_of_update(actual, self.desired, back)

    def part(self, later: Collection[str], reading: Reading) -> SwitchState:
        """The target, with some ports left as they are: they change in a later part."""
        target, has = self.target(reading.state, reading.vlan_holders), reading.state.ports
        held = {name: has[name] for name in later if name in has}
        return target.model_copy(update={"ports": {**target.ports, **held}})

    def target_of(self, seen: SwitchState) -> SwitchState:
        """The same for a state that observe read, or that was last applied."""
        return self.target(seen, seen.others.by_vlan if seen.others else {})

    def drain(self, seen: SwitchState) -> Drain | str:
        """How traffic can leave the switch before this update, or why it cannot."""
        known, was = system_of(self.system).drain, seen.bgp or BgpState()
        wanted = self.target_of(seen).bgp or was
        if isinstance(known, str):
            return known
        if not was.neighbors:
            return "it has no BGP sessions"
        return known if was.asn == wanted.asn else "this update ends every BGP session itself"

    def effects(self, seen: SwitchState) -> Mapping[Difference, Effect]:
        """What the update does to running traffic, as far as `seen` says; see `find_effects`."""
        return find_effects(self.system, seen, self.target_of(seen))
