"""The talk with one switch: read, compare, change only the difference, read again, save.

If the switch refuses a line, or still differs after it took every line, the values that were read
before are put back. If the system has a guard, changes come as a candidate that the switch takes
back unless it is confirmed, which is done after the second reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Final, TypeVar

from components.core.difference import Difference
from components.core.errors import DeviceError, UnreachableError
from components.fabric import moves
from components.fabric.effects import describe_changes, find_effects, interrupting
from components.fabric.moves import Outcome
from components.fabric.parts import BgpState, Identity, IdentityQuestions, Neighbour, Sessions
from components.fabric.ports import find_splits, plan_changes, refuse_missing
from components.fabric.state import SwitchState
from components.fabric.systems import base
from components.fabric.systems.switch_system import SwitchSystem
from components.fabric.targets import overlay, target_of_restore, with_all_ports
from components.remote.one_run import Interrupted, InterruptedTwice, Session

MAX_ROUNDS: Final = 3
"""One for a one-shot that moves other settings, one for the rest, one that finds nothing left."""
Aim = Callable[[base.Reading], SwitchState]
"""From the reading of a switch to its wanted state."""
ParsedT = TypeVar("ParsedT")


@dataclass(slots=True)
class Exchange:
    """A session with a switch, and the driver of its system."""

    session: Session
    driver: SwitchSystem
    serial: int = 1
    """Makes the names of candidates unique, if the system names candidates."""
    planned: Callable[[int], None] | None = None
    """Called with the number of lines before they are sent."""
    _candidate: moves.Candidate = field(init=False)
    altered: bool = False
    """A line that changes the switch was sent and not taken back."""
    _saving: bool = False
    """The line that saves was begun."""

    def __post_init__(self) -> None:
        """No change is under way."""
        self._candidate = moves.Candidate(self.driver.guard, self.serial)

    def enter(self, *, configure: bool) -> None:
        """Leave the login mode."""
        self._ask(self.driver.enter)
        if configure:
            self.configure()

    def configure(self) -> None:
        """Enter configuration mode, and take back unconfirmed changes of a killed run."""
        self._ask(self.driver.configure)
        guard = self.driver.guard
        if guard is None:
            return
        answer = self.session.run(guard.list_command)
        text = self.driver.find_refusal(answer)
        if text is not None and guard.plain:
            self._candidate.has_timer = False
            return
        if text is not None:
            raise DeviceError(f"{self.session.where}: `{guard.list_command}` was refused: {text}")
        stale = self._parsed(lambda: guard.find_stale(answer))
        self._ask(guard.revert.format(name=each, id=each) for each in stale)

    def _parsed(self, parse: Callable[[], ParsedT]) -> ParsedT:
        """Parse an answer; if the driver cannot read it, blame the switch."""
        try:
            return parse()
        except base.Unreadable as error:
            raise moves.unreadable_error(self.session.where, error) from error
        except base.Occupied as error:
            raise DeviceError(f"{self.session.where}: {error}. Nothing was changed.") from error

    def read(self, wanted: SwitchState, *, each: bool = False) -> base.Reading:
        """Read the settings that `wanted` names; DeviceError with an answer that cannot be read.

        With `each`, ask about each port separately, as for a baseline: this also reads values that
        the running configuration leaves out, and which would otherwise count as the factory's.
        """
        splits, driver, answers = None, self.driver, dict[str, str]()
        if wanted.splits and driver.by_hand:
            names, parts = self.list_ports(), {*chain(*wanted.splits.values())}
            splits = find_splits(wanted.splits, names)
            ports = wanted.ports.items()  # a missing part cannot be read
            there = {name: port for name, port in ports if name in names or name not in parts}
            wanted = wanted.model_copy(update={"ports": there})
        while not each and (command := driver.whole_command(answers, wanted)) is not None:
            answers[command] = self._peek(command)
        rest = None if each else driver.rest_commands
        answers |= self._ask(rest(answers, wanted) if rest else driver.read_commands(wanted))
        reading = self._parsed(lambda: driver.parse(answers, wanted))
        if splits is None:
            return reading
        return replace(reading, state=reading.state.model_copy(update={"splits": splits}))

    def record(self, wanted: SwitchState) -> SwitchState:
        """Read the values that undo will restore; DeviceError if people must split a port first."""
        state = self.read(wanted, each=True).state
        try:
            refuse_missing(self.driver, state, wanted)
        except base.Unsettable as error:
            raise DeviceError(f"{self.session.where}: {error}. Nothing was changed.") from error
        return state

    def list_ports(self) -> tuple[str, ...]:
        """Every port of the switch."""
        answers = self._ask(self.driver.ports.commands)
        return self._parsed(lambda: self.driver.ports.parse(answers))

    def read_counters(self, ports: Sequence[str]) -> dict[str, base.PortCounters]:
        """Read the counters of some ports; one refused command does not spoil the others."""
        asked = self.driver.counters(ports)
        answers = {line: self.session.run(line) for line in asked.commands}
        return self._parsed(lambda: asked.parse(answers))

    def read_neighbours(self) -> dict[str, Neighbour]:
        """Read the LLDP neighbours; empty if the switch does not tell."""
        return self._told(self.driver.neighbours) or {}

    def read_links(self) -> dict[str, bool]:
        """Read which ports have a link; empty if the switch does not tell."""
        return self._told(self.driver.link_states) or {}

    def _told(self, asked: base.Question[ParsedT]) -> ParsedT | None:
        """The answer to a question; None: a command was refused, or the answer is unreadable."""
        answers = {line: self.session.run(line) for line in asked.commands}
        if any(self.driver.find_refusal(answer) is not None for answer in answers.values()):
            return None
        with suppress(base.Unreadable):
            return asked.parse(answers)
        return None

    def read_sessions(self, *, bgp: bool, bfd: bool) -> Sessions | None:
        """Read the sessions of a switch, or why they are not known; None if Railyard sets none.

        If a later command is refused, the driver may still read the rest.
        """
        if not bgp or self.driver.sessions is None:
            return None
        plain, with_bfd = self.driver.sessions
        asked = with_bfd if bfd else plain
        answers: dict[str, str] = {}
        for command in asked.commands:
            answers[command] = self.session.run(command)
            text = self.driver.find_refusal(answers[command])
            if text is not None and len(answers) == 1:
                return Sessions(unread=f"`{command}` was refused: {text}")
        try:
            return asked.parse(answers)
        except base.Unreadable as error:
            return Sessions(unread=f"`{error.command}`: {error.why}")

    def look(self, desired: SwitchState) -> SwitchState:
        """Read the settings in `desired`, LLDP, and BGP's sessions if we manage BGP."""
        reading, bgp = self.read(desired), desired.bgp or BgpState()
        beside: dict[str, object] = {"neighbours": self.read_neighbours()}
        if desired.others is not None:
            beside["others"] = reading.others
        sessions = self.read_sessions(bgp=bgp.asn is not None, bfd=bool(bgp.bfd))
        if sessions is not None:
            beside["sessions"] = sessions
        return reading.state.model_copy(update=beside)

    def identify(self, questions: IdentityQuestions) -> Identity:
        """Ask for the switch's identity and for this login's rights; either answer may be blank."""
        identity = questions.parse({line: self._peek(line) for line in questions.commands})
        if questions.tries is None:
            return identity
        opens, leaves = questions.tries
        denied = self.driver.find_refusal(self.session.run(opens))
        if denied is None:
            self._ask((leaves,))
        return replace(identity, rights=denied or "")

    def who(self, questions: IdentityQuestions | None) -> Identity | None:
        """Ask only which switch it is; None if its system's answer is not published."""
        if questions is None or not questions.unique:
            return None
        return questions.parse_unique({line: self._peek(line) for line in questions.unique})

    def _peek(self, line: str) -> str:
        answer = self.session.run(line)
        return "" if self.driver.find_refusal(answer) is not None else answer

    def converge(self, wanted: SwitchState, aim: Aim, *, may_interrupt: bool = True) -> Outcome:
        """Bring the switch to its aim, which is computed again after every look, and save.

        Unless it `may_interrupt`, the first change that would is refused before anything is sent.

        Raises:
            DeviceError: A line was refused, or the switch lacks a sent setting, or the save failed;
                the text says whether the previous values were put back.
            UnreachableError: The session was lost; the text says which lines were taken.
            InterruptedRunError: A signal came: as for a refused line; after a second one, as for a
                lost session.
        """
        before = self.read(wanted)
        roce = aim(before).roce
        # A run that sends the one-shot, or may end one that did, is about every port.
        if self.driver.taken and roce is not None and {wanted.roce, before.state.roce} != {roce}:
            wanted = with_all_ports(wanted, self.list_ports(), self.driver.taken)
            before = self.read(wanted)
        put_back, taken = partial(self._put_back, before, wanted, aim(before)), list[str]()
        guard = self.driver.guard
        self._candidate.saves_itself = bool(guard) and guard.saves_note in before.state.noted()
        try:
            return self._approach(before, wanted, aim, taken, may_interrupt=may_interrupt)
        except UnreachableError as error:
            raise UnreachableError(moves.lost_text(error, taken, self._candidate)) from error
        except KeyboardInterrupt as error:
            why = f"was interrupted ({str(error) or 'SIGINT'})"
            try:
                if isinstance(error, InterruptedTwice):
                    raise
                text = str(put_back(why, save=self._saving))
            except KeyboardInterrupt:
                said, how = f"{self.session.where} {why} twice", "nothing more was sent"
                text = moves.lost_text(said, taken, self._candidate, how)
            raise moves.InterruptedRunError(text) from None
        except (moves.RefusedError, moves.StoppedError, base.Unsettable, DeviceError) as error:
            if isinstance(error, DeviceError) and not taken:
                raise
            raise put_back(moves.why_stopped(error)) from error

    def _approach(
        self,
        before: base.Reading,
        wanted: SwitchState,
        aim: Aim,
        taken: list[str],
        *,
        may_interrupt: bool,
    ) -> Outcome:
        """Change and read until nothing is left to change, and save; it puts nothing back."""
        reading, sent, stopped = before, list[base.Change](), list[Difference]()
        for _ in range(MAX_ROUNDS):
            target = aim(reading)
            changes = plan_changes(self.driver, reading.state, target)
            if not changes:
                self._save(taken)
                words = describe_changes(stopped)
                return Outcome(before.state, reading.state, base.flatten(sent), words)
            effects = find_effects(self.driver.name, reading.state, target)
            stopped += interrupting(effects)
            if not may_interrupt:
                moves.refuse_interruptions(self.session.where, interrupting(effects), taken)
            if self._candidate.stage == "forced":
                break  # a second candidate would have to confirm the first
            self._send(changes, taken)
            sent += changes
            reading = self.read(wanted)
        left = plan_changes(self.driver, reading.state, aim(reading))
        lines = "\n          ".join(line for change in left for line in change.lines)
        raise moves.StoppedError(f"took every line and still differs\n  missing {lines}")

    def _ask(self, commands: Iterable[str]) -> dict[str, str]:
        answers: dict[str, str] = {}
        for command in commands:
            output = self.session.run(command)
            text = self.driver.find_refusal(output)
            if text is not None:
                raise DeviceError(f"{self.session.where}: `{command}` was refused: {text}")
            answers[command] = output
        return answers

    def _send(self, changes: Iterable[base.Change], taken: list[str]) -> None:
        steps = tuple(self._candidate.steps(changes))
        if self.planned is not None:
            self.planned(len(steps))
        for line, stage in steps:
            self._send_stage(line, stage, taken)
        self._learn_id()

    def _learn_id(self) -> None:
        """Ask for the switch's own name of the candidate in force; empty if it does not say."""
        guard, now = self.driver.guard, self._candidate
        if guard is None or guard.find_id is None or now.stage != "forced" or now.given is not None:
            return
        try:
            now.given = guard.find_id(self.session.run(guard.list_command), now.name)
        except base.Unreadable:
            now.given = ""

    def _keep(self, taken: list[str]) -> None:
        for line in self._candidate.confirm():
            self._send_stage(line, "none", taken)
        self._candidate.stage = "none"

    def _save(self, taken: list[str]) -> None:
        self._keep(taken)
        self._saving = True
        if self.driver.save:
            self._send_line(self.driver.save, taken)

    def _send_stage(self, line: str, stage: moves.Stage, taken: list[str]) -> None:
        """Send a line that leads to a stage; the stage counts even if a signal comes halfway."""
        try:
            self._send_line(line, taken)
        except Interrupted:
            raise
        except KeyboardInterrupt:
            self._candidate.stage = stage
            raise
        self._candidate.stage = stage

    def _send_line(self, line: str, taken: list[str]) -> None:
        self.altered = True
        if (text := self.driver.find_refusal(self.session.run(line))) is not None:
            raise moves.RefusedError("\n          ".join(moves.shown(line)) or line, text)
        taken.extend(moves.shown(line))

    def _put_back(
        self,
        before: base.Reading,
        wanted: SwitchState,
        target: SwitchState,
        why: str,
        *,
        save: bool = False,
    ) -> DeviceError:
        """Undo what this exchange did, and save if it may have saved; returns the error."""
        after: base.Reading | None = None
        try:
            self._learn_id()  # a signal may have come before
            for line in self._candidate.back_out():
                self._send_line(line, [])
            self._candidate.stage = "none"
            for _ in range(MAX_ROUNDS):
                after = self.read(wanted)
                back = target_of_restore(after.state, wanted, before.state, after.vlan_holders)
                changes = self.driver.plan_changes(after.state, overlay(back, before.state))
                if not changes:
                    end = f"the previous values were put back; {self._candidate.kept}"
                    if save and self.driver.save:
                        self._send_line(self.driver.save, [])
                        end = "the previous values were put back and saved"
                    self.altered = False
                    break
                self._send(changes, [])
                self._keep([])
            else:
                end = f"not all previous values could be put back; {self._candidate.kept}"
        except moves.RefusedError as error:
            end = f"putting back stopped at `{error.line}`: {error.text}; {self._candidate.kept}"
        except (base.Unsettable, DeviceError) as error:
            end = f"putting back stopped: {error}; {self._candidate.kept}"
        found = moves.values_text(before.state, target, after.state if after else None)
        return DeviceError(f"{self.session.where} {why}\n  result  {end}\n  values\n{found}")
