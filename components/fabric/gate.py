"""The gate behind a change: what was up before must be up again, or the later waves do not start.

What a step knows of its wave is in a file of `.railyard`, not in its request, so that an edit that
moves a switch to another wave changes no step.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event
from typing import Final

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from components.core.errors import DeviceError, UsageError
from components.fabric.exchange import Exchange, Outcome
from components.fabric.plan import SwitchPlan
from components.fabric.session_look import read_sessions
from components.fabric.state import BgpState, Neighbour, PortState, SwitchState
from components.model.cluster import SwitchWaves
from components.model.name_lists import fold_names
from components.remote.step import Endpoint
from components.remote.tool_files import FOLDER, keep_current, load_current

POLL_S: Final = 2.0
"""Seconds between two looks. A look is three commands, which take a real switch half a second."""
_LINK_KEYS: Final = ("speed", "fec", "autoneg")
"""Settings that both ends of a link must share; the other end may change in a later wave."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a switch stands in the order of its site."""

    wave: int = 0
    """From 0."""
    waves: tuple[str, ...] = ()
    """The switches of each wave, as a list of names with ranges."""
    settle_s: float = SwitchWaves().settle_s
    watched: bool = True
    """False on a new site: nothing carries traffic yet, and all switches change at once."""

    def explain(self, device: str) -> str:
        """Which switches of the update are done, and which were not touched."""
        if not self.waves:
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


_PLACE: Final = TypeAdapter(Place)


class Health(BaseModel):
    """What a switch carries: found, never wanted."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    links: dict[str, bool] = {}
    """Port to whether it has a link; empty: the system does not tell."""
    neighbours: dict[str, Neighbour] = {}
    sessions: dict[str, str] = {}
    """BGP neighbour to the state of the session."""


def place_file(endpoint: Endpoint) -> str:
    """Name of the file that has the place of a switch. Two stacks may use one folder."""
    mark = hashlib.sha256(f"{endpoint.address}:{endpoint.port}".encode()).hexdigest()[:8]
    return f"waves-{endpoint.device}-{mark}"


def place_text(plan: SwitchPlan) -> str:
    """The content of that file."""
    waves = tuple(fold_names(names) for names in plan.waves)
    place = Place(plan.wave, waves, plan.settle_s, watched=bool(waves))
    return _PLACE.dump_json(place).decode() + "\n"


def _load_place(endpoint: Endpoint) -> Place:
    """The place of a switch; one that no program wrote is watched all the same."""
    try:
        return _PLACE.validate_json(load_current("the waves", place_file(endpoint)))
    except (UsageError, ValidationError):
        return Place()


def read_health(exchange: Exchange, desired: SwitchState) -> Health:
    """Ask for links, LLDP neighbours and BGP sessions; what is not told is left out."""
    bgp = desired.bgp is not None and desired.bgp.asn is not None
    told = read_sessions(exchange, bgp=bgp, bfd=False)
    sessions = {name: each.state for name, each in told.neighbors.items()} if told else {}
    return Health(
        links=exchange.read_links(), neighbours=exchange.read_neighbours(), sessions=sessions
    )


def find_missing(before: Health, now: Health, outcome: Outcome) -> Iterator[str]:
    """What was up and is not, in words.

    What the change itself ends is not missed. Nor is a link or a session of which it changes what
    both ends must share: the other end may change in a later wave.
    """
    left_alone = {*_changed_ports(outcome)}
    for port, was_up in before.links.items():
        if was_up and now.links.get(port) is False and port not in left_alone:
            yield f"port {port} was up and is down"
            left_alone.add(port)
    for port, was in before.neighbours.items():
        heard = now.neighbours.get(port)
        if port not in left_alone and _name(heard) != _name(was):
            yield f"port {port} heard {_name(was)} by LLDP and hears {_name(heard)}"
    kept = _kept_sessions(outcome)
    for name, state in before.sessions.items():
        is_now = now.sessions.get(name, "gone")
        up = state.lower() == "established"
        if up and is_now.lower() != "established" and name in kept - left_alone:
            yield f"BGP with {name} was Established and is {is_now}"


def _name(heard: Neighbour | None) -> str:
    return f"{heard.system} {heard.port}".strip() if heard else "nothing"


def _changed_ports(outcome: Outcome) -> Iterator[str]:
    was, now = outcome.before.ports, outcome.after.ports
    for name in was.keys() | now.keys():
        old, new = was.get(name, PortState()), now.get(name, PortState())
        shared = [getattr(old, key) != getattr(new, key) for key in (*_LINK_KEYS, "mode")]
        if new.admin_up is False or any(shared):
            yield name


def _kept_sessions(outcome: Outcome) -> set[str]:
    """The neighbours whose session this change does not touch."""
    was, now = (state.bgp or BgpState() for state in (outcome.before, outcome.after))
    if was.asn != now.asn or outcome.before.addresses != outcome.after.addresses:
        return set()
    both = was.neighbors.keys() & now.neighbors.keys()
    return {name for name in both if was.neighbors[name] == now.neighbors[name]}


@dataclass(slots=True)
class Gate:
    """Holds one step until its switch carries what it carried before."""

    endpoint: Endpoint
    place: Place
    before: Health = field(default_factory=Health)

    def look(self, exchange: Exchange, owned: SwitchState) -> None:
        """Read what is up before the change; what an earlier run still misses counts too."""
        if self.place.watched:
            found = read_health(exchange, owned)
            self.before = _joined(self._owed() or Health(), found)

    def holds(self, outcome: Outcome) -> bool:
        """Whether there is anything to wait for: a change, or what an earlier run still misses."""
        return self.place.watched and bool(outcome.lines or self._owed())

    def settle(self, exchange: Exchange, owned: SwitchState, outcome: Outcome) -> None:
        """Wait until all of it is back, over a new session: the switch must let us in again.

        Raises:
            DeviceError: It is not, after `settle_s`; the text says what is missing.
        """
        ends_at_s = time.monotonic() + self.place.settle_s
        while missing := (*find_missing(self.before, read_health(exchange, owned), outcome),):
            if time.monotonic() >= ends_at_s:
                self._keep_owed()
                raise DeviceError(self._failure(missing))
            Event().wait(min(POLL_S, max(0.0, ends_at_s - time.monotonic())))
        with suppress(OSError):
            (FOLDER.parent / self._owed_file).unlink(missing_ok=True)

    def _failure(self, missing: tuple[str, ...]) -> str:
        lines = "\n          ".join(missing)
        return (
            f"{self.endpoint.where} has the settings of the file, saved, and does not carry what it"
            f" carried before, {self.place.settle_s:g} s after the change\n  missing {lines}\n"
            "  result  the switch keeps the new settings; no later wave begins. The next run looks"
            f" for the same. What is gone for good, such as a cable: delete"
            f" {FOLDER.parent / self._owed_file}"
        )

    @property
    def _owed_file(self) -> str:
        return f"{place_file(self.endpoint)}-missing"

    def _owed(self) -> Health | None:
        """What the last run missed at its end."""
        try:
            return Health.model_validate_json(load_current("what is missing", self._owed_file))
        except (UsageError, ValidationError):
            return None

    def _keep_owed(self) -> None:
        keep_current(self._owed_file, self.before.model_dump_json() + "\n")


def _joined(owed: Health, found: Health) -> Health:
    """What was up at either time."""
    up = {name: state for name, state in found.sessions.items() if state.lower() == "established"}
    links = {name for each in (owed, found) for name, is_up in each.links.items() if is_up}
    return Health(
        links=dict.fromkeys(sorted(links), True),
        neighbours=found.neighbours | owed.neighbours,
        sessions=owed.sessions | up,
    )


@contextmanager
def open_gate(endpoint: Endpoint) -> Generator[Gate, None, None]:
    """The gate of one step; any failure within says where the step stands among the waves.

    Raises:
        DeviceError: Of the body, with that added.
    """
    place = _load_place(endpoint)
    try:
        yield Gate(endpoint, place)
    except DeviceError as error:
        words = place.explain(endpoint.device)
        if not words:
            raise
        raise type(error)(f"{error}{words}") from error
