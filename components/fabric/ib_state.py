"""The InfiniBand part of a switch's state: subnet manager and partitions, vendor-neutral.

Partition keys are numbers without the membership bit; members are port GUIDs of 16 hexadecimal
digits, or `ALL`.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict

from components.fabric.left_out import SAID

ALL_PORTS: Final = "ALL"
"""The member that means every port of the subnet."""
MemberKind = Literal["full", "limited", "both", "full, index 0", "limited, index 0"]
"""`both` is found on switches (for virtual ports) and put back, never wanted. `index 0` is UFM's:
the key is the first one of the port's table."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class PartitionState(_Frozen):
    """One partition. None means: not ours (desired), or the manager's default (actual)."""

    pkey: int
    ipoib: bool | None = None
    mtu_bytes: int | None = None
    rate_gbit_s: int | None = None
    members: dict[str, MemberKind] = {}
    """Port GUID or `ALL` to membership: those that we own; others stay."""


class IbState(_Frozen):
    """Subnet manager and partitions of one switch."""

    node: str
    """The host name under which the switch keeps the settings of its own subnet manager."""
    sm_function: bool | None = None
    """The function as such is switched on; None: not ours. Off, no node runs one."""
    sm_enabled: bool | None = None
    """This switch's subnet manager is enabled; None: not ours."""
    sm_priority: int | None = None
    """0 to 15; of several, the highest becomes master."""
    routing_engine: str | None = None
    """How paths are found, for example `updn`, or `default`; None: not ours."""
    adaptive_routing: Annotated[bool | None, SAID] = None
    """The routing engine in use spreads packets over equal paths; None: not asked. It is read
    alone, so an undo has nothing to put back."""
    partitions: dict[str, PartitionState] = {}
    """Partitions that are ours, by name (actual: all that there are)."""

    def settings(self) -> dict[tuple[str, str], str]:
        """Flat (where, setting) to text, for diffs that people read."""
        flat: dict[tuple[str, str], str] = {}
        for setting, value in (
            ("function", self.sm_function),
            ("state", self.sm_enabled),
            ("priority", self.sm_priority),
            ("routing_engine", self.routing_engine),
            ("adaptive_routing", self.adaptive_routing),
        ):
            if value is not None:
                flat["subnet manager", setting] = _words(value)
        for name, partition in self.partitions.items():
            where = f"partition {name}"
            flat |= {(where, key): text for key, text in _partition_settings(partition).items()}
        return flat


def show_pkey(pkey: int) -> str:
    """A partition key as every tool writes it: `0x0123`."""
    return f"0x{pkey:04x}"


def _words(value: bool | int | str) -> str:  # noqa: FBT001 - a value of any setting
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _partition_settings(partition: PartitionState) -> dict[str, str]:
    flat = {"pkey": show_pkey(partition.pkey)}
    flat |= {
        key: _words(value)
        for key, value in (
            ("ipoib", partition.ipoib),
            ("mtu_bytes", partition.mtu_bytes),
            ("rate_gbit_s", partition.rate_gbit_s),
        )
        if value is not None
    }
    return flat | {f"member {guid}": kind for guid, kind in sorted(partition.members.items())}
