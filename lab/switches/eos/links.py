"""Lanes and speeds of a model's ports, and whether they allow a link."""

from __future__ import annotations

from lab.switches.eos.config import Config, Port, port_order
from lab.switches.front import Front, front_of


def factory_config(hostname: str, model: str, lanes: tuple[str, ...]) -> Config:
    """The configuration of a switch in factory state.

    Args:
        hostname: Its name.
        model: Its model.
        lanes: Ports beyond the first lane of each cage, which exist because the port was split.

    Raises:
        UsageError: The lab does not know this model.
    """
    front = front_of(model, "eos")
    whole = [f"Ethernet{number}/1" for number in range(1, front.ports + 1)]
    names = sorted({*whole, *lanes}, key=port_order)
    ports = {name: Port() for name in names}
    return Config(hostname=hostname, ports=ports, speeds=_speeds(front))


_OLD_LANE = 25
"""The fastest lane speed that is written without its lane count."""


def _speeds(front: Front) -> list[str]:
    """`400g-4` is 400 Gbit/s on four lanes; a single lane for `25g` is a guess."""
    pairs = [(each.mode.split("x"), each) for each in front.splits]
    found = [(int(speed), front.lanes // int(parts)) for (parts, speed), _ in pairs]
    found += [(max(front.speeds_gbit_s), front.lanes)]
    return [
        f"{speed}g-{lanes}" if lanes > 1 or speed > _OLD_LANE else f"{speed}g"
        for speed, lanes in found
    ]


def is_active(config: Config, name: str, lanes: int) -> bool:
    """Whether a port has its first lane: an earlier port may use it, as the first does by default.

    The other ports are assumed to use the fewest lanes that they can, which is a guess.
    """
    head, _, lane = name.rpartition("/")
    for before in range(1, int(lane)):
        port = config.ports.get(f"{head}/{before}")
        speed = (port.speed or "") if port else ""
        width = int(speed.partition("-")[2] or 1) if speed else (lanes if before == 1 else 1)
        if before + width > int(lane):
            return False
    return True


PAM4_LANE_GBIT_S = 50
"""A lane of 50 Gbit/s or more needs Reed-Solomon for a link (IEEE 802.3bs, 802.3cd)."""


def is_corrected(port: Port, fastest_gbit_s: int, lanes: int) -> bool:
    """Whether a port has the error correction that its lanes need; it does by default."""
    gbit_s, width = fastest_gbit_s, lanes
    if port.speed:
        head, _, tail = port.speed.removeprefix("auto ").partition("g")
        gbit_s, width = int(head), int(tail.removeprefix("-") or 1)
    plain = not port.fec or "reed-solomon" in port.fec
    return gbit_s / width < PAM4_LANE_GBIT_S or (plain and "no" not in port.fec)
