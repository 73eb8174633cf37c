"""UFM, read and set as a switch is, over HTTPS: partitions by key, and whether IP may run in them.

Whether its subnet manager routes adaptively is only read: no published form of the request that
would set it was found. Requests and answers: lab/sources.md#ufm. The management key 0x7fff is not
read into the state, so nothing here can change it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import BaseModel, TypeAdapter

from components.core.templates import fault_text
from components.fabric.parts import IbState, MemberKind, PartitionState, show_pkey
from components.fabric.state import PortState, SwitchState
from components.fabric.systems.base import Answer, Change, Reading, Unsettable
from components.fabric.systems.switch_system import SwitchSystem, load_facts

PKEYS: Final = "/ufmRest/resources/pkeys"
READ: Final = f"GET {PKEYS}?guids_data=true"
SM_CONF: Final = "GET /ufmRest/app/smconf"
_ADAPTIVE: Final = ("ar_", "dfp")
"""How the names of routing engines with adaptive routing begin: `ar_updn`, `ar_ftree`, `dfp2`."""
MANAGEMENT: Final = 0x7FFF
"""UFM's own partition, which it lets no user change (user manual, "PKeys Window")."""
_FAILED: Final = "[status "
_AT_0: Final = ", index 0"
_KINDS: Final = TypeAdapter(dict[str, MemberKind])


class _Guid(BaseModel):
    guid: str
    membership: str
    index0: bool = False


class _Pkey(BaseModel):
    ip_over_ib: bool
    guids: tuple[_Guid, ...] = ()


_PKEYS: Final = TypeAdapter(dict[str, _Pkey])


def _parse(answers: Mapping[str, str], wanted: SwitchState) -> Reading:
    if wanted.ib is None:
        return Reading(SwitchState())
    with Answer(READ, answers[READ]).reading("it is not a list of partitions with their GUIDs"):
        found: dict[str, PartitionState] = {}
        for key, each in _PKEYS.validate_json(answers[READ]).items():
            kinds = {
                guid.guid.lower().removeprefix("0x"): guid.membership + _AT_0 * guid.index0
                for guid in each.guids
            }
            members, pkey = _KINDS.validate_python(kinds), int(key, 16)
            own = PartitionState(pkey=pkey, ipoib=each.ip_over_ib, members=members)
            found |= {show_pkey(pkey): own} if pkey != MANAGEMENT else {}
    state = IbState(node=wanted.ib.node, partitions=found)
    if SM_CONF in answers:
        engine = Answer(SM_CONF, answers[SM_CONF]).word(("routing_engine_active",))
        state = state.model_copy(update={"adaptive_routing": engine.startswith(_ADAPTIVE)})
    return Reading(SwitchState(ib=state))


def _plan_changes(actual: SwitchState, target: SwitchState) -> tuple[Change, ...]:
    """New partitions and members first, removals last; adaptive routing cannot be switched on."""
    if target.ib is None:
        return ()
    if target.ib.adaptive_routing and actual.ib and actual.ib.adaptive_routing is False:
        raise Unsettable(fault_text(__file__, "not-adaptive"))
    held: Mapping[str, PartitionState] = actual.ib.partitions if actual.ib else {}
    wanted = target.ib.partitions
    changes = [(*_lines(held.get(name), each),) for name, each in wanted.items()]
    changes += [(_delete(held[name]),) for name in held if name not in wanted]
    return tuple(Change(lines) for lines in changes if lines)


def _key(partition: PartitionState) -> str:
    """As UFM itself writes it, without leading zeros."""
    return f"0x{partition.pkey:x}"


def _delete(partition: PartitionState, path: str = "") -> str:
    return f"DELETE {PKEYS}/{_key(partition)}{path}"


def _lines(before: PartitionState | None, after: PartitionState) -> Iterator[str]:
    """UFM drops a partition with its last member, so members come before others go."""
    was = before or after.model_copy(update={"members": {}})
    if before is None:
        yield _request("POST", "add", after, index0=False)
    elif not after.members:
        if was.members or was.ipoib != bool(after.ipoib):
            yield _delete(after)
            yield _request("POST", "add", after, index0=False)
        return
    elif was.ipoib != bool(after.ipoib):
        # One request replaces all; it is the only published one that changes `ip_over_ib`.
        whole = {guid: kind for guid, kind in after.members.items() if not kind.endswith(_AT_0)}
        first = whole or after.members
        said = [first[guid].removesuffix(_AT_0) for guid in sorted(first)]
        yield _request("PUT", "", after, guids=sorted(first), memberships=said, index0=not whole)
        yield from _added(after, {g: k for g, k in after.members.items() if g not in first})
        return
    yield from _added(after, {g: k for g, k in after.members.items() if was.members.get(g) != k})
    if gone := sorted({*was.members} - {*after.members}):
        yield _delete(after, f"/guids/{','.join(gone)}")


def _request(method: str, tail: str, after: PartitionState, **more: object) -> str:
    body = {"pkey": _key(after), **more, "ip_over_ib": bool(after.ipoib)}
    return f"{method} {PKEYS}/{tail} {json.dumps(body)}"


def _added(after: PartitionState, members: Mapping[str, str]) -> Iterator[str]:
    """One request a kind: UFM 6.19 ignores a list of memberships where members are added."""
    for kind in sorted({*members.values()}):
        guids = sorted(guid for guid, each in members.items() if each == kind)
        member, at_0 = kind.removesuffix(_AT_0), kind.endswith(_AT_0)
        yield _request("POST", "", after, guids=guids, membership=member, index0=at_0)


SYSTEM: Final = SwitchSystem(
    **load_facts("ufm"),
    # All partitions, since foreign ones limit removals.
    read_commands=lambda wanted: (
        (READ, *([] if wanted.ib.adaptive_routing is None else [SM_CONF])) if wanted.ib else ()
    ),
    parse=_parse,
    plan_changes=_plan_changes,
    # The status and the reason, if the status is not a success.
    find_refusal=lambda output: output.strip() if output.startswith(_FAILED) else None,
    # No partition besides the management key; adaptive routing is the default.
    factory_state=lambda _ports: SwitchState(ib=IbState(node="", adaptive_routing=True)),
    # InfiniBand does without RoCE: `network_plan.py` plans UFM.
    intent=lambda _rdma: (SwitchState(), PortState()),
)
