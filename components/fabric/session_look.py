"""What a look at a switch asks beside its settings, over the same connection."""

from __future__ import annotations

from components.fabric.exchange import Exchange
from components.fabric.identity import MARKS, Identity
from components.fabric.session_state import Sessions
from components.fabric.state import BgpState, SwitchState
from components.fabric.systems.base import SessionReader, Unreadable


def read_sessions(exchange: Exchange, *, bgp: bool, bfd: bool) -> Sessions | None:
    """Ask for the sessions of a switch; None where it has none of ours.

    A switch that refuses or answers in another form has sessions that are not known. Of what it is
    asked after them, that alone is not.
    """
    driver = exchange.driver
    if not bgp or not isinstance(driver, SessionReader):
        return None
    answers: dict[str, str] = {}
    for command in driver.session_commands(bfd=bfd):
        answers[command] = exchange.session.run(command)
        text = driver.find_refusal(answers[command])
        if text is not None and len(answers) == 1:
            return Sessions(unread=f"`{command}` was refused: {text}")
    try:
        return driver.parse_sessions(answers)
    except Unreadable as error:
        return Sessions(unread=f"`{error.command}`: {error.why}")


def look(exchange: Exchange, desired: SwitchState) -> SwitchState:
    """The settings that `desired` names, who is plugged in, and what BGP says if it is ours."""
    reading, bgp = exchange.read(desired), desired.bgp or BgpState()
    beside: dict[str, object] = {"neighbours": exchange.read_neighbours()}
    if desired.others is not None:
        beside["others"] = reading.others
    sessions = read_sessions(exchange, bgp=bgp.asn is not None, bfd=bool(bgp.bfd))
    if sessions is not None:
        beside["sessions"] = sessions
    return reading.state.model_copy(update=beside)


def keep_mark(exchange: Exchange, stack: str, who: Identity | None, *, keep: bool) -> None:
    """Write on the switch which stack manages it, or take that away again.

    A login without the right to do so goes on without a mark: it protects against a second stack,
    and no setting depends on it.

    Args:
        exchange: The session, after the change.
        stack: Name of the stack.
        who: What the switch said of itself before the change.
        keep: False after an undo.
    """
    folder, is_there = f"{MARKS}/{stack}", who is not None and stack in who.stacks
    if keep and not is_there:
        exchange.session.run(f"sudo -n mkdir -p {folder}")
    elif is_there and not keep:
        exchange.session.run(f"sudo -n rmdir {folder} {MARKS}")
