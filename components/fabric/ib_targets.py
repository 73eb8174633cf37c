"""From what a switch has of InfiniBand and what is wanted to what it shall have: pure.

The same meaning as in `targets.py`: a target says everything of the keys that it names, so its
partitions are all there are, and those of others are among them.
"""

from __future__ import annotations

from typing import Final

from components.fabric.ib_state import IbState, PartitionState
from components.fabric.state import first

_MANAGER: Final = ("sm_function", "sm_enabled", "sm_priority", "routing_engine")
_FLAGS: Final = ("ipoib", "mtu_bytes", "rate_gbit_s")

Partitions = dict[str, PartitionState]


def ib_target_of_apply(actual: IbState | None, desired: IbState | None) -> IbState | None:
    """What the switch shall have after an apply: the wanted settings, and what others own."""
    if desired is None:
        return None
    held: Partitions = dict(actual.partitions) if actual else {}
    wanted = {name: _applied(held.get(name), own) for name, own in desired.partitions.items()}
    return desired.model_copy(update={"partitions": held | wanted})


def _applied(held: PartitionState | None, own: PartitionState) -> PartitionState:
    if held is None:
        return own
    flags = {key: first(getattr(own, key), getattr(held, key)) for key in _FLAGS}
    return own.model_copy(update=flags | {"members": held.members | own.members})


def ib_target_of_restore(
    actual: IbState | None, owned: IbState | None, baseline: IbState | None
) -> IbState | None:
    """What the switch shall have after an undo.

    A partition that we made goes, unless others have put members into it: then it stays for them.
    """
    if owned is None or baseline is None:
        return None
    held: Partitions = dict(actual.partitions) if actual else {}
    manager = {key: getattr(baseline, key) for key in _MANAGER if getattr(owned, key) is not None}
    left = {
        name: kept
        for name, partition in held.items()
        if (kept := _kept(partition, owned.partitions.get(name), baseline.partitions.get(name)))
    }
    gone = {
        name: before
        for name, before in baseline.partitions.items()
        if name in owned.partitions and name not in held
    }
    return IbState(node=owned.node).model_copy(update=manager | {"partitions": left | gone})


def _kept(
    held: PartitionState, owned: PartitionState | None, before: PartitionState | None
) -> PartitionState | None:
    """A partition after the undo; None: it goes."""
    if owned is None:
        return held
    others = {guid: kind for guid, kind in held.members.items() if guid not in owned.members}
    if before is None and not others:
        return None
    was = before or PartitionState(pkey=held.pkey)
    back = {guid: kind for guid, kind in was.members.items() if guid in owned.members}
    flags = {key: getattr(was, key) for key in _FLAGS if getattr(owned, key) is not None}
    changes: dict[str, object] = {"pkey": was.pkey, "members": others | back}
    return held.model_copy(update=changes | flags)


def ib_dropped(previous: IbState | None, desired: IbState | None) -> IbState | None:
    """What was ours and is no longer wanted: an edit gives it back."""
    if previous is None or desired is None:
        return previous
    manager = {key: getattr(previous, key) for key in _MANAGER if getattr(desired, key) is None}
    found = {
        name: _dropped(partition, desired.partitions.get(name))
        for name, partition in previous.partitions.items()
    }
    partitions = {name: partition for name, partition in found.items() if partition is not None}
    return IbState(node=previous.node).model_copy(update=manager | {"partitions": partitions})


def _dropped(previous: PartitionState, desired: PartitionState | None) -> PartitionState | None:
    if desired is None:
        return previous
    flags = {key: getattr(previous, key) for key in _FLAGS if getattr(desired, key) is None}
    gone = {guid: kind for guid, kind in previous.members.items() if guid not in desired.members}
    left = PartitionState(pkey=previous.pkey).model_copy(update=flags | {"members": gone})
    return None if left == PartitionState(pkey=previous.pkey) else left


def ib_overlay(base: IbState | None, top: IbState | None) -> IbState | None:
    """One state over another: what `top` says wins; its partitions are all there are."""
    if base is None or top is None:
        return top or base
    manager = {key: first(getattr(top, key), getattr(base, key)) for key in _MANAGER}
    return top.model_copy(update=manager)
