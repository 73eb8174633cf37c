"""NVUE itself: its tree of keys, our lines as documents, the revisions of them, and counters.

A change is a list of `nv set` and `nv unset` lines, which people see. They are sent as documents
for `nv config patch`, since each `nv set` starts a program and takes a second or two. A document
takes no order, and no `unset` beside a `set` of the same object (page "NVUE CLI"), so one document
unsets, and the next one sets.
"""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Final, Literal, Self

from pydantic import JsonValue, TypeAdapter, ValidationError

from components.core.errors import Bug
from components.fabric.candidate import Packed
from components.fabric.systems import base
from components.fabric.systems.answer import Answer
from components.fabric.systems.base import PauseCounters, PortCounters, PriorityCounters
from components.fabric.systems.ranges import port_key

Tree = dict[str, JsonValue]
_JSON: Final[TypeAdapter[JsonValue]] = TypeAdapter(JsonValue)
BRIDGE: Final = "br_default"
SWP: Final = re.compile(r"swp\d+(s\d+)?")
"""A front panel port, or a part of a split one."""
MOST: Final = 4096
"""Names that one key can mean; a bridge has at most 4,094 VLANs, and a switch fewer ports."""
_PART: Final = re.compile(
    r"(?P<head>[A-Za-z_]*)(?P<first>\d+)(?:-(?:(?P=head))?(?P<last>\d+))?"
    r"(?:s(?P<lane>\d+)(?:-(?P<end>\d+))?)?"
)


def load(command: str, text: str) -> JsonValue:
    """Read an answer in JSON.

    Raises:
        Unreadable: It is not JSON.
    """
    return Answer(command, text).typed(_JSON, text.strip(), is_text=True)


def load_tree(command: str, text: str) -> Tree:
    """The same; what is no object is empty."""
    value = load(command, text)
    return value if isinstance(value, dict) else {}


def child(tree: Tree, *path: str) -> Tree:
    """The subtree at a path; what is not there is empty."""
    here: JsonValue = tree
    for key in path:
        here = here.get(key) if isinstance(here, dict) else None
    return here if isinstance(here, dict) else {}


def value_at(tree: Tree, path: str) -> JsonValue:
    """What is at a path of words; None: nothing."""
    *above, last = path.split()
    return child(tree, *above).get(last)


def spelled(tree: Tree, path: str) -> dict[str, Tree]:
    """The entries of the table at a path by name, since a key may mean several names.

    Raises:
        ValueError: See `expand_names`.
    """
    found: dict[str, Tree] = {}
    for key, value in child(tree, *path.split()).items():
        for name in expand_names(key):
            found[name] = _merged(found.get(name, {}), value if isinstance(value, dict) else {})
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

    NVUE prints the letters once, and split ports by both numbers: `swp1-2s0-3` are eight. After
    the lanes of one port, `s5-6` and a bare number are further lanes of it
    (tests/fabric/forms/README.md).

    Raises:
        ValueError: It is not clear which names the key means, or they are too many.
    """
    head, port, count = "", "", 0
    for text in key.split(","):
        part = text.strip()
        found = _PART.fullmatch(part)
        if found is None:
            head, port = "", ""
            names = [part]
        elif port and (found["head"] == "s" or part.replace("-", "").isdecimal()):
            names = [f"{port}s{lane}" for lane in _span(key, found["first"], found["last"])]
        else:
            head = found["head"] or head
            ports = [f"{head}{number}" for number in _span(key, found["first"], found["last"])]
            lanes = found["lane"] and _span(key, found["lane"], found["end"])
            port = ports[0] if lanes and len(ports) == 1 else ""
            names = [f"{each}s{lane}" for each in ports for lane in lanes] if lanes else ports
        count += len(names)
        if count > MOST:
            raise ValueError(f"the key {key!r} means more than {MOST} names")
        yield from names


def _span(key: str, first: str, last: str | None) -> range:
    span = range(int(first), int(last or first) + 1)
    if not 0 < len(span) <= MOST:
        raise ValueError(f"the key {key!r} has a range that no switch can mean")
    return span


def collapse_ports(names: Iterable[str]) -> str:
    """Write ports as one argument: `swp1-3,swp7,swp9s0-1`."""
    runs: list[list[str]] = []
    for name in sorted(names, key=port_key):
        *same, last = port_key(runs[-1][-1]) if runs else (0,)
        if runs and (*same, last + 1) == port_key(name):
            runs[-1].append(name)
        else:
            runs.append([name])
    return ",".join(
        run[0] if len(run) == 1 else f"{run[0]}-{port_key(run[-1])[-1]}" for run in runs
    )


Verb = Literal["set", "unset"]
Beside = Sequence[tuple[str, str]]
"""Paths and words that NVUE writes by itself beside a line; a document says them."""


class Line(str):
    """One `nv set` or `nv unset`, with what it means in the tree."""

    __slots__ = ("beside", "path", "value", "verb")
    verb: Verb
    path: str
    """The words of the path; a list such as `swp1-4` means several keys."""
    value: JsonValue
    """What ends it; None: the path ends with a key."""
    beside: Beside

    def __new__(cls, verb: Verb, path: str, value: int | str | None = None,
                beside: Beside = ()) -> Self:  # fmt: skip
        """Write it as a person would type it."""
        line = super().__new__(cls, f"nv {verb} {path}{'' if value is None else f' {value}'}")
        line.verb, line.path, line.beside = verb, path, beside
        line.value = int(value) if value is not None and str(value).isdecimal() else value
        return line


FILE: Final = "~/.railyard.yaml"
"""On the switch, in the home of the login. It holds no secret, and goes when it was taken."""
PATCH: Final = f"nv config patch {FILE} && rm {FILE}"
PIECE: Final = 400
"""Characters of a document in one command: the terminal of the session may have 511 columns."""
_LISTS: Final = frozenset({"interface", "vlan", "traffic-class"})
"""Words of a path that a list of keys may follow."""


def documents(lines: Sequence[str]) -> Iterator[Packed]:
    """The commands that put lines into the pending revision, each once.

    Raises:
        Bug: A line is no `Line`.
    """
    for verb in ("unset", "set"):
        some = [line for line in lines if isinstance(line, Line) and line.verb == verb]
        text = json.dumps([{verb: _tree_of(some)}])
        pieces = textwrap.wrap(text, PIECE, break_long_words=False, break_on_hyphens=False)
        for number, piece in enumerate(pieces if some else ()):
            ends = ">>" if number else ">"
            yield Packed(f"printf '%s\\n' {shlex.quote(piece)} {ends} {FILE}")
        if some:
            yield Packed(PATCH, some)
    if not all(isinstance(line, Line) for line in lines):
        raise Bug(f"lines without a place in the tree: {lines}")


def _tree_of(lines: Iterable[Line]) -> Tree:
    tree: Tree = {}
    for line in lines:
        end = None if line.verb == "unset" else {} if line.value is None else line.value
        for path in _paths(line.path):
            _place(tree, path, end)
            for place, word in _types_beside(path) if line.verb == "set" else ():
                _place(tree, place, word)
        for path, word in line.beside:
            _place(tree, path.split(), word)
    return tree


def _types_beside(path: Sequence[str]) -> Iterator[tuple[Sequence[str], JsonValue]]:
    """What NVUE writes by a name by itself (page "BGP, Configuration Example")."""
    *entry, last = path
    if last == "remote-as":
        kind = "unnumbered" if SWP.fullmatch(entry[-1]) else "numbered"
        yield (*entry, "type"), kind
    if path[0] == "interface":
        name = path[1]
        if name.startswith("vlan"):
            yield (*path[:2], "type"), "svi"
            yield (*path[:2], "vlan"), int(name[4:])
        else:
            yield (*path[:2], "type"), "loopback" if name == "lo" else "swp"


def _paths(path: str) -> Iterable[tuple[str, ...]]:
    words = path.split()
    keys = [
        [*expand_names(word)] if number and words[number - 1] in _LISTS else [word]
        for number, word in enumerate(words)
    ]
    return product(*keys)


def _place(tree: Tree, path: Sequence[str], end: JsonValue) -> None:
    """Write the end of a path; a branch that goes takes what is below it along."""
    here = tree
    for key in path[:-1]:
        below = here.setdefault(key, {})
        if not isinstance(below, dict):
            return
        here = below
    held = here.get(path[-1])
    if not (isinstance(held, dict) and end == {}):
        here[path[-1]] = end


REVISIONS: Final = "nv config revision -o json"
"""An older release refuses it, and is applied to for good."""
WAITING: Final = "confirm"
"""State of a revision that is in force and not confirmed (public clients)."""
_ROWS: TypeAdapter[dict[str, dict[str, JsonValue]]] = TypeAdapter(dict[str, dict[str, JsonValue]])


def _waiting(text: str) -> dict[str, str]:
    """Revision to its row as text, of those that await confirmation."""
    try:
        rows = _ROWS.validate_json(text.strip())
    except ValidationError as error:
        why = f"no table of revisions: {error.errors()[0]['msg']}"
        raise base.Unreadable(REVISIONS, text, why) from error
    return {name: json.dumps(row) for name, row in rows.items() if row.get("state") == WAITING}


def find_stale(text: str) -> tuple[str, ...]:
    """Revisions of ours that a killed run left unconfirmed.

    Which key holds the message of an apply is not public, so our mark is looked for in the row.

    Raises:
        Unreadable: The answer is no table of revisions.
        Occupied: Another user's revision awaits confirmation, and our apply would end it.
    """
    waiting = _waiting(text)
    others = [name for name, row in waiting.items() if base.CANDIDATE_PREFIX not in row]
    if others:
        raise base.Occupied(
            f"revision {others[0]} awaits confirmation and is not Railyard's; wait for it, confirm"
            f" it by `nv config apply {others[0]} --confirm-yes`, or end it by `--confirm-no`"
        )
    return tuple(waiting)


def find_id(text: str, name: str) -> str:
    """The revision that was applied under our name; empty where none awaits confirmation.

    Raises:
        Unreadable: The answer is no table of revisions.
    """
    waiting = _waiting(text)
    named = [revision for revision, row in waiting.items() if name in row]
    return next(iter((*named, *waiting)), "")


_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?) (Bytes|KB|MB|GB|TB)")
"""How the text forms, and some JSON, say a size."""
_UNITS: Final = ("Bytes", "KB", "MB", "GB", "TB")
_STORM_HEAD: Final = re.compile(r"^ *traffic-class +status +deadlock-count *$", re.MULTILINE)
_STORM_ROW: Final = re.compile(r"^ *([0-7]) +(?:OK|DEADLOCK) +(\d+) *$", re.MULTILINE)
_STATE_ROW: Final = re.compile(r"^state +\S", re.MULTILINE)


def read_size(text: str) -> int | None:
    """Bytes of `146.48 KB`; None: it is no size."""
    found = _SIZE.fullmatch(text)
    return int(float(found[1]) * 1024 ** _UNITS.index(found[2])) if found else None


def read_counters(roce: Answer, queues: Answer, storms: Answer | None, roce_class: int
                  ) -> PortCounters:  # fmt: skip
    """The counters of a port, as far as they can be read.

    Received bytes are counted as RoCE or not, so the first are those of the RoCE class and the
    others are under 0; sent bytes are counted per class.
    """
    soft = base.SoftReader()
    received = soft.read(
        "rx",
        lambda: {
            roce_class: _count(roce, "rx-stats rx-roce-stats roce-bytes"),
            0: _count(roce, "rx-stats rx-non-roce-stats non-roce-bytes"),
        },
    )
    arrived: dict[int, int] = received or {}
    sent = soft.read("tx", lambda: _sent(queues)) or dict[int, int]()
    rest = None if received is None else 0
    lost = (f"rx-stats {part} no-buffer-discard" for part in ("rx-roce-stats", "rx-non-roce-stats"))
    return PortCounters(
        {
            tc: PriorityCounters(arrived.get(tc, rest), sent.get(tc))
            for tc in sorted({*sent, *arrived})
        },
        soft.read("marked", lambda: _count(roce, "tx-stats tx-ecn-stats ecn-marked-packets")),
        soft.read("discards", lambda: sum(_count(roce, path) for path in lost)),
        pauses=soft.read("pauses", lambda: _pauses(queues)) or {},
        storms=soft.read("storms", lambda: read_storms(storms) if storms else {}) or {},
        unread=soft.found,
    )


def _count(answer: Answer, path: str) -> int:
    """A number, or the size that the text form prints in its place."""
    value = str(value_at(load_tree(answer.command, answer.text), path))
    count = int(value) if value.isdigit() else read_size(value)
    if count is None:
        raise answer.unreadable(f"no {path.rsplit(maxsplit=1)[-1]} in the answer")
    return count


def _classes(answer: Answer, table: str) -> list[int]:
    rows = child(load_tree(answer.command, answer.text), table)
    return [int(tc) for tc in rows if tc.isdecimal()]


def _sent(queues: Answer) -> dict[int, int]:
    table = "egress-queue-stats"
    found = {tc: _count(queues, f"{table} {tc} tx-bytes") for tc in _classes(queues, table)}
    if not found:
        raise queues.unreadable("no egress queue in the answer")
    return found


def _pauses(queues: Answer) -> dict[int, PauseCounters]:
    found: dict[int, PauseCounters] = {}
    for tc in _classes(queues, "pfc-stats"):
        rx, tx = (_count(queues, f"pfc-stats {tc} {way}-pause-frames") for way in ("rx", "tx"))
        found[tc] = PauseCounters(rx, tx)
    return found


def read_storms(answer: Answer) -> dict[int, int]:
    """How often each class was found in a deadlock; nothing where the port has no table of them.

    The table of the vendor's page is below the state; whether it is there while the watchdog is off
    is not published, so both count as read.

    Raises:
        Unreadable: It is no such answer.
    """
    head = _STORM_HEAD.search(answer.text)
    if head is None and _STATE_ROW.search(answer.text):
        return {}
    rows = _STORM_ROW.findall(answer.text[head.end() :]) if head else []
    if not rows:
        raise answer.unreadable("it is no table of the watchdog")
    return {int(tc): int(count) for tc, count in rows}
