"""The gate after a change: links and sessions must be up again, or later waves do not start.

A file in `.railyard` says in which wave a switch is. The request does not, so an edit that moves a
switch to another wave changes no step.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from threading import Event
from typing import Final, TypeVar

from pydantic import BaseModel, Field, ValidationError

from components.core.errors import DeviceError, UsageError
from components.core.templates import fault_text
from components.fabric.exchange import Exchange, Outcome
from components.fabric.fabric_plan import SwitchPlan
from components.fabric.parts import Frozen, Session
from components.fabric.state import BgpState, Neighbour, PortState, SwitchState
from components.fabric.systems.base import Drain
from components.model.cluster import SwitchWaves
from components.model.texts import fold_names
from components.remote.one_run import hold_lock
from components.remote.step import Endpoint
from components.remote.tools import FOLDER, keep_current, load_current

LOCK_DEADLINE_S: Final = 30.0
"""A killed run may still be at work on the switch for as long as one command takes."""
POLL_S: Final = 2.0
"""Seconds between two looks. A look is three commands, which take a real switch half a second."""
_SHARED: Final = ("speed", "fec", "autoneg", "mode")
"""Settings that both ends of a link must share; the other end may change in a later wave."""
KeptT = TypeVar("KeptT", bound=BaseModel)
FoundT = TypeVar("FoundT")


class Place(Frozen):
    """The place of a switch in the order of its site."""

    wave: int = 0
    """From 0."""
    waves: tuple[str, ...] = ()
    """The switches of each wave, as a list of names with ranges."""
    settle_s: float = SwitchWaves().settle_s
    watched: bool = True
    """False on a new site: nothing carries traffic yet, and all switches change at once."""

    def explain(self, device: str) -> str:
        """Which switches of the update are done, and which were not touched."""
        if len(self.waves) <= 1:
            return ""
        done, later = self.waves[: self.wave], self.waves[self.wave + 1 :]
        beside = self.waves[self.wave] if self.wave < len(self.waves) else device
        words = {"number": self.wave + 1, "count": len(self.waves), "beside": beside}
        before = "; ".join(done) or "no switch before this wave"
        after = "; ".join(later) or "no switch: this is the last wave"
        return f"\n  {fault_text(__file__, 'wave', done=before, later=after, **words)}"


class Health(Frozen):
    """The links, neighbours and sessions of a switch: read, never wanted."""

    links: dict[str, bool] = Field(default={})
    """Port to whether it has a link; empty: the system does not tell."""
    neighbours: dict[str, Neighbour] = Field(default={})
    sessions: dict[str, Session] = Field(default={})


def place_file(endpoint: Endpoint) -> str:
    """Name of the file with the place of a switch in the waves. Two stacks may use one folder."""
    address = hashlib.sha256(f"{endpoint.address}:{endpoint.port}".encode()).hexdigest()[:8]
    return f"waves-{endpoint.device}-{address}"


def place_text(plan: SwitchPlan) -> str:
    """The content of that file."""
    waves = tuple(fold_names(names) for names in plan.waves)
    place = Place(wave=plan.wave, waves=waves, settle_s=plan.settle_s, watched=bool(waves))
    return place.model_dump_json() + "\n"


def _load(kept: type[KeptT], file: str) -> KeptT | None:
    """None if it is missing or from another release."""
    try:
        return kept.model_validate_json(load_current("the waves", file))
    except (UsageError, ValidationError):
        return None


def _read_health(exchange: Exchange, owned: SwitchState) -> Health:
    """Ask for links, LLDP neighbours and BGP sessions; leave out anything the switch omits."""
    told = exchange.read_sessions(bgp=(owned.bgp or BgpState()).asn is not None, bfd=False)
    links, neighbours = exchange.read_links(), exchange.read_neighbours()
    return Health(links=links, neighbours=neighbours, sessions=told.neighbors if told else {})


def find_missing(before: Health, now: Health, outcome: Outcome) -> Iterator[str]:
    """Describe everything that was up and is down, without the effects of the change itself.

    A link or session whose shared settings change is not missed, as the other end may change in a
    later wave; nor are neighbours if the change takes Onyx' one-shot back, and LLDP with it.
    """
    changed, kept = {*_changed_ports(outcome)}, set[str]()
    old, new = (state.bgp or BgpState() for state in (outcome.before, outcome.after))
    if old.asn == new.asn and outcome.before.addresses == outcome.after.addresses:
        kept = {name for name, asn in old.neighbors.items() if new.neighbors.get(name) == asn}
    down = {port for port, up in before.links.items() if up and now.links.get(port) is False}
    yield from (f"port {port} was up and is down" for port in sorted(down - changed))
    is_silent = not now.neighbours and outcome.before.roce != outcome.after.roce
    for port, was in () if is_silent else before.neighbours.items():
        heard = now.neighbours.get(port)
        if port not in changed | down and _name(heard) != _name(was):
            yield f"port {port} heard {_name(was)} by LLDP and hears {_name(heard)}"
    for name, session in before.sessions.items():
        is_now = now.sessions.get(name, Session(state="gone"))
        if session.is_up and not is_now.is_up and name in kept - changed:
            yield f"BGP with {name} was Established and is {is_now.state}"


def _last_of(look: Callable[[], FoundT], limit_s: float) -> FoundT:
    """The result of the last look: empty, or whatever remains when the time is over."""
    ends_at_s = time.monotonic() + limit_s
    while found := look():
        left_s = ends_at_s - time.monotonic()
        if left_s <= 0:
            break
        Event().wait(min(POLL_S, left_s))
    return found


def _name(heard: Neighbour | None) -> str:
    return f"{heard.system} {heard.port}".strip() if heard else "nothing"


def _changed_ports(outcome: Outcome) -> Iterator[str]:
    was, now = outcome.before.ports, outcome.after.ports
    old_splits, new_splits = outcome.before.splits or {}, outcome.after.splits or {}
    for whole in old_splits.keys() | new_splits.keys():  # a whole port and its parts hear others
        parts = {old_splits.get(whole, (whole,)), new_splits.get(whole, (whole,))}
        yield from (whole, *chain(*parts)) if len(parts) > 1 else ()
    for name in was.keys() | now.keys():
        old, new = was.get(name, PortState()), now.get(name, PortState())
        if new.admin_up is False or any(getattr(old, x) != getattr(new, x) for x in _SHARED):
            yield name


@dataclass(slots=True)
class Shift:
    """Traffic that leaves a switch with BGP sessions before it changes, and comes back after it.

    While it is away, a file says that Railyard sent it away, so the run after a killed one brings
    it back. Without that file, a person sent it away, and it stays away.
    """

    endpoint: Endpoint
    drain: Drain | None
    place: Place
    ours: bool = False
    """Traffic is away because this run, or a killed one before it, sent it away."""
    used: str = ""
    """How this run sent it away."""

    @property
    def _path(self) -> Path:
        return FOLDER.parent / f"{place_file(self.endpoint)}-away"

    @contextmanager
    def around(self, exchange: Exchange, *, away: bool, back: bool) -> Generator[None, None, None]:
        """Send traffic away before a change; if the change was not made, bring it back.

        With `back`, traffic that an earlier run sent away comes back first. A DeviceError if the
        switch refuses a line, or does not say that traffic is sent away.
        """
        if self._path.is_file():
            self.ours = self._shows(exchange, "is_away")
            if not self.ours:
                self._path.unlink()
        if back and self.ours:
            self.come_back(exchange)
        try:
            if away:
                self._leave(exchange)
            yield
        except (DeviceError, KeyboardInterrupt):
            if self.ours and not exchange.altered:
                with suppress(DeviceError):
                    self.come_back(exchange)
            raise

    def _leave(self, exchange: Exchange) -> None:
        drain = self.drain
        if drain is None or self._shows(exchange, "is_away"):
            return
        keep_current(self._path.name, f"back: {'; '.join(drain.back)}\n")
        self.ours = True
        notes = exchange.read(SwitchState()).state.noted() if drain.enabled_note else ()
        word = "enabled" if drain.enabled_note in notes else "on"
        self._send(exchange, drain, (line.replace("{on}", word) for line in drain.away))
        if _last_of(lambda: not self._shows(exchange, "is_away"), self.place.settle_s):
            words = {"where": exchange.session.where, "limit_s": self.place.settle_s}
            raise DeviceError(fault_text(__file__, "not-away", drain=drain, **words))
        self.used = drain.title
        if drain.is_empty:  # some traffic may stay: that of a host on this leaf alone
            _last_of(lambda: not self._shows(exchange, "is_empty"), self.place.settle_s)

    def come_back(self, exchange: Exchange) -> None:
        """Bring traffic back that we sent away, and save; DeviceError if the switch does not."""
        if self.drain is None:
            return
        try:
            saved = filter(None, [exchange.driver.save])
            self._send(exchange, self.drain, (*self.drain.back, *saved))
        finally:
            self.ours = self._shows(exchange, "is_away")
        if self.ours:
            shows = f"still shows {self.drain.title} in `{self.drain.asks}`"
            raise DeviceError(f"{exchange.session.where} {shows}")
        self._path.unlink(missing_ok=True)

    def _shows(self, exchange: Exchange, what: str) -> bool:
        drain = self.drain
        return drain is not None and bool(
            re.search(getattr(drain, what), exchange.session.run(drain.asks), re.MULTILINE)
        )

    def _send(self, exchange: Exchange, drain: Drain, lines: Iterable[str]) -> None:
        for line in lines:
            text = exchange.driver.find_refusal(exchange.session.run(line))
            if text is not None:
                words = {"where": exchange.session.where, "line": line, "text": text}
                raise DeviceError(fault_text(__file__, "refused-drain", drain=drain, **words))

    def explain(self) -> str:
        """The text that a failure adds while traffic is still away."""
        if self.drain is None or not self.ours:
            return ""
        words = {"device": self.endpoint.device, "back": "; ".join(self.drain.back)}
        return f"\n  {fault_text(__file__, 'still-away', drain=self.drain, **words)}"


@dataclass(slots=True)
class Gate:
    """Holds one step until the links and sessions of its switch are back."""

    endpoint: Endpoint
    place: Place
    shift: Shift
    before: Health = field(default_factory=Health)

    @property
    def _file(self) -> str:
        return f"{place_file(self.endpoint)}-missing"

    def look(self, exchange: Exchange, owned: SwitchState) -> None:
        """Read the state before the change; it includes links that an earlier run still misses."""
        if self.place.watched:
            owed, found = _load(Health, self._file) or Health(), _read_health(exchange, owned)
            sessions = {name: each for name, each in found.sessions.items() if each.is_up}
            self.before = Health(
                links=found.links | {port: up for port, up in owed.links.items() if up},
                neighbours=found.neighbours | owed.neighbours,
                sessions=owed.sessions | sessions,
            )

    def holds(self, outcome: Outcome) -> bool:
        """Whether to wait for anything: a change, or links that an earlier run still misses."""
        return self.place.watched and bool(outcome.lines or _load(Health, self._file))

    def settle(self, exchange: Exchange, owned: SwitchState, outcome: Outcome) -> None:
        """Wait until everything is back, over a new session; DeviceError lists what is missing."""

        def look() -> str:
            missing = find_missing(self.before, _read_health(exchange, owned), outcome)
            return "\n          ".join(missing)

        kept = FOLDER.parent / self._file
        if missing := _last_of(look, self.place.settle_s):
            keep_current(self._file, self.before.model_dump_json() + "\n")
            words = {"endpoint": self.endpoint, "limit_s": self.place.settle_s}
            text = fault_text(__file__, "unsettled", missing=missing, kept=kept, **words)
            raise DeviceError(text)
        kept.unlink(missing_ok=True)


@contextmanager
def open_gate(endpoint: Endpoint, drain: Drain | str) -> Generator[Gate, None, None]:
    """The gate of one step, for one run at a time; its errors name the waves and traffic away."""
    place = _load(Place, place_file(endpoint)) or Place()  # one that no program wrote is watched
    way = drain if isinstance(drain, Drain) else None
    gate = Gate(endpoint, place, Shift(endpoint, way, place))
    busy = f"{endpoint.where}: another Railyard run has been changing this device"
    try:
        with hold_lock(place_file(endpoint).removeprefix("waves-"), busy, LOCK_DEADLINE_S):
            yield gate
    except DeviceError as error:
        where = place.explain(endpoint.device)
        raise type(error)(f"{error}{gate.shift.explain()}{where}") from error
