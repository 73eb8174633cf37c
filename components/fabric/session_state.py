"""What BGP and BFD of a switch say of its neighbours: found, never wanted. Pure."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict

UP: Final = "established"
"""How every system calls a session that carries routes (RFC 4271), in capitals or not."""


_SHOWN: Final = 200
"""Letters of an answer that is none; enough for a refusal."""


def why_unread(answer: str) -> str:
    """The words of an answer that could not be read, as the reason why something is not known."""
    return " ".join(answer.split())[:_SHOWN] or "no answer"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


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
