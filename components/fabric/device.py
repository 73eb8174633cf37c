"""`railyard device …` for switches: the request on stdin, the evidence on stdout.

The desired state comes in clear on stdin; secrets come by name through the environment.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from textwrap import shorten
from typing import Final, Literal

from components.core.errors import DeviceError, UsageError
from components.core.record import record
from components.core.templates import fault_text
from components.fabric import edit as edits
from components.fabric import moves
from components.fabric.edit import Edit, read_baseline
from components.fabric.effects import find_effects, interrupting, ports_of
from components.fabric.exchange import Aim, Exchange, Outcome
from components.fabric.fabric_plan import SwitchPlan
from components.fabric.gate import Gate, open_gate
from components.fabric.parts import MARKS, Identity, Sessions, recorded_identity, refuse_other
from components.fabric.state import SwitchState
from components.fabric.systems import system_of
from components.fabric.systems.base import Drain, PortCounters
from components.fabric.targets import digest_of, is_expected, target_of_restore
from components.remote.lines import read_request
from components.remote.one_run import WatchedSession, stop_on_signals
from components.remote.sending import PREVIOUS_OUTPUT
from components.remote.step import Endpoint, render_request, secrets_for
from components.remote.switch_session import open_device as open_session

READ_DEADLINE_S: Final = 60.0
"""Seconds for the login and the first answers; each command adds `COMMAND_S` of remote/step.py."""
WRITE_DEADLINE_S: Final = 180.0
"""Deadline of a change, which a switch may take long to put in force."""
SHOWN: Final = 500
"""Most characters of evidence about one place: a port may lose 4,000 VLANs at once."""
BASELINE_VARIABLE: Final = "RAILYARD_BASELINE"
"""The values from before the first apply, as JSON on one line."""
Away = Callable[[Sequence[str]], AbstractContextManager[Sequence[str] | None]]
"""Keeps hosts behind ports (empty: every port) out of service; gives the names of their nodes."""
Groups = Callable[[Sequence[str]], Sequence[tuple[str, ...]]]
"""Which of some ports change together, one group after the other."""
OUTPUT_VARIABLE: Final = "RAILYARD_OUTPUT"
"""The output of the exec. It is not on stdin, because a preview shows the wanted state there."""


@record
class Judged:
    """The subject of a judge: which text, and whether it applied or saved."""

    text: str
    """Digest of the exec request."""
    kind: Literal["apply", "save"]


@record
class SwitchRequest:
    """The request on stdin."""

    endpoint: Endpoint
    os: str
    desired: SwitchState = field(default_factory=SwitchState)
    baseline: SwitchState | None = None
    repair: str = ""
    """Why this apply runs although the plan is the same; only shown."""
    ports: Literal["allow", "deny", "drain"] = "allow"
    """`deny`: an apply that would interrupt traffic ends before it changes anything. `drain`: it
    looks first, and hosts leave service. An undo restores the old values in any case."""
    serial: str = ""
    """Serial number that the file says; empty: the recorded one counts."""
    stack: str = ""
    """The stack that manages the switch, if the switch can keep its name."""
    judges: Judged | None = None
    """The judge of a plain exec: see `components/fabric/targets.py`."""


def parse_request(text: str, environ: Mapping[str, str]) -> SwitchRequest:
    """Read a request; its baseline may come through the environment, which previews do not show."""
    request = read_request(SwitchRequest, text, "switch request")
    recorded = environ.get(BASELINE_VARIABLE)
    if request.baseline is not None or not recorded:
        return request
    known = json.dumps(read_baseline(recorded))
    return replace(request, baseline=read_request(SwitchState, known, "switch request"))


def run_baseline(text: str, environ: Mapping[str, str]) -> str:
    """Record every key that a file may come to own, or the baseline that the request brings."""
    request = parse_request(text, environ)
    if request.baseline is not None:  # imported, because the state that held it was lost
        return edits.render_baseline(request.baseline)
    with _exchange(request, environ, request.endpoint.read_s or READ_DEADLINE_S) as exchange:
        exchange.enter(configure=False)
        who = _prove(request, exchange, None)
        wanted = edits.every_key(exchange.list_ports(), request.desired)
        kept = replace(who, stacks=()) if who else None
        return edits.render_baseline(exchange.record(wanted).model_copy(update={"identity": kept}))


def run_observe(text: str, environ: Mapping[str, str]) -> str:
    """Read the settings that the desired state names; changes nothing."""
    request = parse_request(text, environ)
    secrets = secrets_for(request.endpoint, environ)
    state = observe_switch(request.endpoint, request.os, request.desired, secrets)
    return state.model_dump_json(indent=2) + "\n"


def run_apply(
    text: str,
    environ: Mapping[str, str],
    out_of_service: Away | None = None,
    groups: Groups = lambda ports: (tuple(ports),),
) -> str:
    """Bring the switch to the desired state, verify, save; returns the evidence as JSON.

    With `ports: drain`, `out_of_service` keeps hosts out of service while their ports change, one
    of the `groups` of interrupted ports after the other. Errors as of `Exchange.converge`.
    """
    request = parse_request(text, environ)
    previous = moves.previous_of(environ.get(PREVIOUS_OUTPUT, "")) or SwitchState()
    edit = Edit(request.os, request.desired, previous, request.baseline)
    done: list[Outcome] = []
    drained: list[str] = []
    with _writing(request, environ) as step:
        stopped = step.find_stopped(edit) if out_of_service else ()
        parts = groups(stopped) or ((),)
        for number, ports in enumerate(parts):
            later = tuple(port for part in parts[number + 1 :] for port in part)
            leaving = out_of_service(ports) if out_of_service else nullcontext()
            with leaving as names:
                done.append(step.change(edit.wanted, partial(edit.part, later), last=not later))
            drained += names or ()
    stopped = tuple(chain.from_iterable(each.interrupts for each in done))
    lines = tuple(chain.from_iterable(each.lines for each in done))
    outcome = Outcome(done[0].before, done[-1].after, lines, stopped)
    return step.render(outcome, request.desired, drained)


def run_restore(text: str, environ: Mapping[str, str]) -> str:
    """Put every key that we own back to its recorded value, verify, save."""
    request = parse_request(text, environ)
    if request.baseline is None:
        raise UsageError(fault_text(__file__, "no-baseline", endpoint=request.endpoint))
    baseline = edits.with_new_ports(request.baseline, request.desired, request.os)
    with _writing(replace(request, ports="allow"), environ) as step:
        outcome = step.change(
            request.desired,
            lambda reading: target_of_restore(
                reading.state, request.desired, baseline, reading.vlan_holders
            ),
            undoes=True,
        )
    return step.render(outcome, SwitchState())


def observe_switch(
    endpoint: Endpoint, system: str, desired: SwitchState, secrets: Mapping[str, str]
) -> SwitchState:
    """Read the settings that `desired` names, and the neighbours; DeviceError without an answer."""
    with _reading(endpoint, system, secrets) as exchange:
        who = exchange.who(system_of(system).identity)
        return exchange.look(desired).model_copy(update={"identity": who})


def look_at_switch(
    endpoint: Endpoint, system: str, desired: SwitchState, secrets: Mapping[str, str]
) -> tuple[SwitchState, Identity]:
    """As `observe_switch`, errors included, with the identity and the rights of the login."""
    questions = system_of(system).identity
    with _reading(endpoint, system, secrets) as exchange:
        identity = exchange.identify(questions) if questions else Identity()
        who = replace(identity, release="", model="", rights="")
        return exchange.look(desired).model_copy(update={"identity": who}), identity


def read_counted(
    endpoint: Endpoint,
    system: str,
    ports: Sequence[str],
    secrets: Mapping[str, str],
    *,
    bfd: bool | None = None,
) -> tuple[dict[str, PortCounters], Sessions | None]:
    """Read the counters of some ports, and BGP's sessions unless `bfd` is None: no routed links."""
    with _reading(endpoint, system, secrets) as exchange:
        counters = exchange.read_counters(ports)
        return counters, exchange.read_sessions(bgp=bfd is not None, bfd=bool(bfd))


@contextmanager
def _reading(
    endpoint: Endpoint, system: str, secrets: Mapping[str, str]
) -> Generator[Exchange, None, None]:
    known = system_of(system)
    deadline_s = endpoint.read_s or READ_DEADLINE_S
    with open_session(endpoint, known.session, secrets, deadline_s) as session:
        exchange = Exchange(session, known)
        exchange.enter(configure=False)
        yield exchange


@contextmanager
def _exchange(
    request: SwitchRequest, environ: Mapping[str, str], deadline_s: float
) -> Generator[Exchange, None, None]:
    secrets, known = secrets_for(request.endpoint, environ), system_of(request.os)
    with (
        stop_on_signals() as stop,
        open_session(request.endpoint, known.session, secrets, deadline_s) as session,
    ):
        watched, serial = WatchedSession(session, stop), time.time_ns() // 1_000_000
        try:
            yield Exchange(watched, known, serial, watched.plan)
        except KeyboardInterrupt as error:  # not in a change, which has its own words
            why = f"was interrupted ({str(error) or 'SIGINT'})"
            text = f"{session.where} {why}. Nothing was changed."
            raise moves.InterruptedRunError(text) from None


def _prove(request: SwitchRequest, exchange: Exchange, was: Identity | None) -> Identity | None:
    """Ask which switch it is, and refuse another one, or one of another stack."""
    who = exchange.who(system_of(request.os).identity)
    refuse_other(request.endpoint.where, who, was, request.serial, request.stack)
    return who


@dataclass(slots=True)
class _Step:
    request: SwitchRequest
    environ: Mapping[str, str]
    gate: Gate
    who: Identity | None = None
    shifts: bool = False
    """Traffic leaves the switch before it changes."""

    def _prove(self, exchange: Exchange) -> None:
        last, baseline = self.environ.get(PREVIOUS_OUTPUT, "").strip(), self.request.baseline
        was = recorded_identity(last) or (baseline.identity if baseline else None)
        self.who = _prove(self.request, exchange, was)

    def find_stopped(self, edit: Edit) -> tuple[str, ...]:
        """The ports that the changes interrupt, as `ports_of` names them, before anyone leaves."""
        endpoint = self.request.endpoint
        with _reading(endpoint, edit.system, secrets_for(endpoint, self.environ)) as exchange:
            self._prove(exchange)
            reading = exchange.read(edit.wanted)
        target = edit.target(reading.state, reading.vlan_holders)
        stopped = ports_of(interrupting(find_effects(edit.system, reading.state, target)))
        drains = isinstance(edit.drain(reading.state), Drain)
        self.shifts = bool(stopped) and drains and self.gate.place.watched
        return stopped

    def change(
        self, wanted: SwitchState, aim: Aim, *, last: bool = True, undoes: bool = False
    ) -> Outcome:
        """Bring the switch to an aim, and wait until its links and sessions are back.

        Traffic comes back after the last part; in an undo, before anything else. Errors as of
        `Exchange.converge`; their `kept` says whether the switch is as it was.
        """
        request, gate, kept = self.request, self.gate, True
        write_s = (request.endpoint.write_s or WRITE_DEADLINE_S) + self.shifts * gate.place.settle_s
        try:
            with _exchange(request, self.environ, write_s) as exchange:
                exchange.enter(configure=False)
                self._prove(exchange)
                exchange.configure()
                gate.look(exchange, wanted)
                may_interrupt = request.ports != "deny"
                try:
                    with gate.shift.around(exchange, away=self.shifts, back=undoes):
                        outcome = exchange.converge(wanted, aim, may_interrupt=may_interrupt)
                finally:
                    kept = not exchange.altered
                # A login without the right to write or remove the mark goes on without: it protects
                # against a second stack, and no setting depends on it.
                folder, has = f"{MARKS}/{request.stack}", self.who.stacks if self.who else ()
                if undoes and request.stack in has:
                    exchange.session.run(f"sudo -n rmdir {folder} {MARKS}")
                elif request.stack and not undoes and request.stack not in has:
                    exchange.session.run(f"sudo -n mkdir -p {folder}")
            holds, comes_back = gate.holds(outcome), last and gate.shift.ours
            if holds or comes_back:
                read_s = (request.endpoint.read_s or READ_DEADLINE_S) + gate.place.settle_s
                with _exchange(request, self.environ, read_s) as exchange:
                    exchange.enter(configure=comes_back)
                    if holds:
                        gate.settle(exchange, wanted, outcome)
                    if comes_back:
                        gate.shift.come_back(exchange)
        except DeviceError as error:
            error.kept = kept
            raise
        return outcome

    def render(self, outcome: Outcome, owned: SwitchState, drained: Sequence[str] = ()) -> str:
        """The evidence as JSON."""
        desired = self.request.desired
        moved, changed = moves.describe_moves(outcome.before, outcome.after, {*desired.ports})
        evidence = moves.SwitchEvidence(
            device=self.request.endpoint.device,
            changed=changed,
            unchanged=len({*desired.settings()} - moved),
            interrupted=tuple(shorten(x, SHOWN, placeholder=" …") for x in outcome.interrupts),
            saved=True,
            desired=owned,
            identity=replace(self.who, stacks=()) if self.who else None,
            drained=tuple(drained),
            shifted=self.gate.shift.used,
        )
        return moves.dump_evidence(evidence)


@contextmanager
def _writing(request: SwitchRequest, environ: Mapping[str, str]) -> Generator[_Step, None, None]:
    with open_gate(request.endpoint, system_of(request.os).drain) as gate:
        yield _Step(request, environ, gate)


def judge_request(plan: SwitchPlan, kind: Literal["apply", "save"], text: str, note: str) -> str:
    """The request of a judge; it holds the watched state of an apply, to show drift."""
    return render_request(
        plan.endpoint,
        os=plan.os,
        desired=plan.desired.model_dump(mode="json"),
        repair=note,
        judges={"kind": kind, "text": digest_of(text)},
    )


def run_judge(text: str, environ: Mapping[str, str]) -> str:
    """Judge an exec's output; the evidence cannot say which settings changed."""
    request = parse_request(text, {})
    if request.judges is None or OUTPUT_VARIABLE not in environ:
        words = {"endpoint": request.endpoint, "variable": OUTPUT_VARIABLE}
        raise UsageError(fault_text(__file__, "unjudged", **words))
    output, saving = environ[OUTPUT_VARIABLE], request.judges.kind == "save"
    refusal = system_of(request.os).find_refusal(output)
    if refusal is not None:
        fault = f"refused {'to save' if saving else 'a line of the exec'}"
    elif saving or is_expected(request.os, output):
        who, desired = request.endpoint.device, request.desired
        evidence = moves.SwitchEvidence(who, (), 0, (), saved=saving, desired=desired)
        return moves.dump_evidence(evidence)
    else:
        fault, refusal = "answered the exec with a text that tells no success", output.strip()
    words = {"endpoint": request.endpoint, "fault": fault, "refusal": refusal or "nothing"}
    raise DeviceError(fault_text(__file__, "unsaved" if saving else "maybe-sent", **words))
