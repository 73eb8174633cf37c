"""`railyard draw FILE`: hosts, rails, switches and links of a site as one SVG picture."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Final

from components.checks.site import load_checked_site
from components.cli.app import SitePath, option, say, write_text
from components.core.plain_text import counted, plain_text
from components.core.record import record, replace
from components.fabric.ports import port_speeds
from components.model.cluster import ClusterSpec
from components.model.fabric import Switch
from components.model.hosts import Host
from components.model.infiniband import FabricSwitch
from components.model.texts import fold_names

_STYLE: Final = """\
svg { --page: #ffffff; --ink: #1d2733; --soft: #5d6b7a; --card: #f1f4f7; --rule: #8b98a6; }
@media (prefers-color-scheme: dark) {
  svg { --page: #12171d; --ink: #e6ebf0; --soft: #9aa7b4; --card: #1f2730; --rule: #6f7d8b; } }
text { font: 12px system-ui, sans-serif; fill: var(--ink); }
.page { fill: var(--page); } .name { font-weight: 600; font-size: 13px; }
.soft { fill: var(--soft); font-size: 11px; } .title { font-size: 18px; font-weight: 600; }
.box { fill: var(--card); stroke: var(--rule); stroke-width: 1.2; }
.outside { stroke-dasharray: 5 4; } .wire { fill: none; stroke: var(--rule); stroke-width: 1.6; }
.count { font-size: 11px; paint-order: stroke; stroke: var(--page); stroke-width: 4px; }
"""
_LANES: Final = (
    *("#3b82d6", "#d9605b", "#2f9e6e", "#b98417"),
    *("#8f63d2", "#d1589b", "#1f9bae", "#7d8a3c"),
)
"""Colours of rails that are clear on a white and on a dark page; the ninth rail is dashed."""
_WAYS_OUT: Final = ""
"""The key of the box for switches that are not in the file."""
_ROWS: Final = ("hosts", "leaves", "spines", "super-spines")
_MOST_BOXES: Final = 16
"""With more in one row, alike devices share a box."""
_LONGEST_NAME: Final = 28
_FEW: Final = 6
_MOST_COUNTS: Final = 24
"""With more bundles between two rows, only the legend has their numbers."""
_TIMES: Final = "\u00d7"
_LINE: Final = 16
_ROW: Final = 150
_TOP: Final = 112.0
_MARGIN: Final = 36
_LEFT: Final = 96
_NARROWEST: Final = 720
_Places = Mapping[str, tuple[float, float, float]]
"""Device to the middle of its box, its upper edge, and its width."""


@record
class Device:
    """One box: a device, or several alike ones."""

    key: str
    """The name of the device, or of the first of several."""
    row: int
    """0 for hosts, 1 for leaves, and so on."""
    name: str
    lines: tuple[str, ...] = ()

    @property
    def width(self) -> float:
        """Wide enough for its longest line."""
        lines = max((6.3 * len(line) for line in self.lines), default=0.0)
        return max(96.0, 22 + max(7.8 * len(self.name), lines))

    @property
    def height(self) -> int:
        """High enough for its lines."""
        return 14 + _LINE * (len(self.lines) + 1)


@record
class Cable:
    """One line: a cable, or several between the same two boxes."""

    low: str
    high: str
    lane: str
    """The rail or HCA; empty between switches."""
    speeds: tuple[tuple[int, int], ...]
    """Speed in Gbit/s to the number of cables; 0: not known."""
    hint: str

    @property
    def count(self) -> str:
        """`8 x 400G`."""
        return _counted(dict(self.speeds))


def draw_site(spec: ClusterSpec) -> str:
    """Draw a site; the same site always gives the same text."""
    devices, cables = _read(spec)
    drawn = {device.name for device in devices if device.row == 0}
    known = {rail.name: number for number, rail in enumerate(spec.rails)}
    lanes = sorted({c.lane for c in cables if c.lane}, key=lambda lane: (known.get(lane, 0), lane))
    devices, cables = _join(devices, cables)
    rows = [[each for each in devices if each.row == row] for row in range(4)]
    rows = [row for row in rows if row]
    widest = max((sum(each.width + 28 for each in row) for row in rows), default=0.0)
    width = max(widest + _LEFT + _MARGIN, _NARROWEST)
    places, boxes = _place(rows, width)
    wires = _wires(devices, cables, places, lanes)
    lowest = max((each.height for each in rows[0]), default=0) if rows else 0
    foot = _TOP + max(len(rows) - 1, 0) * _ROW + lowest + 40
    legend, height = _legend(spec, lanes, _notes(spec, cables, drawn), (width, foot))
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    label = f'role="img" aria-label="Topology of {escape(plain_text(spec.name))}"'
    page = '<rect class="page" width="100%" height="100%"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {label}><style>{_STYLE}</style>'
    switches = len(spec.switches) + (len(spec.infiniband.switches) if spec.infiniband else 0)
    counts = [counted(len(spec.hosts), "host"), counted(switches, "switch", "switches")]
    counts += [counted(len(spec.rails), "rail")] if spec.rails else []
    kind = "RoCE" if spec.rdma.transport == "roce" else "InfiniBand"
    title = _text(_MARGIN - 12, 34, spec.name, "title")
    words = _text(_MARGIN - 12, 54, f"{', '.join(counts)}; {kind}", "soft")
    return "\n".join([head, page, title, words, *wires, *boxes, *legend, "</svg>\n"])


def _read(spec: ClusterSpec) -> tuple[list[Device], list[Cable]]:
    switches: list[Switch | FabricSwitch] = [*spec.switches]
    switches += spec.infiniband.switches if spec.infiniband else ()
    fabric = spec.infiniband.rate_gbit_s if spec.infiniband else 0
    ends: dict[str, list[tuple[str, int, str]]] = {}
    for each in switches:
        ours = each if isinstance(each, Switch) and not fabric else None
        speeds: Mapping[str, int] = port_speeds(spec, ours) if ours else {}
        ends[each.name] = [
            (to if isinstance(to, str) else to.to, speeds.get(port, fabric), f"{each.name} {port}")
            for port, to in each.ports.items()
        ]
    cables = [
        Cable(far.partition("/")[0], name, far.partition("/")[2], ((speed, 1),), hint)
        for name, found in ends.items()
        for far, speed, hint in found
        if ":" not in far
    ]
    tiers = _tiers({cable.high for cable in cables}, ends)
    pairs: dict[frozenset[str], Cable] = {}
    for name, found in ends.items():
        for far, speed, hint in found:
            other, colon, port = far.partition(":")
            if colon and other in ends:
                low, high = sorted((name, other), key=lambda each: (tiers[each], each))
                cable = Cable(low, high, "", ((speed, 1),), f"{hint} to {other} {port}")
                pairs.setdefault(frozenset({hint, f"{other} {port}"}), cable)
    cables += [*pairs.values(), *_ways_out(spec, {cable.low for cable in cables})]
    of_low: dict[str, list[Cable]] = defaultdict(list)
    for cable in cables:
        of_low[cable.low].append(cable)
    hosts = [host for host in spec.hosts if host.name in of_low]
    boxes = [_host(spec, host, _total(of_low[host.name])) for host in hosts]
    if any(cable.high == _WAYS_OUT for cable in cables):
        name = "InfiniBand of the cloud" if spec.cloud else "switches that are not in the file"
        boxes.append(Device(_WAYS_OUT, 1, name))
    for each in switches:
        kind = f"{each.model} · {each.os}" if isinstance(each, Switch) else each.model
        boxes.append(Device(each.name, tiers[each.name], each.name, (kind,)))
    return boxes, cables


def _tiers(
    leaves: set[str], ends: Mapping[str, Sequence[tuple[str, int, str]]]
) -> Mapping[str, int]:
    """The row of each switch: its links to the nearest one with hosts, at most three."""
    found = {name: 1 for name in ends if name in leaves}
    near = {name: {far.partition(":")[0] for far, *_ in each} for name, each in ends.items()}
    for row in (2, 3):
        below = {name for name, tier in found.items() if tier == row - 1}
        above = {name for name in ends if name not in found and near[name] & below}
        found |= dict.fromkeys(above, row)
    return {name: found.get(name, 1 if not leaves else 3) for name in ends}


def _ways_out(spec: ClusterSpec, cabled: set[str]) -> Iterator[Cable]:
    """The cards of hosts whose switches are not in the file: of a cloud, or of other people."""
    fabric = spec.ib_fabric
    for host in spec.hosts:
        if host.name in cabled:
            continue
        for nic in host.nics:
            speed = ((nic.speed_gbit_s, 1),)
            yield Cable(host.name, _WAYS_OUT, nic.rail, speed, f"{host.name} {nic.netdev}")
        count = host.hcas or (fabric.hcas if fabric and spec.cloud and host in spec.workers else 0)
        if count and not host.nics and fabric:
            yield Cable(host.name, _WAYS_OUT, "", ((fabric.rate_gbit_s, count),), host.name)


def _host(spec: ClusterSpec, host: Host, speeds: Mapping[int, int]) -> Device:
    gpus = f"{host.gpus} {_TIMES} {host.gpu_model or 'GPU'}"
    on = [each.name for each in spec.hypervisors if any(vm.name == host.name for vm in each.vms)]
    lines = (gpus if host.gpus else host.role.replace("_", " "), _counted(speeds))
    return Device(host.name, 0, host.name, (*lines, *(f"on {name}" for name in on)))


def _counted(speeds: Mapping[int, int]) -> str:
    """For example: eight of 400 Gbit/s."""
    known = ((count, f"{speed}G" if speed else "?") for speed, count in sorted(speeds.items()))
    return ", ".join(f"{count} {_TIMES} {speed}" for count, speed in known)


def _join(devices: Sequence[Device], cables: Sequence[Cable]) -> tuple[list[Device], list[Cable]]:
    """Join devices with the same neighbours into one box, if there are too many for a box each."""
    first: dict[tuple[object, ...], str] = {}
    groups = {each.key: each.key for each in devices}
    for row in range(4):
        here = [each for each in devices if each.row == row]
        if len(here) <= _MOST_BOXES:
            continue
        for each in here:
            below = frozenset(groups[c.low] for c in cables if c.high == each.key and row)
            above = frozenset(c.high for c in cables if c.low == each.key)
            key = row, each.lines, below, above
            groups[each.key] = first.setdefault(key, each.key)
    members: dict[str, list[str]] = defaultdict(list)
    for name, group in groups.items():
        members[group].append(name)
    joined: dict[tuple[str, str, str], list[Cable]] = defaultdict(list)
    for cable in cables:
        low, high = groups[cable.low], groups[cable.high]
        joined[low, high, cable.lane].append(cable)
    boxes: list[Device] = []
    for each in (each for each in devices if each.key in members):
        names = members[each.key]
        folded, number = fold_names(names), len(names)
        shown = folded if len(folded) <= _LONGEST_NAME else f"{names[0]} … {names[-1]}"
        count = counted(number, "switch", "switches") if each.row else counted(number, "host")
        joined_box = replace(each, name=shown, lines=(count, *each.lines))
        boxes.append(joined_box if number > 1 else each)
    return boxes, [
        Cable(*key, tuple(sorted(_total(found).items())), "\n".join(c.hint for c in found[:32]))
        for key, found in joined.items()
    ]


def _total(cables: Iterable[Cable]) -> Counter[int]:
    """Speed to the number of cables."""
    speeds = Counter[int]()
    for cable in cables:
        speeds.update(dict(cable.speeds))
    return speeds


def _place(rows: Sequence[Sequence[Device]], width: float) -> tuple[_Places, list[str]]:
    """The places of the boxes, and the boxes."""
    places: dict[str, tuple[float, float, float]] = {}
    boxes: list[str] = []
    for number, row in enumerate(rows, 1):
        y = _TOP + (len(rows) - number) * _ROW
        free = width - _LEFT - _MARGIN - sum(each.width for each in row)
        gap, left = free / len(row), _LEFT + free / len(row) / 2
        if row[0].key != _WAYS_OUT:
            boxes.append(_text(_MARGIN - 12, y + 28, _ROWS[row[0].row], "soft"))
        for each in row:
            x = left + each.width / 2
            left += each.width + gap
            places[each.key] = x, y, each.width
            kind = "box" if each.key != _WAYS_OUT else "box outside"
            boxes.append(
                f'<rect x="{x - each.width / 2:.1f}" y="{y:.0f}" width="{each.width:.1f}"'
                f' height="{each.height}" rx="6" class="{kind}"/>'
            )
            for at, line in enumerate((each.name, *each.lines)):
                kind = "soft" if at else "name"
                boxes.append(_text(x, y + 18 + at * _LINE, line, kind, "middle"))
    return places, boxes


def _wires(
    devices: Sequence[Device], cables: Sequence[Cable], places: _Places, lanes: Sequence[str]
) -> Iterator[str]:
    ends: dict[tuple[str, bool], list[tuple[str, Cable]]] = defaultdict(list)
    rows = {each.key: each for each in devices}
    order = {lane: number for number, lane in enumerate(lanes)}
    for cable in cables:
        aside = rows[cable.low].row == rows[cable.high].row
        ends[cable.low, True].append((cable.high, cable))
        ends[cable.high, aside].append((cable.low, cable))
    at: dict[tuple[str, int], tuple[float, float]] = {}
    for (name, upper), found in ends.items():
        x, y, width = places[name]
        found.sort(key=lambda end: (places[end[0]][0], order.get(end[1].lane, 0)))
        for number, (_, cable) in enumerate(found):
            share = (number + 0.5) / len(found) - 0.5
            edge = y if upper else y + rows[name].height
            at[name, id(cable)] = x + share * width * 0.86, edge
    for cable in cables:
        (x1, y1), (x2, y2) = at[cable.low, id(cable)], at[cable.high, id(cable)]
        bend = (y1 + y2) / 2 if y1 != y2 else y1 - 52
        number = lanes.index(cable.lane) if cable.lane else -1
        colour = f"stroke: {_LANES[number % len(_LANES)]};" if cable.lane else ""
        dashes = " stroke-dasharray: 6 3;" if number >= len(_LANES) else ""
        thick = 1.4 + 0.3 * min(sum(n for _, n in cable.speeds) - 1, 8) ** 0.7
        curve = f"{x1:.1f} {y1:.1f}C{x1:.1f} {bend:.1f} {x2:.1f} {bend:.1f} {x2:.1f} {y2:.1f}"
        style = f'class="wire" style="{colour}{dashes} stroke-width: {thick:.1f}"'
        title = f"<title>{escape(plain_text(cable.hint))}: {cable.count}</title>"
        yield f'<path d="M{curve}" {style}>{title}</path>'
    bands: dict[tuple[int, int], list[Cable]] = defaultdict(list)
    for cable in cables:
        if not cable.lane:
            bands[rows[cable.low].row, rows[cable.high].row].append(cable)
    for band in bands.values():
        ends_of = [(each, at[each.low, id(each)], at[each.high, id(each)]) for each in band]
        yield from _counts(ends_of)


def _counts(
    band: Sequence[tuple[Cable, tuple[float, float], tuple[float, float]]],
) -> Iterator[str]:
    """Label the lines between two rows: each one, or all at once if they are many and alike."""
    counts = {cable.count for cable, *_ in band}
    if len(band) > _FEW and len(counts) == 1:
        _, (_, low), (_, high) = band[0]
        yield _text(_MARGIN - 12, (low + high) / 2 + 4, f"{counts.pop()} each", "soft")
        return
    seen = Counter[str]()
    for cable, start, end in band if len(band) <= _MOST_COUNTS else ():
        aside = (start[0] + end[0]) / 2, start[1] - 44
        above = start[0], start[1] - 9 - 13 * (seen[cable.low] % 3)
        yield _text(*(aside if start[1] == end[1] else above), cable.count, "count", "middle")
        seen[cable.low] += 1


def _legend(
    spec: ClusterSpec, lanes: Sequence[str], notes: Iterable[str], size: tuple[float, float]
) -> tuple[list[str], float]:
    width, y = size
    parts: list[str] = []
    columns = max(1, int((width - 2 * _MARGIN) // 270))
    for number, lane in enumerate(lanes):
        x, line = _MARGIN - 12 + number % columns * 270, y + number // columns * 20
        dashes = ' stroke-dasharray="6 3"' if number >= len(_LANES) else ""
        style = f'stroke="{_LANES[number % len(_LANES)]}" stroke-width="3"{dashes}'
        rail = spec.rail(lane)
        words = f"{lane}: VLAN {rail.vlan}, {rail.subnet}" if rail else lane
        parts += [f'<path d="M{x:.0f} {line:.0f}h22" {style}/>', _text(x + 30, line + 4, words, "")]
    y += -(-len(lanes) // columns) * 20 + 12
    for words in notes:
        for line in wrap(words, int((width - 2 * _MARGIN) / 6)):
            parts.append(_text(_MARGIN - 12, y, line, "soft"))
            y += _LINE
    return parts, y + 8


def _notes(spec: ClusterSpec, cables: Sequence[Cable], drawn: Collection[str]) -> Iterator[str]:
    for lowest, title in ((True, "Links of hosts"), (False, "Links between switches")):
        if speeds := _total(each for each in cables if (each.low in drawn) is lowest):
            yield f"{title}: {_counted(speeds).replace('G', ' Gbit/s')}"
    roles: dict[str, list[str]] = defaultdict(list)
    for host in spec.hosts:
        if host.name not in drawn:
            roles[host.role.replace("_", " ")].append(host.name)
    named = [f"{fold_names(names)} ({role})" for role, names in roles.items()]
    others = [f"{each.name} ({each.network})" for each in spec.other_switches]
    if found := [*named, *others]:
        yield f"Not on the rails: {', '.join(found)}"


def _text(x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}"'
    return f"<text {place}>{escape(plain_text(words))}</text>"


def draw(
    file: SitePath,
    *,
    out: Annotated[
        Path | None, option("File to write; - for standard output.", "--out", "-o")
    ] = None,
) -> None:
    """Draw the hosts, rails, switches and links of a site as an SVG picture.

    Exit codes: 0 drawn, 1 the file has problems, 2 a file cannot be read or written.
    """
    spec = load_checked_site(file).spec_or_raise()
    text, path = draw_site(spec), out or Path(f"{spec.name}.svg")
    if str(path) == "-":
        say(text, nl=False)
        return
    write_text(path, text)
    say(f"wrote {path}")
