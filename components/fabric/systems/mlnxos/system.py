"""NVIDIA (Mellanox) MLNX-OS on InfiniBand switches: subnet manager and partitions, as rows.

Railyard sets nothing on a port: a link trains to the best rate of both ends, and the subnet manager
sets its MTU. Acceptance reads the result on the hosts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from components.fabric.parts import ALL_PORTS, IbState, PartitionState, show_pkey
from components.fabric.state import PortState, SwitchState
from components.fabric.systems import mellanox_cli
from components.fabric.systems.base import Answer, Change, Reading
from components.fabric.systems.rows import Row, by_word, read_answers, take_line, write_rows
from components.fabric.systems.switch_system import SwitchSystem, load_facts
from components.model.infiniband import DEFAULT_PARTITION

PARTITIONS: Final = "show ib partition"
DEFAULT_ENGINE: Final = "default"
"""No routing engine is set: the subnet manager uses minhop."""
MTU_WORDS: Final = {256: "256", 512: "512", 1024: "1K", 2048: "2K", 4096: "4K"}
"""`4K` is in AMD's tuning guide; the other four follow it and are a guess."""
_SIZES: Final = {word: size for size, word in MTU_WORDS.items()} | {"DEFAULT": None}
_HEAD: Final = re.compile(r"(\S+):\s*")
_NOT_OURS: Final = re.compile(r"(?i)members:|defmember\s*:\s*\S+")
"""`defmember` (Stacki's driver) is the membership of ports added without one."""


def read_switch(answer: Answer) -> bool:
    """`show ib sm` and `show ib smnode NAME sm-state`: one line, `enable` or `disable`."""
    words = {line.strip() for line in answer.text.splitlines()} & {"enable", "disable"}
    if len(words) != 1:
        raise answer.unreadable("the answer says neither enable nor disable")
    return words == {"enable"}


def read_routing_engine(answer: Answer) -> str:
    """The line of the running configuration, which is the command itself; none is the default."""
    found = re.findall(r"^\s*ib sm routing-engines (\S.*?)\s*$", answer.text, re.MULTILINE)
    if len(found) > 1:
        raise answer.unreadable("the routing engines are set twice")
    return str(found[0]) if found else DEFAULT_ENGINE


def manager_rows(node: str) -> tuple[Row, ...]:
    """The subnet manager of a node, in the order of writing: its settings before it starts."""
    own = f"ib smnode {node}"
    return (
        Row("routing_engine", command="show running-config | include routing-engines",
            read=read_routing_engine,
            lines={DEFAULT_ENGINE: "no ib sm routing-engines", None: "ib sm routing-engines {}"}),
        # Four bits (InfiniBand's SMInfo).
        Row("sm_priority", command="show ib sm priority",
            read=lambda answer: int(answer.match(r"\A\s*(\d|1[0-5])\s*\Z")),
            lines={None: f"{own} sm-priority {{}}"}),
        Row("sm_enabled", command=f"show {own} sm-state", read=read_switch,
            lines={True: f"{own} enable", False: f"{own} disable"}),
        Row("sm_function", command="show ib sm", read=read_switch,
            lines={True: "ib sm", False: "no ib sm"}),
    )  # fmt: skip


def _add_member(held: Mapping[str, str] | None, guid: str, kind: str) -> Mapping[str, str]:
    port = ALL_PORTS if guid.upper() == ALL_PORTS else guid.replace(":", "").lower()
    return {**(held or {}), port: kind.lower()}


def show_guid(guid: str) -> str:
    """A port GUID as the command line takes it: eight pairs with colons; `ALL` stays."""
    return guid if guid == ALL_PORTS else ":".join(re.findall("..", guid))


def _write_members(_row: Row, was: PartitionState, now: PartitionState) -> Iterator[str]:
    for guid, kind in sorted(now.members.items()):
        if was.members.get(guid) != kind:
            yield f"member {show_guid(guid)} type {kind} force"
    for guid in sorted({*was.members} - {*now.members}):
        yield f"no member {show_guid(guid)}"


PARTITION: Final = (
    Row("pkey", r"(?i)pkey\s*:\s*(\S+)", take=by_word(lambda word: int(word, 16)),
        lines={None: "pkey {} force"}, say=show_pkey),
    Row("ipoib", r"(?i)ipoib\s*:\s*(\S+)",
        take=by_word(lambda word: {"yes": True, "no": False}[word.lower()]),
        lines={True: "ipoib force", False: "no ipoib"}),
    Row("mtu_bytes", r"(?i)mtu\s*:\s*(\S+)", take=by_word(lambda word: _SIZES[word.upper()]),
        lines={0: "no mtu", None: "mtu {} force"}, say=lambda size: MTU_WORDS.get(size, "")),
    Row("rate_gbit_s", r"(?i)rate\s*:\s*(\S+)",
        take=by_word(lambda word: None if word.lower() == "default" else int(word)),
        lines={0: "no rate", None: "rate {} force"}),
    Row("members",
        r"(?i)GUID='(ALL|(?:[0-9a-f]{2}:){7}[0-9a-f]{2})'\s+member='(full|limited|both)'",
        take=_add_member, write=_write_members),
)  # fmt: skip
"""One partition in `show ib partition`; the lines to send are without their head."""


def read_partitions(answer: Answer) -> dict[str, PartitionState]:
    """`show ib partition` (a capture of 3.6.8012); its lines `mtu` and `rate` are a guess."""
    found: dict[str, dict[str, object]] = {}
    held: dict[str, object] | None = None
    try:
        for line in filter(None, map(str.rstrip, answer.text.splitlines())):
            if head := _HEAD.fullmatch(line):
                held = found.setdefault(head[1], {})
            elif held is None:
                raise answer.unreadable(f"a line before the first partition: {line.strip()}")
            elif not take_line(PARTITION, held, line.strip()) and not _NOT_OURS.match(line.strip()):
                raise answer.unreadable(f"unknown line: {line.strip()}")
        if not found:
            raise answer.unreadable("the answer lists no partition, not even Default")
        return {
            name: PartitionState.model_validate({"ipoib": values["ipoib"], **values})
            for name, values in found.items()
        }
    except (KeyError, ValueError) as error:
        raise answer.unreadable(f"PKey, ipoib, mtu or rate is not readable: {error}") from error


def _whole(partition: PartitionState) -> PartitionState:
    """Replace a default by 0, since None means that nothing is wanted."""
    optional = ("ipoib", "mtu_bytes", "rate_gbit_s")
    return partition.model_copy(update={key: getattr(partition, key) or 0 for key in optional})


def _read_commands(wanted: SwitchState) -> tuple[str, ...]:
    """Always ask for partitions: the members that others added decide what may be removed."""
    ib = wanted.ib
    if ib is None:
        return ()
    asked = (row for row in manager_rows(ib.node) if getattr(ib, row.name) is not None)
    return (PARTITIONS, *(row.command for row in asked))


def _parse(answers: Mapping[str, str], wanted: SwitchState) -> Reading:
    if wanted.ib is None:
        return Reading(SwitchState())
    node = wanted.ib.node
    partitions = read_partitions(Answer(PARTITIONS, answers[PARTITIONS]))
    manager = read_answers(manager_rows(node), answers)
    return Reading(SwitchState(ib=IbState(node=node, partitions=partitions, **manager)))


def _plan_changes(actual: SwitchState, target: SwitchState) -> tuple[Change, ...]:
    if target.ib is None:
        return ()
    held, wanted, found = actual.ib or IbState(node=target.ib.node), target.ib, list[Change]()
    # Keys come before the subnet manager starts: its first sweep then has them.
    for name, partition in wanted.partitions.items():
        head = f"ib partition {name}"
        before = _whole(held.partitions.get(name, PartitionState(pkey=0)))
        tails = [*write_rows(PARTITION, before, _whole(partition))]
        if tails and name != DEFAULT_PARTITION:
            found.append(Change(tuple(re.sub("^(no )?", rf"\1{head} ", tail) for tail in tails)))
    found += (Change((x,)) for x in write_rows(manager_rows(wanted.node), held, wanted))
    gone = (name for name in held.partitions if name not in wanted.partitions)
    found += (Change((f"no ib partition {x}",)) for x in gone if x != DEFAULT_PARTITION)
    return tuple(found)


def _factory_state(ports: Sequence[str]) -> SwitchState:
    """No subnet manager, priority 0, and the partition Default with every port in it."""
    del ports
    default = PartitionState(pkey=0x7FFF, ipoib=True, members={ALL_PORTS: "full"})
    state = IbState(node="", sm_function=False, sm_enabled=False, sm_priority=0)
    rest = {"routing_engine": DEFAULT_ENGINE, "partitions": {DEFAULT_PARTITION: default}}
    return SwitchState(ib=state.model_copy(update=rest))


SYSTEM: Final = SwitchSystem(
    **load_facts("mlnxos"),
    **mellanox_cli.COMMON,
    read_commands=_read_commands,
    parse=_parse,
    plan_changes=_plan_changes,
    factory_state=_factory_state,
    # InfiniBand does without RoCE: `network_plan.py` plans such a switch.
    intent=lambda _rdma: (SwitchState(), PortState()),
)
