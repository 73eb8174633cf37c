"""The driver of NVIDIA (Mellanox) MLNX-OS on InfiniBand switches: subnet manager and partitions.

Ports have no settings of ours: a link trains by itself to what both ends can do, and the subnet
manager sets its MTU. What they came to is read on the hosts, and judged by acceptance.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, cast

from components.fabric.effects import ByTable
from components.fabric.parts import ALL_PORTS, IbState, MemberKind, PartitionState, show_pkey
from components.fabric.state import SwitchState
from components.fabric.systems import mellanox_cli
from components.fabric.systems.base import Change, Reading, Uncounted, Unreadable
from components.model.infiniband import DEFAULT_PARTITION

PARTITIONS: Final = "show ib partition"
FUNCTION: Final = "show ib sm"
STATE: Final = "show ib smnode {node} sm-state"
PRIORITY: Final = "show ib sm priority"
ROUTING: Final = "show running-config | include routing-engines"


class MlnxosDriver(ByTable, Uncounted, mellanox_cli.MellanoxDriver):
    """See `components.fabric.systems.base.Driver`."""

    system = "mlnxos"
    title = "MLNX-OS"

    def read_commands(self, wanted: SwitchState) -> tuple[str, ...]:
        """Partitions always, since those of others decide what may be removed."""
        ib = wanted.ib
        if ib is None:
            return ()
        asked = (
            (FUNCTION, ib.sm_function),
            (STATE.format(node=ib.node), ib.sm_enabled),
            (PRIORITY, ib.sm_priority),
            (ROUTING, ib.routing_engine),
        )
        return (PARTITIONS, *(command for command, value in asked if value is not None))

    def parse(self, answers: Mapping[str, str], wanted: SwitchState) -> Reading:
        """Read what `read_commands` asked for."""
        ib = wanted.ib
        if ib is None:
            return Reading(SwitchState())
        readers: tuple[tuple[str, str, Callable[[str, str], object]], ...] = (
            ("sm_function", FUNCTION, parse_switch),
            ("sm_enabled", STATE.format(node=ib.node), parse_switch),
            ("sm_priority", PRIORITY, parse_priority),
            ("routing_engine", ROUTING, parse_routing_engine),
        )
        found = IbState(
            node=ib.node, partitions=parse_partitions(PARTITIONS, answers[PARTITIONS])
        ).model_copy(
            update={
                key: read(command, answers[command])
                for key, command, read in readers
                if command in answers
            }
        )
        return Reading(SwitchState(ib=found))

    def plan_changes(self, actual: SwitchState, target: SwitchState) -> tuple[Change, ...]:
        """See `mlnxos_actions`."""
        return plan_changes(actual.ib, target.ib)

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


_NAME: Final = re.compile(r"^(\S+):\s*$")
_KEY: Final = re.compile(r"^\s+(PKey|ipoib|mtu|rate|defmember)\s*:\s*(\S+)\s*$", re.IGNORECASE)
_MEMBER: Final = re.compile(
    r"^\s+GUID='(ALL|(?:[0-9a-f]{2}:){7}[0-9a-f]{2})'\s+member='(full|limited|both)'\s*$",
    re.IGNORECASE,
)
_ENGINE: Final = re.compile(r"^\s*ib sm routing-engines (\S.*?)\s*$", re.MULTILINE)
DEFAULT_ENGINE: Final = "default"
"""None is set: the subnet manager takes minhop."""
MTU_WORDS: Final = {256: "256", 512: "512", 1024: "1K", 2048: "2K", 4096: "4K"}
"""`4K` is in AMD's tuning guide; the other four follow it and are a guess."""


def parse_switch(command: str, text: str) -> bool:
    """`show ib sm` and `show ib smnode NAME sm-state`: one line, `enable` or `disable`."""
    words = {line.strip() for line in text.splitlines()} & {"enable", "disable"}
    if len(words) != 1:
        raise Unreadable(command, text, "the answer says neither enable nor disable")
    return words == {"enable"}


def parse_priority(command: str, text: str) -> int:
    """`show ib sm priority`: one number from 0 to 15."""
    found = re.fullmatch(r"\s*(\d{1,2})\s*", text)
    if found is None or int(found[1]) > 15:  # noqa: PLR2004 - four bits (InfiniBand's SMInfo)
        raise Unreadable(command, text, "the answer is no priority")
    return int(found[1])


def parse_routing_engine(command: str, text: str) -> str:
    """The line of the running configuration, which is the command itself; none is the default."""
    found = _ENGINE.findall(text)
    if len(found) > 1:
        raise Unreadable(command, text, "the routing engines are set twice")
    return str(found[0]) if found else DEFAULT_ENGINE


def parse_partitions(command: str, text: str) -> dict[str, PartitionState]:
    """`show ib partition`, as 3.6.8010 and later print it (a capture of 3.6.8012).

    The lines `mtu` and `rate` are a guess, and read only where a switch prints them. `defmember`
    (Stacki's driver) is how others are added who say no membership: not ours, and left alone.
    """
    found: dict[str, PartitionState] = {}
    for name, lines in _blocks(command, text):
        found[name] = _partition(command, text, lines)
    if not found:
        raise Unreadable(command, text, "there is no partition in the answer, not even Default")
    return found


def _blocks(command: str, text: str) -> Iterator[tuple[str, list[str]]]:
    name, lines = "", list[str]()
    for line in text.splitlines():
        head = _NAME.match(line)
        if head is not None:
            if name:
                yield name, lines
            name, lines = head[1], []
        elif line.strip() and not name:
            raise Unreadable(command, text, f"a line before the first partition: {line.strip()}")
        elif line.strip():
            lines.append(line)
    if name:
        yield name, lines


def _partition(command: str, text: str, lines: list[str]) -> PartitionState:
    values: dict[str, str] = {}
    members: dict[str, MemberKind] = {}
    for line in lines:
        if line.strip() == "members:":
            continue
        key, member = _KEY.match(line), _MEMBER.match(line)
        if key is not None:
            values[key[1].lower()] = key[2]
        elif member is not None:
            members[_guid(member[1])] = cast("MemberKind", member[2].lower())
        else:
            raise Unreadable(command, text, f"unknown line: {line.strip()}")
    try:
        return PartitionState(
            pkey=int(values["pkey"], 16),
            ipoib={"yes": True, "no": False}[values["ipoib"].lower()],
            mtu_bytes=_mtu_bytes(values.get("mtu")),
            rate_gbit_s=_rate(values.get("rate")),
            members=members,
        )
    except (KeyError, ValueError) as error:
        raise Unreadable(command, text, f"PKey, ipoib, mtu or rate is not readable: {error}") from (
            error
        )


def _mtu_bytes(word: str | None) -> int | None:
    sizes = {text.lower(): size for size, text in MTU_WORDS.items()}
    return None if word is None or word == "default" else sizes[word.lower()]


def _rate(word: str | None) -> int | None:
    return None if word is None or word == "default" else int(word)


def _guid(text: str) -> str:
    return text.upper() if text.upper() == "ALL" else text.replace(":", "").lower()


def show_guid(guid: str) -> str:
    """A port GUID as the command line takes it: eight pairs with colons; `ALL` stays."""
    pairs = [guid[start : start + 2] for start in range(0, len(guid), 2)]
    return guid if guid == "ALL" else ":".join(pairs)


def plan_changes(actual: IbState | None, target: IbState | None) -> tuple[Change, ...]:
    """The ordered way from `actual` to `target`; empty when they agree."""
    if target is None:
        return ()
    held = actual or IbState(node=target.node)
    return (
        *_add_partitions(held, target),
        *_set_manager(held, target),
        *_remove_partitions(held, target),
    )


def _add_partitions(actual: IbState, target: IbState) -> Iterator[Change]:
    for name, partition in target.partitions.items():
        if name == DEFAULT_PARTITION:
            continue
        before = actual.partitions.get(name)
        lines = tuple(_lines(name, before, partition))
        if lines:
            yield Change(lines)


def _lines(name: str, before: PartitionState | None, after: PartitionState) -> Iterator[str]:
    head = f"ib partition {name}"
    was = before or PartitionState(pkey=0)
    if after.pkey != was.pkey:
        yield f"{head} pkey {show_pkey(after.pkey)} force"
    if bool(after.ipoib) != bool(was.ipoib):
        yield f"{head} ipoib force" if after.ipoib else f"no {head} ipoib"
    if after.mtu_bytes != was.mtu_bytes:
        word = None if after.mtu_bytes is None else MTU_WORDS[after.mtu_bytes]
        yield f"no {head} mtu" if word is None else f"{head} mtu {word} force"
    if after.rate_gbit_s != was.rate_gbit_s:
        rate = after.rate_gbit_s
        yield f"no {head} rate" if rate is None else f"{head} rate {rate} force"
    for guid, kind in sorted(after.members.items()):
        if was.members.get(guid) != kind:
            yield f"{head} member {show_guid(guid)} type {kind} force"
    for guid in sorted({*was.members} - {*after.members}):
        yield f"no {head} member {show_guid(guid)}"


def _set_manager(actual: IbState, target: IbState) -> Iterator[Change]:
    """Its settings before it starts; what stops it comes alone."""
    if target.routing_engine not in {None, actual.routing_engine}:
        line = f"ib sm routing-engines {target.routing_engine}"
        unset = target.routing_engine == DEFAULT_ENGINE
        yield Change(("no ib sm routing-engines" if unset else line,))
    if target.sm_priority not in {None, actual.sm_priority}:
        yield Change((f"ib smnode {target.node} sm-priority {target.sm_priority}",))
    if target.sm_enabled not in {None, actual.sm_enabled}:
        word = "enable" if target.sm_enabled else "disable"
        yield Change((f"ib smnode {target.node} {word}",))
    if target.sm_function not in {None, actual.sm_function}:
        yield Change(("ib sm" if target.sm_function else "no ib sm",))


def _remove_partitions(actual: IbState, target: IbState) -> Iterator[Change]:
    for name in actual.partitions:
        if name not in target.partitions and name != DEFAULT_PARTITION:
            yield Change((f"no ib partition {name}",))
