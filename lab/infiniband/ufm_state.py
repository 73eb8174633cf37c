"""What an emulated UFM keeps, what its subnet manager makes of it, and changes by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from components.core.errors import UsageError
from lab.infiniband.ufm import MANAGEMENT, Partition, Ufm
from lab.views import ManagerView, PartitionView

PRIORITY: Final = 15
"""Of its subnet manager: `sm_priority` in the guide's answer (SM Configuration)."""
USAGE: Final = "usage: fault drop PKEY GUID | put PKEY GUID full|limited | routing ENGINE"
_KEPT: Final = TypeAdapter(tuple[str, dict[int, Partition]])


def load(path: Path, ufm: Ufm) -> Ufm:
    """Give it the state of last time, if there is one."""
    if path.exists():
        ufm.routing_engine, ufm.partitions = _KEPT.validate_json(path.read_bytes())
    return ufm


def save(ufm: Ufm, path: Path) -> None:
    """Keep its state."""
    scratch = path.with_suffix(".part")
    scratch.write_bytes(_KEPT.dump_json((ufm.routing_engine, ufm.partitions)))
    scratch.replace(path)


def manager_of(ufm: Ufm, name: str, node: str) -> ManagerView:
    """Its subnet manager: the management partition has every port, as opensm's Default."""
    default = PartitionView("Default", MANAGEMENT, ipoib=True, members={"ALL": "full"})
    made = tuple(
        PartitionView(
            f"api_pkey_0x{pkey:x}",
            pkey,
            each.ip_over_ib,
            {guid: kind for guid, (kind, _) in each.guids.items()},
        )
        for pkey, each in sorted(ufm.partitions.items())
        if each.guids
    )
    return ManagerView(name, node, PRIORITY, ufm.routing_engine, (default, *made))


def cause_fault(ufm: Ufm, args: Sequence[str]) -> str:
    """Change it as a person would in its window.

    Raises:
        UsageError: It is no such change.
        KeyError: It has no such partition or member.
    """
    match args:
        case ["drop", pkey, guid]:
            ufm.partitions[int(pkey, 16)].guids.pop(guid)
            said = f"{guid} is out of {pkey}"
        case ["put", pkey, guid, ("full" | "limited") as kind]:
            ufm.partitions.setdefault(int(pkey, 16), Partition()).guids[guid] = (kind, False)
            said = f"{guid} is a {kind} member of {pkey}"
        case ["routing", engine]:
            ufm.routing_engine = engine
            said = f"the routing engine is {engine}"
        case _:
            raise UsageError(USAGE)
    ufm.on_change()
    return said
