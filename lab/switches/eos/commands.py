"""The commands outside of the configuration itself: modes, sessions, show, save.

Sources: docs/explanation/sources.md#eos.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from lab.switches.bgp import every_session
from lab.switches.eos import show, show_bgp
from lab.switches.eos.config import Stored
from lab.switches.eos.configure import Place
from lab.switches.eos.grammar import INVALID, EosError, UnknownCommandError, port_name, table
from lab.switches.eos.maintenance import maintenance
from lab.switches.eos.render import diff, render, section
from lab.switches.eos.sessions import ConfigSessions
from lab.views import BgpView, RouterView


class Switch(Protocol):
    """What a login needs of its switch."""

    stored: Stored
    config_sessions: ConfigSessions
    told: Callable[[], BgpView]
    """What its neighbours tell it by BGP."""

    def router_view(self) -> RouterView:
        """What it routes by."""
        ...

    @property
    def locked_by(self) -> str | None:
        """Who holds the configuration lock."""
        ...

    @property
    def pace(self) -> float:
        """Which part of its assumed time a command takes."""
        ...

    def device(self) -> show.Device:
        """The view that show commands get."""
        ...

    def logins_in(self, name: str) -> int:
        """How many logins are in a configuration session."""
        ...

    def commit(self) -> None:
        """Write the state to disk after a change."""
        ...

    def save_configuration(self) -> None:
        """Make the running configuration the one that boots; may refuse (disk full)."""
        ...

    def reload(self) -> None:
        """Boot again."""
        ...

    def refuse(self, line: str) -> str | None:
        """The text with which a planted fault rejects this line, or None."""
        ...


class Login(Protocol):
    """What a command needs of the login that typed it."""

    user: str
    enabled: bool
    height: int
    open: bool
    changes: int
    place: Place | None
    config_session: str | None

    @property
    def switch(self) -> Switch:
        """The switch that it is on."""
        ...

    def leave_config(self) -> None:
        """Back to where commands are run."""
        ...


@dataclass(frozen=True, slots=True)
class Context:
    """What a command outside of the configuration works on."""

    session: Login
    place: Place | None
    wants_json: bool

    @property
    def switch(self) -> Switch:
        """The switch of the login."""
        return self.session.switch


def _exit(context: Context) -> str:
    session, place = context.session, context.place
    if place is None:
        session.open = False
    elif place.queue is not None:
        place.queue = None
    elif place.family:
        place.family = False
    elif place.is_inside:
        context.session.place = Place(place.config)
    else:
        session.leave_config()
    return ""


def _end(context: Context) -> str:
    context.session.leave_config()
    return ""


def _enable(context: Context) -> str:
    context.session.enabled = True
    return ""


def _disable(context: Context) -> str:
    context.session.enabled = False
    return ""


def _require_unlocked(context: Context) -> None:
    holder = context.switch.locked_by
    if holder is not None:  # words: a guess
        raise EosError(f"% Unable to acquire the configuration lock: held by {holder}")


def _configure(context: Context) -> str:
    _require_unlocked(context)
    session = context.session
    session.place, session.config_session = Place(context.switch.stored.running), None
    return ""


def _open_session(context: Context, name: str) -> str:
    _require_unlocked(context)
    found = context.switch.config_sessions.open(name, context.session.user)
    session = context.session
    session.place, session.config_session = Place(found.candidate), name
    return ""


def _commit_named(context: Context, name: str) -> str:
    _require_unlocked(context)
    context.switch.config_sessions.commit(name, None)
    return ""


def _abort_named(context: Context, name: str) -> str:
    context.switch.config_sessions.abort(name)
    return ""


def _commit(context: Context, time: str = "") -> str:
    _require_unlocked(context)
    seconds = None
    if time:
        hours, minutes, rest = map(int, time.split(":"))
        seconds = float(hours * 3600 + minutes * 60 + rest)
    context.switch.config_sessions.commit(context.session.config_session or "", seconds)
    context.session.changes += 1
    context.session.leave_config()
    return ""


def _abort(context: Context) -> str:
    context.switch.config_sessions.abort(context.session.config_session or "")
    context.session.leave_config()
    return ""


def _text(context: Context) -> tuple[str, str]:
    """The running configuration, and the one that is being edited."""
    device = context.switch.device()
    running = render(context.switch.stored.running, device.model, device.release)
    if context.place is None:
        return running, running
    return running, render(context.place.config, device.model, device.release)


def _diffs(context: Context) -> str:
    running, candidate = _text(context)
    return diff(running, candidate, context.session.config_session or "")


def _running(context: Context) -> str:
    return f"! Command: show running-config\n{_text(context)[0]}"


def _running_port(context: Context, name: str) -> str:
    return section(_text(context)[0], f"^interface {_known(context, name)}$")


def _startup(context: Context) -> str:
    device = context.switch.device()
    return render(context.switch.stored.startup, device.model, device.release)


def _save(context: Context) -> str:
    context.switch.save_configuration()
    return "Copy completed successfully."


def _known(context: Context, text: str) -> str:
    name = port_name(text)
    if name not in context.switch.stored.running.ports:
        raise EosError(INVALID)
    return name


def _tree(make: Callable[..., show.Tree]) -> Callable[..., str]:
    """A command whose JSON alone is modelled."""

    def answer(context: Context, *names: str) -> str:
        if not context.wants_json:
            raise UnknownCommandError(INVALID)
        device = context.switch.device()
        return show.as_json(make(device, *(_known(context, name) for name in names)))

    return answer


def _version(context: Context) -> str:
    if context.wants_json:
        raise UnknownCommandError(INVALID)
    return show.version(context.switch.device())


def _of_switch(make: Callable[[Context], show.Tree]) -> Callable[[Context], str]:
    """The same of a command that looks at more than the device."""

    def answer(context: Context) -> str:
        if not context.wants_json:
            raise UnknownCommandError(INVALID)
        return show.as_json(make(context))

    return answer


def _config_sessions(context: Context) -> show.Tree:
    held = context.switch.config_sessions.held
    inside = {name: context.switch.logins_in(name) for name in held}
    return show.config_sessions(held, inside, context.switch.device().release)


def _bgp_summary(context: Context) -> show.Tree:
    view = context.switch.router_view()
    return show_bgp.bgp_summary(view, every_session(view, context.switch.told().sessions))


def _bfd_peers(context: Context) -> show.Tree:
    view = context.switch.router_view()
    return show_bgp.bfd_peers(every_session(view, context.switch.told().sessions))


def _routes(context: Context) -> show.Tree:
    return show_bgp.routes(context.switch.told().routes)


def _length(context: Context, lines: str) -> str:
    context.session.height = int(lines)
    return "Pagination disabled." if lines == "0" else f"Pagination set to {lines} lines."


def _width(_context: Context, columns: str) -> str:
    return f"Width set to {columns} columns."


def _candidate(context: Context) -> str:
    return _text(context)[1]


def _reload(context: Context) -> str:
    context.switch.reload()
    return ""


_SHOWS: Final = (
    ("show version", _version),
    ("show vlan", _tree(show.vlans)),
    ("show interfaces status", _tree(show.statuses)),
    ("show lldp neighbors detail", _tree(show.lldp_detail)),
    ("show interfaces <port> counters", _tree(show.totals)),
    ("show interfaces <port> counters discards", _tree(show.discards)),
    ("show interfaces <port> counters queue detail", _tree(show.queues)),
    ("show qos interfaces <port> ecn counters queue", _tree(show.marked)),
    ("show ip bgp summary", _of_switch(_bgp_summary)),
    ("show ip route", _of_switch(_routes)),
    ("show bfd peers", _of_switch(_bfd_peers)),
    ("show maintenance", _tree(maintenance)),
    ("show priority-flow-control counters detail", _tree(show.pfc_detail)),
    ("show priority-flow-control counters watchdog", _tree(show.pfc_watchdog)),
)
_COMMON: Final = (
    *_SHOWS,
    ("enable", _enable),
    ("exit", _exit),
    ("logout", _exit),
    ("terminal length <int>", _length),
    ("terminal width <int>", _width),
)
USER: Final = table(_COMMON)
EXEC: Final = table(
    (
        *_COMMON,
        ("disable", _disable),
        ("configure", _configure),
        ("configure terminal", _configure),
        ("configure session <word>", _open_session),
        ("configure session <word> commit", _commit_named),
        ("configure session <word> abort", _abort_named),
        ("show running-config", _running),
        ("show running-config sanitized", _running),
        ("show running-config interfaces <port>", _running_port),
        ("show startup-config", _startup),
        ("show configuration sessions", _of_switch(_config_sessions)),
        ("show configuration sessions detail", _of_switch(_config_sessions)),
        ("write", _save),
        ("write memory", _save),
        ("copy running-config startup-config", _save),
        ("reload now", _reload),
    )
)
LEAVING: Final = table((("exit", _exit), ("end", _end)))
IN_SESSION: Final = table(
    (
        ("show session-config", _candidate),
        ("show session-config diffs", _diffs),
        ("commit", _commit),
        ("commit timer <time>", _commit),
        ("abort", _abort),
    )
)
