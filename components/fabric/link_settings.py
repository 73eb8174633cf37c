"""What a link runs at: what the file says of it, and what the port can have. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from components.fabric.splits import PortSplit, splits_of
from components.fabric.systems import system_of
from components.fabric.systems.switch_system import LinkForm, LinkWish, SwitchSystem
from components.model.fabric import Switch
from components.model.switch_ports import Fec

ALWAYS_RS_GBIT_S: Final = 200
"""200 and 400 Gbit/s have Reed-Solomon on each kind of lane (IEEE 802.3bs, clause 119), and 800
Gbit/s has it too (802.3df)."""
PAM4_LANE_GBIT_S: Final = 50
"""Lanes that carry two bits a symbol have Reed-Solomon alone (802.3cd, clauses 134 and 91)."""
NRZ_LANE_GBIT_S: Final = 25
"""Reed-Solomon by 802.3by (clause 108) and 802.3bj (clause 91)."""
FIRE_CODE_GBIT_S: Final = (25, 50)
"""Of lanes of 25 Gbit/s, the speeds that have Fire code too: 802.3by, and the 25G Ethernet
Consortium for two lanes. 100 Gbit/s on four lanes has none."""
ALL: Final[tuple[Fec, ...]] = ("rs", "fc", "none")


def speeds_of(switch: Switch, name: str) -> Mapping[int, int | None]:
    """Each speed of a port, or of a part, in Gbit/s to its lanes; None: their number is not known.

    Empty where nothing is known of the port.
    """
    model, split = switch.hardware, _split_of(switch, name)
    if model is None or not model.has_port(switch.os, name):
        return {}
    lanes = model.lanes // (split.count if split else 1)
    top = split.speed_gbit_s if split else model.speed_of(switch.os, name, 1)
    if name in model.slow_ports:
        return {top: None}
    if not splits_by_speed(system_of(switch.os)):
        # A slower module may have as many lanes as the port, or fewer and faster ones.
        slower = dict.fromkeys(each for each in model.port_speeds_gbit_s if each < top)
        return {**slower, top: lanes}
    forms = {form.speed_gbit_s: model.lanes // form.parts for form in model.splits}
    return {speed: n for speed, n in sorted(forms.items()) if n < lanes} | {top: lanes}


def fecs_of(speed_gbit_s: int, lanes: int | None) -> tuple[Fec, ...]:
    """The error correction that a speed can have on so many lanes; None: not known."""
    if speed_gbit_s >= ALWAYS_RS_GBIT_S:
        return ("rs",)
    if lanes is None:
        return ALL
    lane = speed_gbit_s / lanes
    if lane >= PAM4_LANE_GBIT_S:
        return ("rs",)
    if lane < NRZ_LANE_GBIT_S:
        return ("fc", "none")
    return ALL if speed_gbit_s in FIRE_CODE_GBIT_S else ("rs", "none")


def plan_link(switch: Switch, name: str) -> dict[str, object]:
    """`speed`, `fec` and `autoneg` of a `PortState`, as far as the file, or a split, says them."""
    system, said = system_of(switch.os), switch.link_of(name)
    if isinstance(system.links, str):
        return {}
    split, speed = _split_of(switch, name), said.speed_gbit_s
    if speed is None and splits_by_speed(system) and split is not None and split.form is not None:
        speed = split.speed_gbit_s
    lanes = speeds_of(switch, name).get(speed) if speed else None
    return {**system.links.words(LinkWish(speed, lanes, said.fec, said.autoneg))}


def splits_by_speed(system: SwitchSystem) -> bool:
    """Whether a port is split by the speed of its parts."""
    return isinstance(system.links, LinkForm) and system.links.by_lanes


def _split_of(switch: Switch, name: str) -> PortSplit | None:
    return next((each for each in splits_of(switch).values() if name in each.parts), None)
