"""From one InfiniBand state of an MLNX-OS switch to another: the lines, in the order that is safe.

Partitions come before the subnet manager starts, which then hands out the right keys at once. Every
line has its source in WHY.md. `force` answers the question that some lines ask.
"""

from __future__ import annotations

from collections.abc import Iterator

from components.fabric.parts import IbState, PartitionState, show_pkey
from components.fabric.systems.base import Change
from components.fabric.systems.mlnxos.read import DEFAULT_ENGINE, MTU_WORDS, show_guid
from components.model.infiniband import DEFAULT_PARTITION


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
