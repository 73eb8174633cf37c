"""Guards of the product that a campaign can switch off, to prove that it would fall without them.

The product has no such switches: each guard is a patch of this table, in this process alone.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pulumi

from campaign.seams import giving
from components.cli import device as steps
from components.core import settings
from components.core.record import record
from components.fabric import component as fabric
from components.fabric import exchange, moves
from components.fabric.edit import Edit
from components.fabric.exchange import Exchange
from components.fabric.ports import plan_changes
from components.fabric.state import SwitchState
from components.fabric.systems.base import flatten
from components.preview import from_plans
from components.remote import switch_session
from components.update import decide

Off = Callable[[], AbstractContextManager[Any]]


@record
class Guard:
    """One guard."""

    tier: int
    invariant: int
    """What falls without it."""
    words: str
    """What it does in the product."""
    off: Off


def _without_judge(name: str) -> Off:
    """The update does not ask this judge.

    Raises:
        ValueError: There is no such judge.
    """
    kept = tuple(each for each in decide.JUDGES if each.name != name)
    if len(kept) == len(decide.JUDGES):
        raise ValueError(f"no judge is called {name}")
    return _patched(decide, "JUDGES", kept)


def _patched(target: object, name: str, value: object) -> Off:
    return lambda: patch.object(target, name, value)


def _blind(
    self: Exchange,
    before: Any,  # noqa: ANN401 - as the product's
    _wanted: object,
    aim: Any,  # noqa: ANN401 - as the product's
    taken: list[str],
    *,
    may_interrupt: bool,
) -> object:
    """Send and save, and look at nothing afterwards."""
    del may_interrupt
    changes = plan_changes(self.driver, before.state, aim(before))
    self._send(changes, taken)  # pyright: ignore[reportPrivateUsage] - the seam
    self._save(taken)  # pyright: ignore[reportPrivateUsage] - the same
    return exchange.Outcome(before.state, before.state, flatten(changes), ())


def _send_line(self: Exchange, line: str, taken: list[str]) -> None:
    """A line that is refused is taken for one that was not."""
    self.session.run(line)
    taken.append(line)


@contextmanager
def _looks_at_nothing() -> Generator[None]:
    with (
        patch.object(Exchange, "_approach", _blind),
        patch.object(Exchange, "_send_line", _send_line),
    ):
        yield


def _endless(
    self: switch_session.CommandLine,
    ends: Callable[[str], bool],
    ends_at_s: float,
    *,
    asks: bool = False,
) -> str:
    """Read until the end, and look at no clock while something comes."""
    del asks
    text = self.tail
    while not ends(text[-switch_session.TAIL :]):
        chunk = self.terminal.read(max(ends_at_s, 0.01))
        if not chunk:
            raise EOFError
        text += chunk.decode(errors="replace")
    self.tail = text[-switch_session.TAIL :]
    return text


_open_session: Final = switch_session.open_session


def _leaves_a_file(*login: Any) -> object:  # noqa: ANN401 - as the product's
    """The pinned key is written to a file, which stays."""
    path = Path(tempfile.mkdtemp(prefix="railyard-")) / "known_hosts"
    path.write_text(login[0].host_key)
    return _open_session(*login)


_local_call: Final = fabric.local_call


def _heeds_changes(call: Any, opts: pulumi.ResourceOptions) -> object:  # noqa: ANN401 - as the product's
    """The engine runs a step again when its request is another one."""
    opts.ignore_changes = None
    return _local_call(call, opts)


_items_of_plan: Final = from_plans.items_of_plan


def _silent(plan: Any, *, with_limits: bool) -> dict[str, Any]:  # noqa: ANN401 - as the product's
    """A preview that does not know hosts."""
    items = _items_of_plan(plan, with_limits=with_limits)
    return {name: each for name, each in items.items() if each.kind != "host"}


def _ours_alone(_held: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted({*wanted}))


GUARDS: Final[dict[str, Guard]] = {
    "identity": Guard(
        1,
        1,
        "a device under another name, and exchanged devices, are refused",
        _without_judge("identity"),
    ),
    "protected": Guard(
        1,
        4,
        "the last server, a majority of servers and all workers are protected",
        _without_judge("losses"),
    ),
    "deny": Guard(
        1,
        4,
        "an update that would interrupt is refused where the file says `deny`",
        _without_judge("disruptions"),
    ),
    "preview": Guard(
        1,
        8,
        "a preview names every host that changes",
        _patched(from_plans, "items_of_plan", _silent),
    ),
    "sealed": Guard(
        1,
        9,
        "secrets of the stack are secret outputs",
        _patched(pulumi.Config, "require_secret", pulumi.Config.require),
    ),
    "once": Guard(
        1,
        3,
        "the values of before are recorded once, and not again at an edit",
        _patched(fabric, "local_call", _heeds_changes),
    ),
    "others": Guard(
        2,
        2,
        "VLANs and classes of others stay beside ours",
        _patched(settings, "unite", _ours_alone),
    ),
    "recorded": Guard(
        2,
        3,
        "a switch under another name is refused, so that our values are not recorded as its own",
        _without_judge("identity"),
    ),
    "given-back": Guard(
        2,
        3,
        "what an edit no longer wants gets its recorded value back while it is still ours",
        _patched(Edit, "gone", property(giving(SwitchState()))),
    ),
    "step-deny": Guard(
        2,
        4,
        "a step that would interrupt ends before its first line where the file says `deny`",
        _patched(moves, "refuse_interruptions", giving(None)),
    ),
    "clock": Guard(
        2,
        5,
        "a read looks at the clock while a switch sends",
        _patched(switch_session.CommandLine, "read", _endless),
    ),
    "second-look": Guard(
        2, 6, "a step looks again after its last line, and heeds refusals", _looks_at_nothing
    ),
    "next": Guard(
        2, 7, "every error of a step ends with the next command", _patched(steps, "_NEXT", "")
    ),
    "swept": Guard(
        2,
        10,
        "a session leaves no file behind",
        _patched(switch_session, "open_session", _leaves_a_file),
    ),
}


@contextmanager
def without(*names: str) -> Generator[None]:
    """Switch guards off."""
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(GUARDS[name].off())
        yield
