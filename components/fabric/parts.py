"""Parts of the state of a switch: BGP sessions, and InfiniBand."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict

from components.core.settings import OMIT_NONE, Setting


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


UP: Final = "established"
"""How every system calls a session that carries routes (RFC 4271), in capitals or not."""


_SHOWN: Final = 200
"""Letters of an answer that is none; enough for a refusal."""


def why_unread(answer: str) -> str:
    """The words of an answer that could not be read, as the reason why something is not known."""
    return " ".join(answer.split())[:_SHOWN] or "no answer"


class Session(_Frozen):
    """BGP with one neighbour."""

    state: str
    """In the system's word: `Established`, `Idle`."""
    networks: int | None = None
    """IPv4 networks that the neighbour brings; None: the answer does not say."""
    bfd: str | None = None
    """`up` or another word of the system; None: not read, or the neighbour has none."""

    @property
    def is_up(self) -> bool:
        """Whether it carries routes."""
        return self.state.lower() == UP


class Sessions(_Frozen):
    """BGP with all neighbours, named as `BgpState.neighbors` names them, and what it came to."""

    neighbors: dict[str, Session] = {}
    unread: str = ""
    """Why nothing is known of them; blank: they were read."""
    bfd_unread: str = ""
    """The same of BFD alone."""
    routes: dict[str, tuple[str, ...]] | None = None
    """IPv4 network to the ports by which packets leave for it; None: not asked, or not known."""
    routes_unread: str = ""
    """Why they are not known."""


ALL_PORTS: Final = "ALL"
"""The member that means every port of the subnet."""
MemberKind = Literal["full", "limited", "both", "full, index 0", "limited, index 0"]
"""`both` is found on switches (for virtual ports) and put back, never wanted. `index 0` is UFM's:
the key is the first one of the port's table."""


def show_pkey(pkey: int) -> str:
    """A partition key as every tool writes it: `0x0123`."""
    return f"0x{pkey:04x}"


class PartitionState(_Frozen):
    """One partition. None means: not ours (desired), or the manager's default (actual)."""

    pkey: Annotated[int, Setting("name", say=show_pkey)]
    ipoib: Annotated[bool | None, Setting()] = None
    mtu_bytes: Annotated[int | None, Setting()] = None
    rate_gbit_s: Annotated[int | None, Setting()] = None
    members: Annotated[dict[str, MemberKind], Setting("shared", "member {}")] = {}
    """Port GUID or `ALL` to membership: those that we own; others stay."""


class IbState(_Frozen):
    """Subnet manager and partitions of one switch."""

    node: Annotated[str, Setting("name", None)]
    """The host name under which the switch keeps the settings of its own subnet manager."""
    sm_function: Annotated[bool | None, Setting(text="function", asked=False)] = None
    """The function as such is switched on; None: not ours. Off, no node runs one."""
    sm_enabled: Annotated[bool | None, Setting(text="state", asked=False)] = None
    """This switch's subnet manager is enabled; None: not ours."""
    sm_priority: Annotated[int | None, Setting(text="priority", asked=0)] = None
    """0 to 15; of several, the highest becomes master."""
    routing_engine: Annotated[str | None, Setting(asked="")] = None
    """How paths are found, for example `updn`, or `default`; None: not ours."""
    adaptive_routing: Annotated[bool | None, OMIT_NONE, Setting(puts_back=False)] = None
    """The routing engine in use spreads packets over equal paths; None: not asked. It is read
    alone, so an undo has nothing to put back."""
    partitions: Annotated[
        dict[str, PartitionState], Setting("shared", where="partition {}", each="shared")
    ] = {}
    """Partitions that are ours, by name (actual: all that there are)."""
