"""The gate behind a change: what was up before must be up again, or the later waves do not start.

What a step knows of its wave is in a file of `.railyard`, not in its request, so that an edit that
moves a switch to another wave changes no step.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from components.core.errors import DeviceError, UsageError
from components.fabric.exchange import Exchange, Outcome
from components.fabric.parts import Session
from components.fabric.plan import SwitchPlan
from components.fabric.session_look import read_sessions
from components.fabric.state import BgpState, Neighbour, PortState, SwitchState
from components.model.cluster import SwitchWaves
from components.model.name_lists import fold_names
from components.remote.step import Endpoint
from components.remote.tool_files import FOLDER, keep_current, load_current

POLL_S: Final = 2.0
"""Seconds between two looks. A look is three commands, which take a real switch half a second."""
_SHARED: Final = ("speed", "fec", "autoneg", "mode")
"""Settings that both ends of a link must share; the other end may change in a later wave."""
KeptT = TypeVar("KeptT", bound=BaseModel)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Place(_Frozen):
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
        return (
            f"\n  wave    {self.wave + 1} of {len(self.waves)}: {beside}"
            f"\n  done    {'; '.join(done) or 'no switch before this wave'}"
            f"\n  not begun  {'; '.join(later) or 'no switch: this is the last wave'}"
            "\n  go on   mend what is said above and run `pulumi up` again"
            "\n  go back take the edit back and run `pulumi up`: what is done is set back, in waves"
        )


class Health(_Frozen):
    """What a switch carries: found, never wanted."""

    links: dict[str, bool] = {}
    """Port to whether it has a link; empty: the system does not tell."""
    neighbours: dict[str, Neighbour] = {}
    sessions: dict[str, Session] = {}


def place_file(endpoint: Endpoint) -> str:
    """Name of the file that has the place of a switch. Two stacks may use one folder."""
    mark = hashlib.sha256(f"{endpoint.address}:{endpoint.port}".encode()).hexdigest()[:8]
    return f"waves-{endpoint.device}-{mark}"


def place_text(plan: SwitchPlan) -> str:
    """The content of that file."""
    waves = tuple(fold_names(names) for names in plan.waves)
    place = Place(wave=plan.wave, waves=waves, settle_s=plan.settle_s, watched=bool(waves))
    return place.model_dump_json() + "\n"


def _load(kept: type[KeptT], file: str) -> KeptT | None:
    """What a file of `.railyard` holds; None where it is missing or of another release."""
    try:
        return kept.model_validate_json(load_current("the waves", file))
    except (UsageError, ValidationError):
        return None


def read_health(exchange: Exchange, owned: SwitchState) -> Health:
    """Ask for links, LLDP neighbours and BGP sessions; what a switch does not say is left out."""
    bgp = owned.bgp is not None and owned.bgp.asn is not None
    told = read_sessions(exchange, bgp=bgp, bfd=False)
    return Health(
        links=exchange.read_links(),
        neighbours=exchange.read_neighbours(),
        sessions=told.neighbors if told else {},
    )


def find_missing(before: Health, now: Health, outcome: Outcome) -> Iterator[str]:
    """What was up and is not, in words.

    What the change itself ends is not missed. Nor is a link or a session of which it changes what
    both ends must share: the other end may change in a later wave. Nor is any neighbour
    if the change gives Onyx' one-shot back, and LLDP with it; links and sessions still count.
    """
    changed, kept = {*_changed_ports(outcome)}, _kept_sessions(outcome)
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


def _name(heard: Neighbour | None) -> str:
    return f"{heard.system} {heard.port}".strip() if heard else "nothing"


def _changed_ports(outcome: Outcome) -> Iterator[str]:
    was, now = outcome.before.ports, outcome.after.ports
    for name in was.keys() | now.keys():
        old, new = was.get(name, PortState()), now.get(name, PortState())
        if new.admin_up is False or any(getattr(old, x) != getattr(new, x) for x in _SHARED):
            yield name


def _kept_sessions(outcome: Outcome) -> set[str]:
    """The neighbours whose session this change does not touch."""
    was, now = (state.bgp or BgpState() for state in (outcome.before, outcome.after))
    if was.asn != now.asn or outcome.before.addresses != outcome.after.addresses:
        return set()
    return {name for name, number in was.neighbors.items() if now.neighbors.get(name) == number}


@dataclass(slots=True)
class Gate:
    """Holds one step until its switch carries what it carried before."""

    endpoint: Endpoint
    place: Place
    before: Health = field(default_factory=Health)

    @property
    def _file(self) -> str:
        """Name of the file with what the last run missed at its end."""
        return f"{place_file(self.endpoint)}-missing"

    def look(self, exchange: Exchange, owned: SwitchState) -> None:
        """Read what is up before the change; what an earlier run still misses counts too."""
        if self.place.watched:
            owed, found = _load(Health, self._file) or Health(), read_health(exchange, owned)
            sessions = {name: each for name, each in found.sessions.items() if each.is_up}
            self.before = Health(
                links=found.links | {port: up for port, up in owed.links.items() if up},
                neighbours=found.neighbours | owed.neighbours,
                sessions=owed.sessions | sessions,
            )

    def holds(self, outcome: Outcome) -> bool:
        """Whether there is anything to wait for: a change, or what an earlier run still misses."""
        return self.place.watched and bool(outcome.lines or _load(Health, self._file))

    def settle(self, exchange: Exchange, owned: SwitchState, outcome: Outcome) -> None:
        """Wait until all of it is back, over a new session: the switch must let us in again.

        Raises:
            DeviceError: It is not, after `settle_s`; the text says what is missing.
        """
        ends_at_s = time.monotonic() + self.place.settle_s
        while missing := (*find_missing(self.before, read_health(exchange, owned), outcome),):
            left_s = ends_at_s - time.monotonic()
            if left_s <= 0:
                keep_current(self._file, self.before.model_dump_json() + "\n")
                raise DeviceError(self._failure(missing))
            Event().wait(min(POLL_S, left_s))
        (FOLDER.parent / self._file).unlink(missing_ok=True)

    def _failure(self, missing: tuple[str, ...]) -> str:
        lines = "\n          ".join(missing)
        return (
            f"{self.endpoint.where} has the settings of the file, saved, and does not carry what it"
            f" carried before, {self.place.settle_s:g} s after the change\n  missing {lines}\n"
            "  result  the switch keeps the new settings; no later wave begins. The next run looks"
            " for the same.\n          If something is gone for good, such as a cable, delete"
            f" {FOLDER.parent / self._file}"
        )


@contextmanager
def open_gate(endpoint: Endpoint) -> Generator[Gate, None, None]:
    """The gate of one step; any failure within names the waves before and after it.

    Raises:
        DeviceError: Of the body, with that added.
    """
    place = _load(Place, place_file(endpoint)) or Place()  # one that no program wrote is watched
    try:
        yield Gate(endpoint, place)
    except DeviceError as error:
        raise type(error)(f"{error}{place.explain(endpoint.device)}") from error
