"""NVUE's revisions: how one is applied for a while, and who left one that awaits confirmation.

Sources: docs/explanation/sources.md#cumulus.
"""

from __future__ import annotations

import json
from typing import Final

from pydantic import JsonValue, TypeAdapter, ValidationError

from components.fabric.systems.base import CANDIDATE_PREFIX, Guard, Occupied, Unreadable

REVISIONS: Final = "nv config revision -o json"
"""An older release refuses it, and is applied to for good."""
TIMER_RELEASE: Final = (5, 5)
"""First one with that command (NVUE reference)."""
ROLLBACK_S: Final = 300
"""The second reading takes some seconds; NVUE's own default is ten minutes."""
WAITING: Final = "confirm"
"""State of a revision that is in force and not confirmed (public clients)."""
_ROWS: TypeAdapter[dict[str, dict[str, JsonValue]]] = TypeAdapter(dict[str, dict[str, JsonValue]])


def _waiting(text: str) -> dict[str, str]:
    """Revision to its row as text, of those that await confirmation."""
    try:
        rows = _ROWS.validate_json(text.strip())
    except ValidationError as error:
        why = f"no table of revisions: {error.errors()[0]['msg']}"
        raise Unreadable(REVISIONS, text, why) from error
    return {name: json.dumps(row) for name, row in rows.items() if row.get("state") == WAITING}


def find_stale(text: str) -> tuple[str, ...]:
    """Revisions of ours that a killed run left unconfirmed.

    Which key holds the message of an apply is not public, so our mark is looked for in the row.

    Raises:
        Unreadable: The answer is no table of revisions.
        Occupied: Another user's revision awaits confirmation, and our apply would end it.
    """
    waiting = _waiting(text)
    others = [name for name, row in waiting.items() if CANDIDATE_PREFIX not in row]
    if others:
        raise Occupied(
            f"revision {others[0]} awaits confirmation and is not Railyard's; wait for it, confirm"
            f" it by `nv config apply {others[0]} --confirm-yes`, or end it by `--confirm-no`"
        )
    return tuple(waiting)


def find_id(text: str, name: str) -> str:
    """The revision that was applied under our name; empty where none awaits confirmation.

    Raises:
        Unreadable: The answer is no table of revisions.
    """
    waiting = _waiting(text)
    named = [revision for revision, row in waiting.items() if name in row]
    return next(iter((*named, *waiting)), "")


_DIFF: Final = "nv config diff"
"""It changes nothing: it puts what is about to happen into the session's record."""
GUARD: Final = Guard(
    open=None,
    force=(_DIFF, f"nv config apply --confirm {ROLLBACK_S}s -y -m {{name}}"),
    confirm="nv config apply {id} --confirm-yes",
    abandon="nv config detach",
    revert="nv config apply {id} --confirm-no",
    rollback_s=ROLLBACK_S,
    list_command=REVISIONS,
    find_stale=find_stale,
    find_id=find_id,
    plain=(_DIFF, "nv config apply -y"),
    since=TIMER_RELEASE,
)
