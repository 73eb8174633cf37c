"""NVIDIA (Mellanox) MLNX-OS on InfiniBand switches: subnet manager and partitions, as rows.

Ports have no settings of ours: a link trains by itself to what both ends can do, and the subnet
manager sets its MTU. What they came to is read on the hosts, and judged by acceptance.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from components.fabric.effects import ByTable
from components.fabric.parts import ALL_PORTS, IbState, MemberKind, PartitionState, show_pkey
from components.fabric.state import PortState, SwitchState
from components.fabric.systems import mellanox_cli
from components.fabric.systems.answer import Answer
from components.fabric.systems.base import Change, Reading, Uncounted
from components.fabric.systems.switch_system import Intent, SwitchSystem
from components.model.infiniband import DEFAULT_PARTITION

PARTITIONS: Final = "show ib partition"
DEFAULT_ENGINE: Final = "default"
"""None is set: the subnet manager takes minhop."""
MTU_WORDS: Final = {256: "256", 512: "512", 1024: "1K", 2048: "2K", 4096: "4K"}
"""`4K` is in AMD's tuning guide; the other four follow it and are a guess."""
_SIZES: Final = {word: size for size, word in MTU_WORDS.items()}


def read_switch(answer: Answer) -> bool:
    """`show ib sm` and `show ib smnode NAME sm-state`: one line, `enable` or `disable`."""
    words = {line.strip() for line in answer.text.splitlines()} & {"enable", "disable"}
    if len(words) != 1:
        raise answer.unreadable("the answer says neither enable nor disable")
    return words == {"enable"}


def read_priority(answer: Answer) -> int:
    """`show ib sm priority`: one number of four bits (InfiniBand's SMInfo)."""
    return int(answer.match(r"\A\s*(\d|1[0-5])\s*\Z"))


def read_routing_engine(answer: Answer) -> str:
    """The line of the running configuration, which is the command itself; none is the default."""
    found = re.findall(r"^\s*ib sm routing-engines (\S.*?)\s*$", answer.text, re.MULTILINE)
    if len(found) > 1:
        raise answer.unreadable("the routing engines are set twice")
    return str(found[0]) if found else DEFAULT_ENGINE


@dataclass(frozen=True, slots=True)
class ManagerRow:
    """One setting of the subnet manager."""

    name: str
    command: str
    read: Callable[[Answer], object]
    lines: Mapping[object, str]
    """Value to its line; under None the line of any other value."""


MANAGER: Final = (
    ManagerRow(
        "routing_engine",
        "show running-config | include routing-engines",
        read_routing_engine,
        {DEFAULT_ENGINE: "no ib sm routing-engines", None: "ib sm routing-engines {value}"},
    ),
    ManagerRow(
        "sm_priority",
        "show ib sm priority",
        read_priority,
        {None: "ib smnode {node} sm-priority {value}"},
    ),
    ManagerRow(
        "sm_enabled",
        "show ib smnode {node} sm-state",
        read_switch,
        {True: "ib smnode {node} enable", False: "ib smnode {node} disable"},
    ),
    ManagerRow("sm_function", "show ib sm", read_switch, {True: "ib sm", False: "no ib sm"}),
)
"""In the order of writing: its settings before it starts."""


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One setting of a partition: its key in `show ib partition`, and its lines."""

    name: str
    key: str
    read: Callable[[str], object]
    line: str
    """Without the head; `{}` is for the value."""
    unset: str
    say: Callable[[Any], object] = str


PARTITION: Final = (
    PartitionRow("pkey", "pkey", lambda word: int(word, 16), "pkey {} force", "", show_pkey),
    PartitionRow("ipoib", "ipoib", {"yes": True, "no": False}.__getitem__, "ipoib force", "ipoib"),
    PartitionRow(
        "mtu_bytes",
        "mtu",
        lambda word: None if word == "default" else _SIZES[word.upper()],
        "mtu {} force",
        "mtu",
        MTU_WORDS.__getitem__,
    ),
    PartitionRow(
        "rate_gbit_s",
        "rate",
        lambda word: None if word == "default" else int(word),
        "rate {} force",
        "rate",
    ),
)
_LINE: Final = re.compile(
    r"(?P<name>\S+):\s*|\s+members:\s*|\s+(?P<key>PKey|ipoib|mtu|rate|defmember)\s*:\s*(?P<word>\S+)\s*"
    r"|\s+GUID='(?P<guid>ALL|(?:[0-9a-f]{2}:){7}[0-9a-f]{2})'\s+member='(?P<kind>full|limited|both)'\s*",
    re.IGNORECASE,
)


def read_partitions(answer: Answer) -> dict[str, PartitionState]:
    """`show ib partition`, as 3.6.8010 and later print it (a capture of 3.6.8012).

    The lines `mtu` and `rate` are a guess, and read only where a switch prints them. `defmember`
    (Stacki's driver) is how others are added who say no membership: not ours, and left alone.
    """
    words, members = dict[str, dict[str, str]](), dict[str, dict[str, MemberKind]]()
    name = ""
    for line in filter(str.strip, answer.text.splitlines()):
        found = _LINE.fullmatch(line)
        if found is None or not (name or found["name"]):
            where = "unknown line" if name else "a line before the first partition"
            raise answer.unreadable(f"{where}: {line.strip()}")
        name = found["name"] or name
        held, ports = words.setdefault(name, {}), members.setdefault(name, {})
        if found["key"]:
            held[found["key"].lower()] = found["word"].lower()
        elif found["guid"]:
            guid = found["guid"].upper()
            guid = guid if guid == ALL_PORTS else guid.replace(":", "").lower()
            ports[guid] = cast("MemberKind", found["kind"].lower())
    if not words:
        raise answer.unreadable("there is no partition in the answer, not even Default")
    return {name: _partition(answer, words[name], members[name]) for name in words}


def _partition(
    answer: Answer, words: Mapping[str, str], members: Mapping[str, MemberKind]
) -> PartitionState:
    try:
        found = {row.name: row.read(words[row.key]) for row in PARTITION if row.key in words}
        return PartitionState.model_validate({"ipoib": words["ipoib"], **found, "members": members})
    except (KeyError, ValueError) as error:
        why = f"PKey, ipoib, mtu or rate is not readable: {error}"
        raise answer.unreadable(why) from error


def show_guid(guid: str) -> str:
    """A port GUID as the command line takes it: eight pairs with colons; `ALL` stays."""
    pairs = [guid[start : start + 2] for start in range(0, len(guid), 2)]
    return guid if guid == ALL_PORTS else ":".join(pairs)


def _partition_lines(head: str, was: PartitionState | None, after: PartitionState) -> Iterator[str]:
    before = was or PartitionState(pkey=0)
    for row in PARTITION:
        value = getattr(after, row.name)
        if (value or None) != (getattr(before, row.name) or None):
            yield f"{head} {row.line.format(row.say(value))}" if value else f"no {head} {row.unset}"
    for guid, kind in sorted(after.members.items()):
        if before.members.get(guid) != kind:
            yield f"{head} member {show_guid(guid)} type {kind} force"
    for guid in sorted({*before.members} - {*after.members}):
        yield f"no {head} member {show_guid(guid)}"


def _changes(actual: IbState, target: IbState) -> Iterator[Change]:
    """Keys before the subnet manager starts, so that they are right from its first sweep."""
    for name, partition in target.partitions.items():
        head = f"ib partition {name}"
        lines = tuple(_partition_lines(head, actual.partitions.get(name), partition))
        if lines and name != DEFAULT_PARTITION:
            yield Change(lines)
    for row in MANAGER:
        value = getattr(target, row.name)
        if value not in {None, getattr(actual, row.name)}:
            line = row.lines.get(value) or row.lines[None]
            yield Change((line.format(node=target.node, value=value),))
    for name in actual.partitions:
        if name not in target.partitions and name != DEFAULT_PARTITION:
            yield Change((f"no ib partition {name}",))


class MlnxosDriver(ByTable, Uncounted, mellanox_cli.MellanoxDriver):
    """See `components.fabric.systems.base.Driver`."""

    system = "mlnxos"
    title = "MLNX-OS"

    def read_commands(self, wanted: SwitchState) -> tuple[str, ...]:
        """Partitions always, since those of others decide what may be removed."""
        ib = wanted.ib
        if ib is None:
            return ()
        asked = (row for row in MANAGER if getattr(ib, row.name) is not None)
        return (PARTITIONS, *(row.command.format(node=ib.node) for row in asked))

    def parse(self, answers: Mapping[str, str], wanted: SwitchState) -> Reading:
        """Read what `read_commands` asked for."""
        if wanted.ib is None:
            return Reading(SwitchState())
        found: dict[str, object] = {
            "partitions": read_partitions(Answer(PARTITIONS, answers[PARTITIONS]))
        }
        for row in MANAGER:
            command = row.command.format(node=wanted.ib.node)
            if command in answers:
                found[row.name] = row.read(Answer(command, answers[command]))
        state = IbState(node=wanted.ib.node).model_copy(update=found)
        return Reading(SwitchState(ib=state))

    def plan_changes(self, actual: SwitchState, target: SwitchState) -> tuple[Change, ...]:
        """The ordered way from `actual` to `target`; empty when they agree."""
        if target.ib is None:
            return ()
        return tuple(_changes(actual.ib or IbState(node=target.ib.node), target.ib))

    def factory_state(self, ports: Sequence[str]) -> SwitchState:
        """No subnet manager, priority 0, and the partition Default with every port in it."""
        del ports
        default = PartitionState(pkey=0x7FFF, ipoib=True, members={ALL_PORTS: "full"})
        return SwitchState(
            ib=IbState(
                node="",
                sm_function=False,
                sm_enabled=False,
                sm_priority=0,
                routing_engine=DEFAULT_ENGINE,
                partitions={DEFAULT_PARTITION: default},
            )
        )


SYSTEM: Final = SwitchSystem(
    driver=MlnxosDriver(),
    # InfiniBand has no RoCE: `ib_plan.py` says what such a switch shall have.
    intent=lambda _rdma: Intent(SwitchState(), PortState()),
    session=mellanox_cli.SESSION,
    exec_form="a plain exec cannot read partition members, so a removed port would stay a member, "
    "and recreating the partition would drop its connections",
    identity=mellanox_cli.IDENTITY,
    # `show ib partition` has the layout that we read since 3.6.8010 (Stacki's driver).
    min_release=(3, 6, 8010),
    older="prints `show ib partition` in a layout that is not read here",
    a_release="3.11.2016",
    unproven={
        r"pkey|ipoib|member .*": "the lines are those of a public driver of an SB7800; no page of "
        "MLNX-OS itself was found that has them",
        r"mtu_bytes|rate_gbit_s": "of their lines only `mtu 4K` is published",
    },
    links="an InfiniBand link trains to the best rate that both ends have, and takes its error "
    "correction from that",
    port_ecn="InfiniBand has no ECN thresholds",
    routing="InfiniBand is no IP fabric: its subnet manager makes the routes",
    drain="InfiniBand has no BGP: its subnet manager makes the routes when a link goes down",
)
