"""The invariants of tier 2, judged from the emulator's own snapshot."""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from pathlib import Path
from typing import Final, cast

from campaign.device.site import Place
from campaign.device.step import Ended
from campaign.history import History
from components.fabric.state import diff_states

NEXT: Final = re.compile(
    r"^\s*(fix|next)\s|`(pulumi|railyard) [^`]*`|Nothing was changed|were put back|next update"
    r"|run it again|run .{0,20}again",
    re.MULTILINE | re.IGNORECASE,
)
"""How a failed step says how to go on, or that there is nothing to mend."""


def drift_of(place: Place) -> str:
    """What a look of ours finds, in a session without any fault; empty: nothing."""
    found = diff_states(place.room.read(), place.plan.desired)
    getattr(place.room.switch, "holders", set[object]()).clear()  # that login is over
    return f"{len(found)} settings differ: {found[0]}" if found else ""


def check_time(history: History, ended: Ended, fault: str) -> None:
    """Invariant 5: a run ends."""
    if ended.overrun:
        history.fail(5, f"after `{fault}` the run does not end: {ended.overrun}")


def check_named(history: History, place: Place, ended: Ended, fault: str, name: str) -> None:
    """Invariant 7: the device and the next command, or that nothing is left to do."""
    if name not in ended.stderr:
        history.fail(7, f"{place.system}: after `{fault}` the device is not named")
    if not NEXT.search(ended.stderr):
        history.fail(7, f"{place.system}: after `{fault}` no next command is named")
    if "Traceback" in ended.stderr:
        history.fail(7, f"after `{fault}` there is a traceback")


def secret_found(history: History, ended: Ended, secret: str) -> None:
    """Invariant 9: no secret in an output."""
    if secret in ended.stdout or secret in ended.stderr:
        history.fail(9, "the password of the switch is in an output")


def check_others(history: History, what: str, before: object, now: object) -> None:
    """Invariant 2: nothing outside our settings differs from its snapshot."""
    if where := difference(before, now):
        history.fail(2, f"{what} changes what is not ours")
        history.say(f"    {where}")


def check_end(history: History, place: Place, *, touched: bool) -> None:
    """Invariants 2 and 3: after the undo the switch is as its twin, on which Railyard never was."""
    now, before = place.running(place.room), place.running(place.twin)
    if where := difference(now, before):
        beside = " (another admin was there)" if touched else ""
        ours = any(name in where for name in place.plan.desired.ports)
        words = "the undo does not lead back" if ours else "others' settings are not as before"
        history.fail(3 if ours else 2, f"{place.system}: {words}{beside}")
        history.say(f"    {where}")


def difference(one: object, other: object) -> str:
    """Where two snapshots differ first; empty: they do not."""
    return _first_difference(one, other, "") if one != other else ""


def _first_difference(one: object, other: object, path: str) -> str:
    mine, theirs = _parts(one), _parts(other)
    if mine is not None and theirs is not None:
        for key in {**mine, **theirs}:
            if mine.get(key) != theirs.get(key):
                return _first_difference(mine.get(key), theirs.get(key), f"{path}.{key}")
    return f"{path}: {str(one)[:200]} and not {str(other)[:200]}"


def _parts(value: object) -> dict[object, object] | None:
    if isinstance(value, tuple | list):
        return dict(enumerate(cast("tuple[object, ...]", value)))
    return cast("dict[object, object]", value) if isinstance(value, dict) else None


def check_rest(history: History) -> None:
    """Invariants 9 and 10: nothing is left of a run but free locks."""
    folder = Path(tempfile.gettempdir())
    for path in folder.rglob("railyard-*"):
        if path.is_dir() and any(path.iterdir()) and not any(path.glob("*.lock")):
            history.fail(10, f"a temporary folder is left: {path.name[:20]}")
    for path in folder.rglob("*.lock"):
        if _is_held(path):
            history.fail(10, f"a lock is held: {path.name}")
    if children := _children():
        history.fail(10, f"{len(children)} processes are left")


def _is_held(path: Path) -> bool:
    with path.open("a") as file:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(file.fileno(), fcntl.LOCK_UN)
    return False


def _children() -> list[str]:
    text = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text()
    return text.split()
