"""NVIDIA Cumulus Linux: NVUE's tree of keys, its output, and how changes reach it.

People see `nv set` and `nv unset` lines. They are sent as documents for `nv config patch`, since
each `nv set` starts a program and takes a second or two. A document is not ordered, and cannot
`unset` and `set` the same object (page "NVUE CLI"), so one document unsets, and the next one sets.
"""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, product
from typing import Final, Literal, Self

from pydantic import JsonValue, TypeAdapter, ValidationError

from components.core.errors import Bug
from components.core.templates import fault_text
from components.fabric.moves import Packed
from components.fabric.parts import LATER
from components.fabric.state import EcnState, PortState, SwitchState
from components.fabric.systems import base
from components.fabric.systems.base import Answer, Unreadable
from components.fabric.systems.ranges import port_key

Tree = dict[str, JsonValue]
_JSON: Final[TypeAdapter[JsonValue]] = TypeAdapter(JsonValue, config=LATER)
BRIDGE: Final = "br_default"
ON: Final = frozenset({"on", "enabled", "enable", "yes", "true"})
OFF: Final = frozenset({"off", "disabled", "disable", "no", "false"})
BYTES_PER_KIB: Final = 1024
VLANS: Final = range(1, 4095)
"""IEEE 802.1Q; 0 and 4095 are reserved."""
SWP: Final = re.compile(r"swp\d+(s\d+)?")
"""A front panel port, or a part of a split one."""
MOST: Final = 4096
"""Names that one key can mean; a bridge has at most 4,094 VLANs, and a switch fewer ports."""
_N: Final = r"(?:0|[1-9]\d*)"
_PART: Final = re.compile(
    rf"(?P<head>[A-Za-z_]*)(?P<first>{_N})(?:-(?:(?P=head))?(?P<last>{_N}))?"
    rf"(?:s(?P<lane>{_N})(?:-(?P<end>{_N}))?)?"
)
_NAME: Final = re.compile(
    r"(?!swp\d|vlan[\d-]+$)[A-Za-z](?:[\w.-]*\w)?|swp\d+(?:s\d+)?\.\d+"
    r"|[\da-f]*[.:][\da-f.:]*(?:/\d+)?"
)
"""A name other than letters and a number: `peerlink.4094`, `bond01`, `swp1.100`, an address."""
ROCE: Final = "nv show qos roce"
_MODES: Final = frozenset({"lossless", "lossy", "lossless-single-ipool", "lossy-multi-tc"})
TRUST: Final[Mapping[str, Literal["L2", "L3", "both", "port"]]] = {
    "pcp": "L2",
    "dscp": "L3",
    "pcp,dscp": "both",
    "l2": "L2",
    "l3": "L3",
    "both": "both",
    "port": "port",
}
"""Words of the RoCE profile, and those of a mapping profile."""
_SCHEDULE: Final = re.compile(r"^ +\d+ +\d+ +(\d+) +([A-Za-z]\S*)", re.MULTILINE)
_SCHEDULERS: Final = re.compile(r"(?:DWRR|strict)(?:-\S*)?", re.IGNORECASE)
"""A row of `RoCE SP->TC mapping and ETS configurations`: index, priority, class, scheduler."""
_RULE: Final = re.compile(r"^-+ +-+ +-+.*$", re.MULTILINE)
_SAYS_ON: Final = re.compile(r"^ *(?:enable|state) .*\b(?:on|enabled)\b", re.MULTILINE)
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?) (Bytes|KB|MB|GB|TB)")
"""A size in the text forms and in some JSON."""
_UNITS: Final = ("Bytes", "KB", "MB", "GB", "TB")
_STORM_HEAD: Final = re.compile(r"^ *traffic-class +status +deadlock-count *$", re.MULTILINE)
_STORM_ROW: Final = re.compile(r"^ *([0-7]) +(?:OK|DEADLOCK) +(\d+) *$", re.MULTILINE)
_STATE_ROW: Final = re.compile(r"^state +\S", re.MULTILINE)
Verb = Literal["set", "unset"]
ImpliedPaths = Sequence[tuple[str, str | int]]
"""Paths and words that `nv set` adds to a line on its own; a document must name them."""
FILE: Final = "~/.railyard.yaml"
"""On the switch, in the login's home. It is free of secrets, and removed once it was taken."""
PATCH: Final = f"nv config patch {FILE} && rm {FILE}"
PIECE: Final = 400
"""Characters of a document in one command: the terminal of the session may have 511 columns."""
_LISTS: Final = frozenset({"interface", "vlan", "traffic-class"})
"""Words of a path that a list of keys may follow."""
REVISIONS: Final = "nv config revision -o json"
"""An older release refuses it; a change there cannot be taken back by a timer."""
WAITING: Final = "confirm"
"""State of an unconfirmed revision in force (public clients)."""
_ROWS: TypeAdapter[dict[str, dict[str, JsonValue]]] = TypeAdapter(
    dict[str, dict[str, JsonValue]], config=LATER
)


def load(answer: Answer) -> JsonValue:
    """Read an answer in JSON."""
    return answer.typed(_JSON, answer.text.strip(), is_text=True)


def load_tree(answer: Answer) -> Tree:
    """Read an answer of one object."""
    return _object(load(answer), "the top")


def _object(value: JsonValue, at: str) -> Tree:
    if value is None or isinstance(value, dict):
        return value or {}
    raise ValueError(f"{value!r} is in place of a table at `{at}`")


def child(tree: Tree, *path: str) -> Tree:
    """The subtree at a path; empty if it is missing."""
    for key in path:
        tree = _object(tree.get(key), key)
    return tree


def number_at(tree: Tree, path: str, allowed: range) -> int | None:
    """The number at a path; None if it is missing."""
    said = value_at(tree, path)
    if said is None:
        return None
    if not str(said).isdecimal() or int(str(said)) not in allowed:
        raise ValueError(f"`{path}` is {said!r}, not a number from {allowed[0]} to {allowed[-1]}")
    return int(str(said))


def vlans_of(names: Iterable[str]) -> tuple[int, ...]:
    """The VLANs of a table, by number."""
    found = tuple(sorted(map(int, names)))
    if odd := [vlan for vlan in found if vlan not in VLANS]:
        raise ValueError(f"VLAN {odd[0]} does not exist")
    return found


def value_at(tree: Tree, path: str) -> JsonValue:
    """The value at a path of words; None if it is missing."""
    *above, last = path.split()
    return child(tree, *above).get(last)


def spelled(tree: Tree, path: str) -> dict[str, Tree]:
    """The entries of the table at a path by name, since a key may mean several names."""
    found: dict[str, Tree] = {}
    for key, value in child(tree, *path.split()).items():
        for name in expand_names(key):
            found[name] = _merged(found.get(name, {}), _object(value, key))
    return found


def _merged(one: Tree, other: Tree) -> Tree:
    both: Tree = {**one, **other}
    for key in one.keys() & other.keys():
        held, value = one[key], other[key]
        if isinstance(held, dict) and isinstance(value, dict):
            both[key] = _merged(held, value)
    return both


def within(tree: Tree, ours: Sequence[str]) -> bool:
    """Whether everything in a tree is at or below some paths, in which `*` is any key."""
    for key, value in tree.items():
        steps = (path.partition(" ") for path in ours)
        below = [rest for step, _, rest in steps if step in {key, "*"}]
        if "" not in below and not (below and isinstance(value, dict) and within(value, below)):
            return False
    return True


def expand_names(key: str) -> Iterator[str]:
    """Spell out a key of the tree: `swp1,51-54` are five interfaces, `10-12,20` four VLANs.

    NVUE prints the letters once, and split ports by both numbers: `swp1-2s0-3` are eight. After the
    lanes of one port, `s5-6` and a bare number are further lanes of that port
    (tests/fabric/forms/README.md). ValueError: the names are not clear, or too many.
    """

    def span(first: str, last: str | None) -> range:
        found = range(int(first), int(last or first) + 1)
        if not 0 < len(found) <= MOST:
            raise ValueError(f"the key {key!r} has a range that no switch can mean")
        return found

    head, port, count = "" if key[:1].isdecimal() else None, "", 0
    for part in map(str.strip, key.split(",")):
        found = _PART.fullmatch(part)
        if _is_unclear(part, found, head, port):
            raise ValueError(f"the key {key!r} has {part!r}, which may mean any name or none")
        if found is None:
            head, port, names = None, "", [part]
        elif port and (found["head"] == "s" or part.replace("-", "").isdecimal()):
            names = [f"{port}s{lane}" for lane in span(found["first"], found["last"])]
        else:
            head = found["head"] or head
            ports = [f"{head}{number}" for number in span(found["first"], found["last"])]
            lanes = found["lane"] and span(found["lane"], found["end"])
            port = ports[0] if lanes and len(ports) == 1 else ""
            names = [f"{each}s{lane}" for each in ports for lane in lanes] if lanes else ports
        count += len(names)
        if count > MOST:
            raise ValueError(f"the key {key!r} means more than {MOST} names")
        yield from names


def _is_unclear(part: str, found: re.Match[str] | None, head: str | None, port: str) -> bool:
    """Letters come before the first number, and `s5` only after the lanes of one port."""
    if found is None:
        return not _NAME.fullmatch(part)
    letters = found["head"]
    return (letters or head) is None or (letters == "s" and bool(head) and not port)


def _head_of(name: str) -> str:
    """`swp` of swp1s0: ports of two kinds are never one run."""
    return re.split(r"\d", name, maxsplit=1)[0]


def collapse_ports(names: Iterable[str]) -> str:
    """Write ports as one argument: `swp1-3,swp7,swp9s0-1`."""

    def run_of(each: tuple[int, str]) -> tuple[str | int, ...]:
        *above, last = port_key(each[1])
        return (_head_of(each[1]), *above, last - each[0])

    words: list[str] = []
    ordered = sorted(names, key=lambda name: (_head_of(name), port_key(name)))
    for _, run in groupby(enumerate(ordered), run_of):
        first, *rest = (name for _, name in run)
        words.append(f"{first}-{port_key(rest[-1])[-1]}" if rest else first)
    return ",".join(words)


def parse_profile(text: str) -> SwitchState:
    """`nv show qos roce`, the text form: the vendor's page shows it for three profiles.

    No transcript shows a switch without a profile: a text that shows neither `enable on` nor `state
    enabled` is taken for one, and the caller compares it with the configuration. A blank answer
    proves nothing: Unreadable. Settings of every port have an empty port name.
    """
    if not text.strip():
        raise Unreadable(ROCE, text, "the answer is blank, which does not say that RoCE is off")
    none = SwitchState(pfc_priorities=(), pfc_enabled=False, roce="none", ports={"": PortState()})
    if not {_row(text, "enable"), _row(text, "state")} & ON:
        if _SAYS_ON.search(text) and not _RULE.search(text):
            raise Unreadable(ROCE, text, "a profile is on, and no rule of dashes tells the columns")
        return none
    mode, schedule = _row(text, "mode"), _SCHEDULE.findall(text)
    low, high = (_read_size(_row(text, f"{end}-threshold")) for end in ("min", "max"))
    if mode not in _MODES:
        raise Unreadable(ROCE, text, "no RoCE mode in the answer")
    if low is None or high is None:
        raise Unreadable(ROCE, text, "no ECN thresholds in the answer")
    if not schedule or not all(_SCHEDULERS.fullmatch(kind) for _, kind in schedule):
        raise Unreadable(ROCE, text, "no scheduler that we know of the traffic classes")
    ecn = EcnState(min_kib=low // BYTES_PER_KIB, max_kib=high // BYTES_PER_KIB)
    is_paused = _row(text, "rx-enabled") in ON and _row(text, "tx-enabled") in ON
    paused = _numbers(_row(text, "pfc-priority")) if is_paused else ()
    port = PortState(
        trust=TRUST.get(_row(text, "trust-mode")),
        ecn=dict.fromkeys(_numbers(_row(text, "enabled-tc")), ecn),
        strict_classes=tuple(sorted(int(tc) for tc, kind in schedule if kind[0] in "sS")),
        class_shares={int(tc): int(n) for tc, how in schedule for n in re.findall(r"(\d+)%", how)},
    )
    given = {"pfc_priorities": paused, "pfc_enabled": bool(paused), "roce": mode}
    return none.model_copy(update={**given, "ports": {"": port}})


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))


def _row(text: str, name: str) -> str:
    """The value of a row: applied, else operational; blank without such a row.

    The rule of dashes below the head shows the start of each column. Up to Cumulus 5.3 a third
    column describes the setting (tests/fabric/forms/README.md).
    """
    rule = _RULE.search(text)
    row = re.search(rf"^ *{name} +\S.*$", text, re.MULTILINE)
    if rule is None or row is None:
        return ""
    _, operational, applied, *more = (cell.start() for cell in re.finditer(r"-+", rule.group()))
    line = row.group()
    cells = (line[operational:applied], line[applied : more[0] if more else None])
    return cells[1].strip() or cells[0].strip()


def _read_size(text: str) -> int | None:
    """Bytes of `146.48 KB`; None: not a size."""
    found = _SIZE.fullmatch(text)
    return int(float(found[1]) * BYTES_PER_KIB ** _UNITS.index(found[2])) if found else None


def read_counters(
    roce: Answer, queues: Answer, storms: Answer | None, roce_class: int
) -> base.PortCounters:
    """The counters of a port, as far as they can be read.

    Received bytes are counted as RoCE or not, so the first are those of the RoCE class and the
    others are under 0; sent bytes are counted per class.
    """
    soft = base.SoftReader()
    received = {roce_class: "rx-roce-stats roce-bytes", 0: "rx-non-roce-stats non-roce-bytes"}
    lost = [f"rx-stats {part} no-buffer-discard" for part in ("rx-roce-stats", "rx-non-roce-stats")]
    arrived = soft.read(
        "rx", lambda: {tc: _count(roce, f"rx-stats {path}") for tc, path in received.items()}
    )
    sent = soft.read("tx", lambda: _sent(queues))
    frames = ("pfc-stats", "rx-pause-frames", "tx-pause-frames")
    ways = {**(sent or {}), **(arrived or {})}
    rest = None if arrived is None else 0
    return base.PortCounters(
        {
            tc: base.PriorityCounters((arrived or {}).get(tc, rest), (sent or {}).get(tc))
            for tc in sorted(ways)
        },
        soft.read("marked", lambda: _count(roce, "tx-stats tx-ecn-stats ecn-marked-packets")),
        soft.read("discards", lambda: sum(_count(roce, path) for path in lost)),
        pauses=soft.read(
            "pauses",
            lambda: {tc: base.PauseCounters(*n) for tc, n in _by_class(queues, *frames).items()},
        )
        or {},
        storms=soft.read("storms", lambda: _read_storms(storms) if storms else {}) or {},
        unread=soft.found,
    )


def _count(answer: Answer, path: str) -> int:
    with answer.reading():
        value = str(value_at(load_tree(answer), path))
    count = int(value) if value.isdigit() else _read_size(value)
    if count is None:
        raise answer.unreadable(f"no {path.rsplit(maxsplit=1)[-1]} in the answer")
    return count


def _by_class(answer: Answer, table: str, *keys: str) -> dict[int, list[int]]:
    with answer.reading():
        classes = filter(str.isdecimal, child(load_tree(answer), table))
    return {int(tc): [_count(answer, f"{table} {tc} {key}") for key in keys] for tc in classes}


def _sent(queues: Answer) -> dict[int, int]:
    found = _by_class(queues, "egress-queue-stats", "tx-bytes")
    if not found:
        raise queues.unreadable("no egress queue in the answer")
    return {tc: count for tc, (count,) in found.items()}


def _read_storms(answer: Answer) -> dict[int, int]:
    """How often each class was found in a deadlock; empty if the port lacks the table.

    On the vendor's page the table is below the state. Whether a switch shows it while the watchdog
    is off is not published, so both forms are accepted.
    """
    head = _STORM_HEAD.search(answer.text)
    if head is None and _STATE_ROW.search(answer.text):
        return {}
    rows = _STORM_ROW.findall(answer.text[head.end() :]) if head else []
    if not rows:
        raise answer.unreadable("it is not a table of the watchdog")
    return {int(tc): int(count) for tc, count in rows}


class Line(str):
    """One `nv set` or `nv unset` as a person types it, with its place in the tree."""

    __slots__ = ("implied", "path", "value", "verb")
    verb: Verb
    path: str
    """The words of the path; a list such as `swp1-4` means several keys."""
    value: JsonValue
    """The value at the end; None: the path ends with a key."""
    implied: ImpliedPaths

    def __new__(
        cls, verb: Verb, path: str, value: int | str | None = None, implied: ImpliedPaths = ()
    ) -> Self:
        """Write it; a value of digits is a number."""
        line = super().__new__(cls, f"nv {verb} {path}{'' if value is None else f' {value}'}")
        line.verb, line.path, line.implied = verb, path, implied
        line.value = int(value) if value is not None and str(value).isdecimal() else value
        return line


def documents(lines: Sequence[str]) -> Iterator[Packed]:
    """The commands that put lines into the pending revision, each once; Bug without a `Line`."""
    for verb in ("unset", "set"):
        some = [line for line in lines if isinstance(line, Line) and line.verb == verb]
        tree: Tree = {}
        for line in some:
            end = None if verb == "unset" else {} if line.value is None else line.value
            words = line.path.split()
            pairs = zip(("", *words), words, strict=False)
            for path in product(*([*expand_names(w)] if a in _LISTS else [w] for a, w in pairs)):
                _place(tree, path, end)
                for place, word in (*_implied_types(path), *line.implied) if verb == "set" else ():
                    _place(tree, place.split(), word)
        text = json.dumps([{verb: tree}])
        pieces = textwrap.wrap(text, PIECE, break_long_words=False, break_on_hyphens=False)
        for number, piece in enumerate(pieces if some else ()):
            yield Packed(f"printf '%s\\n' {shlex.quote(piece)} {'>>' if number else '>'} {FILE}")
        if some:
            yield Packed(PATCH, some)
    if not all(isinstance(line, Line) for line in lines):
        raise Bug(f"lines without a place in the tree: {lines}")


def _implied_types(path: Sequence[str]) -> Iterator[tuple[str, str | int]]:
    """The types that NVUE derives from a name (page "BGP, Configuration Example")."""
    *entry, last = path
    if last == "remote-as":
        yield f"{' '.join(entry)} type", "unnumbered" if SWP.fullmatch(entry[-1]) else "numbered"
    elif path[0] == "interface":
        name, here = path[1], " ".join(path[:2])
        if name.startswith("vlan"):
            yield f"{here} type", "svi"
            yield f"{here} vlan", int(name[4:])
        else:
            yield f"{here} type", "loopback" if name == "lo" else "swp"


def _place(tree: Tree, path: Sequence[str], end: JsonValue) -> None:
    """Write the end of a path; a removed branch takes everything below along."""
    *above, last = path
    here: JsonValue = tree
    for key in above:
        here = here.setdefault(key, {}) if isinstance(here, dict) else None
    if isinstance(here, dict) and not (isinstance(here.get(last), dict) and end == {}):
        here[last] = end


def _waiting(text: str) -> dict[str, str]:
    """Each revision that awaits confirmation to its row as text."""
    try:
        rows = _ROWS.validate_json(text.strip())
    except ValidationError as error:
        why = f"no table of revisions: {error.errors()[0]['msg']}"
        raise Unreadable(REVISIONS, text, why) from error
    return {name: json.dumps(row) for name, row in rows.items() if row.get("state") == WAITING}


def find_stale(text: str) -> tuple[str, ...]:
    """Our revisions that a killed run left unconfirmed; Unreadable if it is no table of revisions.

    Which key holds the message of an apply is not public, so our mark is looked for in the row.
    Occupied: another user's revision awaits confirmation, and our apply would end it.
    """
    waiting = _waiting(text)
    for name, row in waiting.items():
        if base.CANDIDATE_PREFIX not in row:
            raise base.Occupied(fault_text(__file__, "waiting", name=name))
    return tuple(waiting)


def find_id(text: str, name: str) -> str:
    """The revision applied under our name; blank if none awaits confirmation."""
    waiting = _waiting(text)
    return next((each for each, row in waiting.items() if name in row), next(iter(waiting), ""))
