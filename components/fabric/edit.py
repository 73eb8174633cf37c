"""One update of one switch: from what was recorded and applied to what is wanted now."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from components.core.difference import Difference
from components.core.effect import Effect
from components.core.settings import asked
from components.fabric.effects import find_effects
from components.fabric.parts import IbState
from components.fabric.state import BgpState, PortState, SwitchState
from components.fabric.systems import system_of
from components.fabric.systems.base import Drain, Reading
from components.fabric.targets import dropped, overlay, target_of_restore, target_of_update

PACK_ABOVE: Final = 1_000
"""Characters of a baseline. The state holds it twice, and 32 ports that are alike pack to a tenth;
Linux takes 131,072 characters in one variable, which some 400 ports would fill."""
PACKED: Final = "zlib:"


def baseline_file(stack: str, device: str) -> Path:
    """The imported baseline of one switch; mostly there is none."""
    return Path(".railyard") / stack / "baseline" / f"{device}.json"


def with_new_ports(baseline: SwitchState, owned: SwitchState, system: str) -> SwitchState:
    """The recorded values, and the factory's of parts that were not there when they were taken."""
    parts = {part for each in (owned.splits or {}).values() for part in each}
    new = tuple(name for name in owned.ports if name in parts and name not in baseline.ports)
    if not new:
        return baseline
    factory = system_of(system).driver.factory_state(new).ports
    return baseline.model_copy(update={"ports": {**baseline.ports, **factory}})


def every_key(ports: Sequence[str], desired: SwitchState) -> SwitchState:
    """A wish for all that a file may own. `roce` only on demand: its `off` text is not public."""
    every = dict.fromkeys(ports, PortState().model_copy(update=asked(PortState)))
    ib = desired.ib and desired.ib.model_copy(update=asked(IbState))
    own = {"roce": desired.roce, "splits": desired.splits or {}, "ports": every, "ib": ib}
    return SwitchState().model_copy(update=asked(SwitchState) | own)


def render_baseline(state: SwitchState) -> str:
    """The recorded values as JSON; ports that are alike are one, with spaces between the names."""
    document = state.model_dump(mode="json")
    alike: dict[str, list[str]] = {}
    for name, port in document.pop("ports").items():
        alike.setdefault(_short(port), []).append(name)
    ports = [f'"{" ".join(names)}":{port}' for port, names in alike.items()]
    others = [f'"{key}":{_short(value)}' for key, value in document.items()]
    return "{" + ",\n".join((*others, '"ports":{\n' + ",\n".join(ports) + "}")) + "}\n"


def read_baseline(text: str) -> dict[str, object]:
    """The recorded values with each port by itself."""
    document = json.loads(text)
    ports = document.get("ports", {}).items()
    return {**document, "ports": {name: port for names, port in ports for name in names.split()}}


def _short(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def pack_baseline(text: str) -> str:
    """A recorded baseline for the environment: one line, and packed where it would be too long."""
    line = _short(json.loads(text))
    if len(line) <= PACK_ABOVE:
        return line
    return PACKED + base64.b64encode(zlib.compress(line.encode(), 9)).decode()


def unpack_baseline(text: str) -> str:
    """The other way."""
    packed = text.removeprefix(PACKED)
    return text if packed == text else zlib.decompress(base64.b64decode(packed)).decode()


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
