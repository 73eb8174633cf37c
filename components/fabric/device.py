"""What `railyard device …` does to a switch: the request on stdin, the evidence on stdout.

The desired state comes in clear on stdin; secrets come by name through the environment.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from textwrap import shorten
from typing import Final, Literal

from pydantic import TypeAdapter, ValidationError

from components.core.errors import UsageError
from components.fabric.baselines import (
    every_key,
    read_baseline,
    render_baseline,
    unpack_baseline,
    with_new_ports,
)
from components.fabric.edit import Edit
from components.fabric.effects import find_effects, interrupting, ports_of
from components.fabric.exchange import Aim, Exchange, Outcome
from components.fabric.gate import open_gate
from components.fabric.identity import (
    Identity,
    recorded_identity,
    refuse_other,
    refuse_other_stack,
)
from components.fabric.moves import InterruptedRunError, describe_moves
from components.fabric.parts import Sessions
from components.fabric.session_look import keep_mark, look, read_sessions
from components.fabric.state import SwitchState, fold_ports
from components.fabric.systems import system_of
from components.fabric.systems.base import PortCounters
from components.fabric.targets import target_of_restore
from components.remote.device_session import open_session
from components.remote.lines import as_json
from components.remote.lock import hold_lock
from components.remote.step import Endpoint, secrets_for
from components.remote.watched import WatchedSession, stop_on_signals

READ_DEADLINE_S: Final = 60.0
"""Seconds for the login and the first answers; each command adds `COMMAND_S` of remote/step.py."""
WRITE_DEADLINE_S: Final = 180.0
"""The same for a change, which a switch may take long to put in force."""
SHOWN: Final = 500
"""Characters that the evidence has of what one place lost: a port may lose 4,000 VLANs at once."""
LOCK_DEADLINE_S: Final = 30.0
"""A run that was killed may still be at work on the switch for as long as one command takes."""
BASELINE_VARIABLE: Final = "RAILYARD_BASELINE"
"""The values from before the first apply, as JSON on one line."""
PREVIOUS_OUTPUT: Final = "PULUMI_COMMAND_STDOUT"
"""Where the command provider puts this step's evidence of last time, if it is asked to."""
Away = Callable[[Sequence[str]], AbstractContextManager[None]]
"""Keeps the hosts behind some ports out of service; an empty name means every port."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What a judge is asked about: which text, and whether it applied or saved."""

    text: str
    """Digest of the exec request."""
    kind: Literal["apply", "save"]


@dataclass(frozen=True, slots=True)
class SwitchRequest:
    """What is on stdin."""

    endpoint: Endpoint
    os: str
    desired: SwitchState = field(default_factory=SwitchState)
    baseline: SwitchState | None = None
    repair: str = ""
    """Why this apply runs although the plan is the same; only shown."""
    ports: Literal["allow", "deny", "drain"] = "allow"
    """`deny`: an apply that would interrupt traffic ends before it changes anything. `drain`: it
    looks first, and hosts leave service. An undo gives back what was there in any case."""
    serial: str = ""
    """Serial number that the file says; empty: the recorded one counts."""
    stack: str = ""
    """The stack that manages the switch, if the switch can keep its name."""
    judges: Judged | None = None
    """Of a plain exec: see `components/fabric/exec_plan.py`."""


_REQUEST = TypeAdapter(SwitchRequest)


@dataclass(frozen=True, slots=True)
class _Work:
    """What one run brings a switch to."""

    wanted: SwitchState
    """Names the settings that are read."""
    aim: Aim
    may_interrupt: bool = True
    is_undo: bool = False
    """All that is ours goes, and the mark of the stack with it."""


@dataclass(frozen=True, slots=True)
class SwitchEvidence:
    """What an apply or a restore did; it is on stdout."""

    device: str
    changed: tuple[str, ...]
    unchanged: int
    interrupted: tuple[str, ...]
    saved: bool
    desired: SwitchState
    """What is ours since this run; the next run gives back what it no longer wants."""
    identity: Identity | None = None
    """Which switch it was; None if its system has no published form of that."""


_EVIDENCE = TypeAdapter(SwitchEvidence)


def parse_request(text: str, environ: Mapping[str, str]) -> SwitchRequest:
    """Read a request.

    The baseline may come through the environment: it never changes, and on stdin it would stand
    in every preview of a change.

    Raises:
        UsageError: It is no request; the text names the first fault.
    """
    try:
        request = _REQUEST.validate_json(as_json(text))
        recorded = environ.get(BASELINE_VARIABLE, "")
        if request.baseline is not None or not recorded:
            return request
        return replace(
            request, baseline=SwitchState.model_validate(read_baseline(unpack_baseline(recorded)))
        )
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"stdin is no switch request: {where}: {first['msg']}") from error


def run_baseline(text: str, environ: Mapping[str, str]) -> str:
    """Record every key that this file, or a later one, may come to own; changes nothing.

    A baseline that comes with the request is recorded in place of what is on the switch.

    Returns:
        A `SwitchState` of all ports, as `read_baseline` takes it.
    """
    request = parse_request(text, environ)
    if request.baseline is not None:  # imported, because the state that held it was lost
        return render_baseline(request.baseline)
    with _exchange(request, environ, request.endpoint.read_s or READ_DEADLINE_S) as exchange:
        exchange.enter(configure=False)
        who = exchange.who(system_of(request.os).identity)
        refuse_other(request.endpoint.where, who, None, request.serial)
        refuse_other_stack(request.endpoint.where, who, request.stack)
        wanted = every_key(exchange.list_ports(), request.desired)
        kept = replace(who, stacks=()) if who else None
        return render_baseline(exchange.record(wanted).model_copy(update={"identity": kept}))


def run_observe(text: str, environ: Mapping[str, str]) -> str:
    """Read the settings that the desired state names; changes nothing."""
    request = parse_request(text, environ)
    secrets = secrets_for(request.endpoint, environ)
    state = observe_switch(request.endpoint, request.os, request.desired, secrets)
    return state.model_dump_json(indent=2) + "\n"


def run_apply(text: str, environ: Mapping[str, str], out_of_service: Away | None = None) -> str:
    """Bring the switch to the desired state, verify, save; returns the evidence as JSON.

    Args:
        text: The request.
        environ: Its secrets and the recorded values.
        out_of_service: With `ports: drain`, keeps hosts out of service while ports change.

    Raises:
        DeviceError: See `Exchange.converge`; or the file denies an interruption that is needed.
    """
    request = parse_request(text, environ)
    previous = previous_of(environ) or SwitchState()
    edit = Edit(request.os, request.desired, previous, request.baseline)

    def leave() -> AbstractContextManager[None]:
        if out_of_service is None:
            return nullcontext()
        return out_of_service(_interrupted_ports(request, environ, edit))

    work = _Work(
        edit.wanted,
        lambda reading: edit.target(reading.state, reading.vlan_holders),
        may_interrupt=request.ports != "deny",
    )
    outcome, who = _change(request, environ, work, leave)
    return _render(request, outcome, request.desired, who)


def _interrupted_ports(
    request: SwitchRequest, environ: Mapping[str, str], edit: Edit
) -> tuple[str, ...]:
    """The ports that the changes interrupt, as `ports_of` names them."""
    secrets = secrets_for(request.endpoint, environ)
    with _reading(request.endpoint, request.os, secrets) as exchange:
        reading = exchange.read(edit.wanted)
    target = edit.target(reading.state, reading.vlan_holders)
    return ports_of(interrupting(find_effects(request.os, reading.state, target)))


def run_restore(text: str, environ: Mapping[str, str]) -> str:
    """Put every key that we own back to its recorded value, verify, save.

    Raises:
        UsageError: The request holds no baseline.
        DeviceError: See `Exchange.converge`.
    """
    request = parse_request(text, environ)
    if request.baseline is None:
        raise UsageError(
            f"{request.endpoint.where}: no baseline in the request, so the previous values are "
            "not known. Nothing was changed. Restore the stack's state from a backup, or put the "
            "switch back by hand and remove its steps with `pulumi state delete`."
        )
    baseline = with_new_ports(request.baseline, request.desired, request.os)
    work = _Work(
        request.desired,
        lambda reading: target_of_restore(
            reading.state, request.desired, baseline, reading.vlan_holders
        ),
        is_undo=True,
    )
    outcome, who = _change(request, environ, work)
    return _render(request, outcome, SwitchState(), who)


def observe_switch(
    endpoint: Endpoint, system: str, desired: SwitchState, secrets: Mapping[str, str]
) -> SwitchState:
    """Read the settings that `desired` names, and the neighbours, over one connection.

    Raises:
        DeviceError: No session, or an answer cannot be read.
    """
    with _reading(endpoint, system, secrets) as exchange:
        return _look(exchange, system, desired)


def _look(exchange: Exchange, system: str, desired: SwitchState) -> SwitchState:
    who = exchange.who(system_of(system).identity)
    return look(exchange, desired).model_copy(update={"identity": who})


def _enter(
    exchange: Exchange, request: SwitchRequest, environ: Mapping[str, str]
) -> Identity | None:
    """Come in to change, once it is sure that this is the switch that was recorded."""
    exchange.enter(configure=False)
    who = exchange.who(system_of(request.os).identity)
    last = recorded_identity(environ.get(PREVIOUS_OUTPUT, "").strip())
    was = last or (request.baseline.identity if request.baseline else None)
    refuse_other(request.endpoint.where, who, was, request.serial)
    refuse_other_stack(request.endpoint.where, who, request.stack)
    exchange.configure()
    return who


def look_at_switch(
    endpoint: Endpoint, system: str, desired: SwitchState, secrets: Mapping[str, str]
) -> tuple[SwitchState, Identity]:
    """The same, with what the switch is and lets us do; it raises the same. Read-only."""
    questions = system_of(system).identity
    with _reading(endpoint, system, secrets) as exchange:
        identity = exchange.identify(questions) if questions else Identity()
        who = Identity(serial=identity.serial, base_mac=identity.base_mac, stacks=identity.stacks)
        return look(exchange, desired).model_copy(update={"identity": who}), identity


def read_counters(
    endpoint: Endpoint, system: str, ports: Sequence[str], secrets: Mapping[str, str]
) -> dict[str, PortCounters]:
    """Read the per-priority counters of some ports, over one connection."""
    with _reading(endpoint, system, secrets) as exchange:
        return exchange.read_counters(ports)


def read_counted(
    endpoint: Endpoint, system: str, ports: Sequence[str], secrets: Mapping[str, str], *, bfd: bool
) -> tuple[dict[str, PortCounters], Sessions | None]:
    """The same with BGP's sessions, of a switch with routed links."""
    with _reading(endpoint, system, secrets) as exchange:
        return exchange.read_counters(ports), read_sessions(exchange, bgp=True, bfd=bfd)


@contextmanager
def _reading(
    endpoint: Endpoint, system: str, secrets: Mapping[str, str]
) -> Generator[Exchange, None, None]:
    known = system_of(system)
    deadline_s = endpoint.read_s or READ_DEADLINE_S
    with open_session(endpoint, known.session, secrets, deadline_s) as session:
        exchange = Exchange(session, known.driver)
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
            yield Exchange(watched, known.driver, serial, watched.plan)
        except KeyboardInterrupt as error:  # not in a change: that has words of its own
            why = f"was interrupted ({str(error) or 'SIGINT'})"
            raise InterruptedRunError(f"{session.where} {why}. Nothing was changed.") from None


def _change(
    request: SwitchRequest,
    environ: Mapping[str, str],
    work: _Work,
    leave: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> tuple[Outcome, Identity | None]:
    """Bring a switch to its aim, and wait until it carries what it carried before."""
    write_s = request.endpoint.write_s or WRITE_DEADLINE_S
    with open_gate(request.endpoint) as gate, _lock(request.endpoint), leave():
        with _exchange(request, environ, write_s) as exchange:
            who = _enter(exchange, request, environ)
            gate.look(exchange, work.wanted)
            outcome = exchange.converge(work.wanted, work.aim, may_interrupt=work.may_interrupt)
            if request.stack:
                keep_mark(exchange, request.stack, who, keep=not work.is_undo)
        if gate.holds(outcome):
            read_s = request.endpoint.read_s or READ_DEADLINE_S
            with _exchange(request, environ, read_s + gate.place.settle_s) as exchange:
                exchange.enter(configure=False)
                gate.settle(exchange, work.wanted, outcome)
    return outcome, who


def previous_of(environ: Mapping[str, str]) -> SwitchState | None:
    """What the last run made ours, if the engine hands its evidence on."""
    text = environ.get(PREVIOUS_OUTPUT, "")
    if not text.strip():
        return None
    try:
        return _EVIDENCE.validate_json(text).desired
    except ValidationError:
        return None


def dump_evidence(evidence: SwitchEvidence) -> str:
    """The evidence as indented JSON."""
    document = _EVIDENCE.dump_python(evidence, mode="json", exclude_defaults=True)
    document["desired"] = fold_ports(document["desired"])
    return json.dumps(document, indent=1) + "\n"


def _render(
    request: SwitchRequest, outcome: Outcome, owned: SwitchState, who: Identity | None
) -> str:
    ours = request.desired.settings()
    moved, changed = describe_moves(outcome.before, outcome.after, {*request.desired.ports})
    evidence = SwitchEvidence(
        device=request.endpoint.device,
        changed=changed,
        unchanged=len({*ours} - moved),
        interrupted=tuple(shorten(text, SHOWN, placeholder=" …") for text in outcome.interrupts),
        saved=True,
        desired=owned,
        identity=replace(who, stacks=()) if who else None,
    )
    return dump_evidence(evidence)


def _lock(endpoint: Endpoint) -> AbstractContextManager[None]:
    """One writer a switch on this machine: its configuration is one global thing."""
    mark = hashlib.sha256(f"{endpoint.address}:{endpoint.port}".encode()).hexdigest()[:8]
    busy = f"{endpoint.where}: another Railyard run has been changing this device"
    return hold_lock(f"{endpoint.device}-{mark}", busy, LOCK_DEADLINE_S)
