"""Which ports of a switch the file splits, and into what: pure, and the same for plan and rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from components.catalogue.switches.switch_model import Split, SwitchModel
from components.fabric.systems.ranges import port_key
from components.model.fabric import Switch
from components.model.once import once


@dataclass(frozen=True, slots=True)
class PortSplit:
    """One port that is split."""

    whole: str
    count: int
    """Into how many parts."""
    form: Split | None
    """That of the model; None: it has none of so many parts, or of such a speed."""
    parts: tuple[str, ...]
    """The names of all parts."""
    named: tuple[str, ...]
    """Those that the file uses."""

    @property
    def speed_gbit_s(self) -> int:
        """Of each part; 0: not known."""
        return self.form.speed_gbit_s if self.form else 0


def used_ports(switch: Switch) -> Mapping[str, tuple[str, ...]]:
    """Every port that the file uses, to where it does: plugged, in a bundle, or between a pair."""
    used: dict[str, tuple[str, ...]] = {}
    for name, bond in switch.bonds.items():
        used |= dict.fromkeys(bond.ports, ("bonds", name, "ports"))
    if switch.mlag is not None:
        used |= dict.fromkeys(switch.mlag.ports, ("mlag", "ports"))
    return used | {name: ("ports", name) for name in switch.ports}


@once
def splits_of(switch: Switch) -> Mapping[str, PortSplit]:
    """Whole port to its split: `breakouts` of the switch, else the fewest parts that are named.

    A port that is used as a whole is not in it.
    """
    model = switch.hardware
    if model is None or switch.os not in model.ports:
        return {}
    named: dict[str, list[str]] = {}
    least: dict[str, int] = {}
    for name in sorted(used_ports(switch), key=port_key):
        place = model.place(switch.os, name)
        if place is not None:
            # A name of its own for a part says that the port is split in two at least.
            needed = place.parts if place.whole == name else max(place.parts, 2)
            least[place.whole] = max(least.get(place.whole, 1), needed)
            named.setdefault(place.whole, []).append(name)
    found: dict[str, PortSplit] = {}
    for whole in dict.fromkeys((*least, *switch.breakouts)):
        form = _form(model, switch, whole, least.get(whole, 1))
        said = switch.breakouts.get(whole)
        count = int(said.split("x")[0]) if said else (form.parts if form else least[whole])
        if count > 1:
            parts = model.part_names(switch.os, whole, count)
            found[whole] = PortSplit(whole, count, form, parts, tuple(named.get(whole, ())))
    return found


def _form(model: SwitchModel, switch: Switch, whole: str, least: int) -> Split | None:
    forms = model.splits_of(switch.os, whole)
    said = switch.breakouts.get(whole)
    if said is not None:
        return next((form for form in forms if form.mode == said), None)
    fitting = [form for form in forms if form.parts >= least > 1]
    return min(fitting, key=lambda form: form.parts, default=None)


@once
def part_speeds(switch: Switch) -> Mapping[str, int]:
    """Part of a split port to its speed in Gbit/s."""
    return {
        name: split.speed_gbit_s for split in splits_of(switch).values() for name in split.parts
    }


def plan_splits(switch: Switch) -> dict[str, tuple[str, ...]] | None:
    """Whole port to the names of its parts, for `SwitchState.splits`; None: none is split."""
    return {whole: split.parts for whole, split in sorted(splits_of(switch).items())} or None
