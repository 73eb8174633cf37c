"""Rules on what a link runs at: speed, error correction and auto-negotiation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from components.checks.links import link_place
from components.checks.rule import Finding, at
from components.checks.topology import PlacedPort, list_all_ports, list_cables
from components.core.problem import Place
from components.fabric.link_settings import fecs_of, speeds_of, splits_by_speed
from components.fabric.marking import link_speed
from components.fabric.splits import splits_of
from components.fabric.systems import driver_of, system_of
from components.fabric.systems.switch_system import LinkForm
from components.model.cluster import ClusterSpec
from components.model.switch_ports import LinkSettings


def check_link_setting(spec: ClusterSpec) -> Iterator[Finding]:
    """A port runs only at what it, its system and the card in it have.

    A speed is one of the port, or of the part of one. Lanes of 50 Gbit/s and more have no link
    without Reed-Solomon (IEEE 802.3bs, 802.3cd). A card that is slower than the speed that its port
    is set to has no link. EOS writes auto-negotiation with the speed, and speed with its lanes.
    """
    yield from _trained(spec)
    for port in list_all_ports(spec):
        said = port.switch.link_of(port.name)
        if said != LinkSettings():
            yield from _port(port, said)
    for cable in list_cables(spec):
        nic, speed = cable.nic.nic, cable.port.switch.link_of(cable.port.name).speed_gbit_s
        able = link_speed(cable.port.switch, cable.port.name) == speed
        if speed is not None and able and nic.speed_gbit_s < speed:
            yield Finding(
                f"{cable.nic.host.name} {nic.netdev} has {nic.speed_gbit_s} Gbit/s, and its port "
                f"is set to {speed}.",
                (
                    at((*cable.nic.path, "speed_gbit_s"), nic.speed_gbit_s),
                    link_place(cable.port, "speed_gbit_s"),
                ),
                f"set speed_gbit_s of the port to {nic.speed_gbit_s}, or of the card to {speed} if "
                "it has that.",
            )


def _trained(spec: ClusterSpec) -> Iterator[Finding]:
    """A line for all ports of an InfiniBand switch; `ib-port` names keys of a port."""
    for s, switch in enumerate(spec.switches):
        form = system_of(switch.os).links
        if switch.carries != "roce" and switch.links != LinkSettings() and isinstance(form, str):
            yield Finding(
                f"links of {switch.name} cannot be set on {driver_of(switch.os).title}: {form}.",
                (at(("switches", s, "links")), at(("switches", s, "os"), switch.os)),
                "remove links.",
            )


def _port(port: PlacedPort, said: LinkSettings) -> Iterator[Finding]:
    switch, form = port.switch, system_of(port.switch.os).links
    title = driver_of(switch.os).title
    keys = [key for key, value in said if value is not None]
    if isinstance(form, str):
        yield Finding(
            f"{' and '.join(keys)} of port {port.name} cannot be set on {title}: {form}.",
            _where(port, *keys),
            f"remove {' and '.join(keys)}, and set it by the switch's own commands.",
        )
        return
    if said.autoneg is not None and said.speed_gbit_s is None and form.by_lanes:
        yield Finding(
            f"{title} writes auto-negotiation with the speed, and port {port.name} has none.",
            _where(port, "autoneg"),
            "add speed_gbit_s beside it, or remove autoneg.",
        )
    yield from _release(port, form, keys)
    yield from _speed(port, said)


def _release(port: PlacedPort, form: LinkForm, keys: list[str]) -> Iterator[Finding]:
    system, switch = system_of(port.switch.os), port.switch
    if system.parse_release(switch.release) >= max(form.since, system.min_release):
        return
    if form.since <= system.min_release:
        return  # `switch-release` names that alone
    yield Finding(
        f"{' and '.join(keys)} of port {port.name} cannot be set on {switch.release}: the lines "
        f"are known from {system.show_release(form.since)} on.",
        _where(port, *keys),
        f"upgrade the switch, or remove {' and '.join(keys)}.",
    )


def _speed(port: PlacedPort, said: LinkSettings) -> Iterator[Finding]:
    """A speed that the port has not; else error correction that the speed has not."""
    known = speeds_of(port.switch, port.name)
    model, split = port.switch.hardware, _is_part(port)
    if not known or model is None:
        return  # `switch-model` and `port-capability` name the cause
    what = "a part of it" if split else f"a port of {model.described}"
    if said.speed_gbit_s is not None and said.speed_gbit_s not in known:
        lanes = " on lanes that are known" if splits_by_speed(system_of(port.switch.os)) else ""
        yield Finding(
            f"port {port.name} of {port.switch.name} is set to {said.speed_gbit_s} Gbit/s, and "
            f"{what} has {_listed(known)}{lanes}.",
            _where(port, "speed_gbit_s"),
            f"set speed_gbit_s to {_listed(known, 'or')}, or remove it.",
        )
        return
    speed = said.speed_gbit_s or max(known)
    able = fecs_of(speed, known.get(speed))
    if said.fec is not None and said.fec not in able:
        yield Finding(
            f"port {port.name} of {port.switch.name} has no link at {speed} Gbit/s with fec "
            f"{said.fec}.",
            _where(port, "fec", *(["speed_gbit_s"] if said.speed_gbit_s else [])),
            f"set fec to {' or '.join(able)}, or remove it.",
        )


def _where(port: PlacedPort, *keys: str) -> tuple[Place, ...]:
    """The port, so that ports are counted, and where the file says it for all of them."""
    places = tuple(link_place(port, key) for key in keys)
    own = any(place.path[:4] == port.path for place in places)
    return places if own else (at(port.path, port.port.to), *places)


def _is_part(port: PlacedPort) -> bool:
    return any(port.name in split.parts for split in splits_of(port.switch).values())


def _listed(speeds: Iterable[int], word: str = "and") -> str:
    texts = [str(each) for each in sorted(speeds)]
    return f" {word} ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else texts[0]
