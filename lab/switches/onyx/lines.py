"""The lines of the configuration: their effect, and their form in `show running-config`.

The forms come from lab/sources.md#onyx; each group names its source. If no capture shows the text
of a refusal, it is marked `guess`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any, Final, cast

from lab.switches.command_line import (
    CliError,
    Handler,
    Lines,
    Row,
    commands_of,
    flag,
    lines_of,
    listed,
    table,
)
from lab.switches.onyx.config import (
    FACTORY_VLAN,
    FACTORY_WEIGHTS,
    Config,
    Congestion,
    Mode,
    PortConfig,
    RoceMode,
    Stored,
    apply_roce,
    collapse_ports,
    expand_ports,
    expand_vlans,
    split,
)
from lab.switches.text import collapse

MTU_RANGE_BYTES: Final = (1500, 9612)
"""module_utils/network/onyx/onyx.py:231 of the Ansible collection."""
RELEASE: Final = "3.9.2504"
_PORT: Final = "interface ethernet <ports>"
_PFC: Final = "dcb priority-flow-control"
_ALLOWED: Final = "switchport trunk|hybrid allowed-vlan"
_NAMING: Final = (
    *("switchport access vlan <int>", f"{_ALLOWED} add <vlans>", f"{_ALLOWED} none|all|<vlans>"),
)
"""A guess: a VLAN must exist before a port names it."""
_FLAPS: Final = ("shutdown", "mtu <int> force")


def _on_ports(tail: str, change: Handler) -> Handler:
    """Make a change to every port of the range in the first place; count the flaps of ports."""

    def run(stored: Stored, ports: str, *values: str) -> None:
        config = stored.running
        named = tail in _NAMING and values[-1] not in {"none", "all"}
        for vlan in expand_vlans(values[-1]) if named else []:
            if vlan not in config.vlans:
                raise CliError(f"% VLAN {vlan} does not exist")  # guess
        for name in expand_ports(ports, config.ports):
            port = config.ports[name]
            before = port.model_copy()
            change(port, *values)
            if tail in _FLAPS and before.admin_up and before != port:
                stored.flap(name)

    return run


def _number(text: str, most: int = 7, least: int = 0) -> int:
    """Check a traffic class or a priority, 0 to 7 by default; or another number."""
    if not least <= int(text) <= most:
        raise CliError(f"% Please enter an integer between {least} and {most}.")
    return int(text)


def _mtu(_port: PortConfig, text: str) -> int:
    return _number(text, MTU_RANGE_BYTES[1], MTU_RANGE_BYTES[0])


def _set_mtu_when_down(port: PortConfig, text: str) -> None:
    if port.admin_up and int(text) != port.mtu_bytes:
        raise CliError("% Interface must be shut down, or use 'force', to change the MTU")  # guess
    port.mtu_bytes = _mtu(port, text)


def _set_mode(port: PortConfig, mode: str = "access") -> None:
    if port.routed:  # C17: such a port is first made a switchport again
        raise CliError("% Configuration error, interface configured as a router port")
    port.set_mode(cast("Mode", mode))


def _access(port: PortConfig, text: str) -> int:
    if port.mode == "trunk":
        raise CliError("% Access VLAN cannot be set on a trunk port")  # guess
    return int(text)


def _allow(verb: str, port: PortConfig, mode: str, text: str) -> None:
    if port.mode != mode:
        raise CliError(f"% Interface is not in {mode} mode")  # guess
    said = {*expand_vlans(text)} if text not in {"none", "all"} else set[int]()
    if text == "all" or (verb == "add" and port.allowed_vlans == "all"):
        port.allowed_vlans = "all"
    elif verb == "remove":
        port.allowed_vlans = sorted(port.carried - said)
    else:
        port.allowed_vlans = sorted(said | (port.carried if verb == "add" else set()))


def _map_dscp(port: PortConfig, *values: str) -> None:
    held = port.dscp_map | {_number(values[0], 63): _number(values[1])}
    port.dscp_map = {dscp: n for dscp, n in held.items() if n != dscp // 8}


def _mark(unit: str, port: PortConfig, *values: str) -> None:
    tc, low, high = _number(values[0]), int(values[2]), int(values[3])
    if low > high:
        raise CliError("% Minimum threshold must not exceed maximum threshold")  # guess
    port.congestion = {**port.congestion, tc: Congestion(values[1], unit, low, high)}


def _no_mark(port: PortConfig, text: str) -> None:
    tc = _number(text)
    port.congestion = {n: entry for n, entry in port.congestion.items() if n != tc}


def _weigh(port: PortConfig, text: str, weight: str | None = None) -> None:
    """Make a class strict, or give it a weight."""
    held = port.ets | {_number(text): None if weight is None else int(weight)}
    port.ets = {tc: each for tc, each in held.items() if each != FACTORY_WEIGHTS[tc]}


def _of_qos(port: PortConfig) -> Iterator[str]:
    yield from (f"qos rewrite {kind}" for kind in port.rewrite)
    for dscp, priority in sorted(port.dscp_map.items()):
        yield f"qos map dscp {dscp} to switch-priority {priority}"


def _of_buffers(port: PortConfig) -> Iterator[str]:
    for tc, (kind, unit, low, high) in sorted(port.congestion.items()):
        ends = f"minimum-{unit} {low} maximum-{unit} {high}"
        yield f"traffic-class {tc} congestion-control {kind} {ends}"
    strict = [tc for tc, weight in port.ets.items() if weight is None]
    yield from (f"traffic-class {tc} dcb ets strict" for tc in sorted(strict))
    for tc in sorted({*port.ets} - {*strict}):
        yield f"traffic-class {tc} dcb ets wrr {port.ets[tc]}"


_ACCESS: Final = Row("switchport access vlan <int>", "access_vlan", None, FACTORY_VLAN, _access)


def _of_vlans(port: PortConfig) -> Iterator[str]:
    if port.routed:
        yield "no switchport force"
        return
    if port.mode != "access":
        yield f"switchport mode {port.mode}"
    if port.mode != "trunk":
        yield from _ACCESS.lines(port)
    if port.mode != "access" and port.allowed_vlans != ("all" if port.mode == "trunk" else []):
        allowed = port.allowed_vlans
        text = allowed if isinstance(allowed, str) else collapse(allowed) or "none"
        yield f"switchport {port.mode} allowed-vlan {text}"


_INTERFACE: Final = (
    # sonic-mgmt mlnx_fanout.j2 (three lines), Ansible onyx_interface.py (force)
    Row("mtu <int> force", "mtu_bytes", read=_mtu, removable=False),
    Row("shutdown", "admin_up", value=False, without=True),
    Row("description <text>", "description", without="", show='"{}"'.format),
)
_QOS: Final = (
    Row("qos trust L2|L3|both|port", "trust", without="L2"),  # onyx_qos.py:84, manual
    _of_qos,
)
_PAUSE: Final = (  # onyx_pfc_interface.py, lines 172 to 177
    flag(f"{_PFC} mode on force", "pfc", f"{_PFC} mode force"),
)
_PAUSE_PLAIN: Final = flag(f"{_PFC} mode on", "pfc", f"{_PFC} mode")
_MARKED: Final = "traffic-class <int> congestion-control ecn|red|both"
_rewrite: Final = partial(listed, lambda port: port, "rewrite")
_ON_PORTS: Final[tuple[tuple[str, Handler], ...]] = (
    *commands_of((*_INTERFACE, *_QOS, *_PAUSE, _PAUSE_PLAIN, _ACCESS), lambda port: port),
    ("mtu <int>", _set_mtu_when_down),
    # networking-generic-switch, onyx_l2_interface.py, mlnx_fanout.j2
    ("switchport mode access|trunk|hybrid", _set_mode),
    ("no switchport mode", _set_mode),
    # A router port is in no VLAN (collection, `onyx_l3_interface.py`; capture C17).
    ("no switchport force", partial(PortConfig.set_mode, mode="access", routed=True)),
    ("switchport force", partial(PortConfig.set_mode, mode="access")),
    *((f"{_ALLOWED} {verb} <vlans>", partial(_allow, verb)) for verb in ("add", "remove")),
    (f"{_ALLOWED} none|all|<vlans>", partial(_allow, "")),
    # onyx_traffic_class.py, the DeepOps guide, oxidized simulation
    *(
        (f"{_MARKED} minimum-{unit} <int> maximum-{unit} <int>", partial(_mark, unit))
        for unit in ("absolute", "relative")
    ),
    ("no traffic-class <int> congestion-control", _no_mark),
    ("traffic-class <int> dcb ets strict", _weigh),
    ("traffic-class <int> dcb ets wrr <int>", _weigh),
    ("qos rewrite pcp|dscp", _rewrite(on=True)),  # onyx_qos.py:85-88
    ("no qos rewrite pcp|dscp", _rewrite(on=False)),
    # The manual's "QoS Commands" says that the map can change; these words are a guess.
    ("qos map dscp <int> to switch-priority <int>", _map_dscp),
)
"""The words after `interface ethernet <ports>`, which are also lines inside that mode."""


def _ask_split(stored: Stored, ports: str, _module: str) -> None:
    """Without `force` the switch asks (public captures), and a session here cannot answer."""
    names = " ".join(expand_ports(ports, stored.running.ports))
    raise CliError(
        f"the following interfaces will be unmapped: {names}\nType 'yes' to confirm split:"
    )


def _roce(stored: Stored, mode: str = "lossless") -> None:
    """Set the one-shot; by the manual a change may toggle interfaces, here it always does."""
    if stored.running.roce != mode:
        apply_roce(stored.running, cast("RoceMode", mode))
        for name in stored.running.ports:
            stored.flap(name)


def _whole(change: Callable[..., None]) -> Handler:
    def run(stored: Stored, *values: str) -> None:
        change(stored.running, *values)

    return run


def _nothing(_stored: Stored) -> None:
    """Accept a line without any effect in the lab."""


_PAUSED: Final = f"{_PFC} priority <int> enable"  # fixture, capture C2
_paused: Final[Callable[..., Any]] = partial(listed, attrgetter("running"), "pfc_priorities", int)
_LLDP: Final = flag("lldp", "lldp")
_PAGING: Final = flag("cli default paging enable", "paging")
_PAUSES: Final = flag(f"{_PFC} enable force", "pfc_enabled")
_GLOBAL: Final = (
    *(Row("hostname <word>", "hostname", removable=False), _LLDP, _PAGING, _PAUSES),
    flag(f"{_PFC} enable", "pfc_enabled"),
)
COMMANDS: Final = table(
    (
        *((f"{_PORT} {tail}", _on_ports(tail, change)) for tail, change in _ON_PORTS),
        *commands_of(_GLOBAL, lambda stored: stored.running),
        # onyx_vlan.py:169-190, sonic-mgmt mlnx_fanout.j2
        ("vlan <vlans>", _whole(Config.add_vlans)),
        ("no vlan <vlans>", _whole(Config.remove_vlans)),
        ("vlan <int> name <word>", _whole(Config.name_vlan)),
        ("vlan <int> no name", _whole(Config.name_vlan)),
        ("default interface ethernet <ports>", _whole(Config.reset_ports)),  # manual
        (f"{_PORT} module-type <word>", _ask_split),
        (f"{_PORT} module-type <word> force", split),
        ("roce", _roce),  # manual "RoCE Commands": `roce` is `roce lossless`
        ("roce lossless|semi-lossless|lossy", _roce),
        ("no roce", partial(_roce, mode="none")),
        *((f"{no}cli default prefix-modes enable", _nothing) for no in ("", "no ")),
        *((f"{_PAUSED}{end}", _paused(on=True)) for end in ("", " force")),
        *((f"no {_PAUSED}{end}", _paused(on=False)) for end in ("", " force")),
    )
)
"""Every line of config mode, in its one-line form."""
_UNDONE: Final = {
    "qos trust": "qos trust L2",
    "traffic-class 3 congestion-control": "no traffic-class 3 congestion-control",
    "traffic-class 3 dcb ets": f"traffic-class 3 dcb ets wrr {FACTORY_WEIGHTS[3]}",
    "traffic-class 6 dcb ets": f"traffic-class 6 dcb ets wrr {FACTORY_WEIGHTS[6]}",
}
"""First words of the one-shot's lines, to the line that a port prints if it lacks them."""


def _kind(line: str) -> str:
    return next(kind for kind in (*_UNDONE, "") if line.startswith(kind))


def _per_port(config: Config, rows: Iterable[Row | Lines]) -> list[str]:
    """Write equal lines of neighbouring ports as one line with a range.

    The one-shot's own lines for a port are left out. If a port lacks one of them, another line
    undoes it.
    """
    given = Config(hostname="", ports={"1/1": PortConfig()})
    apply_roce(given, config.roce)
    held = [*lines_of(rows, given.ports["1/1"])]
    holders: dict[str, list[str]] = {}
    for name, port in config.ports.items():
        lines = [*lines_of(rows, port)]
        kinds = {*map(_kind, lines)}
        undone = [_UNDONE[_kind(line)] for line in held if _kind(line) not in kinds]
        for line in (*(line for line in lines if line not in held), *undone):
            holders.setdefault(line, []).append(name)
    order = list(config.ports)
    return [
        f"   interface ethernet {ports} {line}"
        for line, names in holders.items()
        for ports in collapse_ports(names, order).split(",")
    ]


def _vlans(config: Config) -> Iterator[str]:
    own = {vlan: name for vlan, name in config.vlans.items() if vlan != FACTORY_VLAN}
    yield from (f"   vlan {vlan}" for vlan in own)
    yield from (f'   vlan {vlan} name "{name}"' for vlan, name in own.items() if name)


def _pauses(config: Config) -> Iterator[str]:
    """With the one-shot the PFC lines belong to `roce` and are not printed (capture C1)."""
    if config.roce == "none":
        yield from (f"   {line}" for line in _PAUSES.lines(config))
        yield from (f"   {_PFC} priority {each} enable" for each in config.pfc_priorities)


def render_running_config(config: Config, generated_at: str = "", release: str = RELEASE) -> str:
    """The whole configuration as `show running-config` prints it.

    Layout: oxidized's capture of Onyx 3.9.2504 and the Ansible fixture onyx_config_config.cfg:
    sections between `##` lines, positive lines indented by three blanks, `no …` and `hostname` at
    column 0. The one-shot's settings of ports are not printed: that capture has `roce lossy` but
    not its trust. The lines of a port with other settings are a guess, as is the order of lines.

    Args:
        config: What to print.
        generated_at: Text of the clock in the head; empty in comparisons.
        release: The running release.
    """
    roce = [] if config.roce == "none" else [f"   roce {config.roce}"]
    sections = (
        ("Interface Ethernet configuration", _per_port(config, _INTERFACE)),
        ("Interface Ethernet buffer configuration", [*roce, *_per_port(config, (_of_buffers,))]),
        ("VLAN configuration", [*_vlans(config), *_per_port(config, (_of_vlans,))]),
        ("QoS switch configuration", _per_port(config, _QOS)),
        ("DCBX PFC configuration", [*_pauses(config), *_per_port(config, _PAUSE)]),
        ("LLDP configuration", [f"   {line}" for line in _LLDP.lines(config)]),
        ("Network management configuration", [f"hostname {config.hostname}"]),
        ("CLI configuration", [*_PAGING.lines(config)]),
    )
    lines = ["##", '## Running database "initial"']
    lines += [f"## Generated at {generated_at}"] if generated_at else []
    lines += [f"## Hostname: {config.hostname}", f"## Product release: {release}", "##", ""]
    lines += ["##", "## Running-config temporary prefix mode setting", "##"]
    lines += ["no cli default prefix-modes enable", ""]
    for title, body in sections:
        lines += ["##", f"## {title}", "##", *body, "   "] if body else []
    lines += ["##", "## Persistent prefix mode setting", "##", "cli default prefix-modes enable"]
    return "\n".join(lines) + "\n"
