"""`railyard device reboot`: one hypervisor, rebooted only if a setting waits for it.

Only the devices show what is pending; the record of a step does not. A boot is pending for a kernel
setting or a device's owner if the configured value is not in effect, and for a card if its firmware
will differ after the next start. The work on the host is in `scripts/reboot.sh`. It leaves a mark
there, and with it the next run can finish a killed one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Final

from components.core.errors import DeviceError, HostKeyError, UnreachableError
from components.core.key_values import HostState, parse_state
from components.core.templates import fault_text
from components.hosts.scripts import host_call
from components.hypervisor import hypervisor_plan as plans
from components.hypervisor.hypervisor_plan import PASSED_THROUGH, RebootRequest
from components.remote.host_session import HostAnswer, Run, run_call, run_on_hosts
from components.remote.step import OBSERVE_DEADLINE_S, Endpoint

POLL_S: Final = 2.0
"""Seconds between two polls of a host that reboots."""
SAME_BOOT_S: Final = 5.0
"""Largest difference of two readings of one boot time, each from an uptime and our clock."""
GUEST_DEADLINE_S: Final = 600.0
"""Seconds until a guest answers SSH; ESXi pins all its memory first, which takes minutes."""
STOP_DEADLINE_S: Final = 120.0
"""Seconds for maintenance mode and for powering on, without the time for the guests."""


@dataclass(slots=True)
class Reboot:
    """One run: the request, the way to reach devices, and the work done so far."""

    request: RebootRequest
    run: Run
    now: Callable[[], float] = time.time
    pause: Callable[[float], object] = Event().wait
    done: list[str] = field(default_factory=list[str])

    def perform(self) -> dict[str, object]:
        """Reboot if a setting waits for it, or finish a reboot that an earlier run began."""
        state = self.look()
        mark = state.get("mark_boot")
        pending = [] if mark else self.pending(state)
        if not pending and mark is None:
            self._wait_for_guests()  # the step before may have started them
            return {"changed": [], "pending": [], "rebooted": False}
        if self.request.reboots == "deny":
            what = "; ".join(pending) or "an earlier run began a reboot and did not finish it"
            raise DeviceError(fault_text(__file__, "denied", request=self.request, what=what))
        before = float(mark) if mark else self._boot_time(state)
        if abs(self._boot_time(state) - before) < SAME_BOOT_S:
            deadline_s = self.request.shutdown_s * len(self.request.order) + STOP_DEADLINE_S
            self.done += self._on_host("quiesce", deadline_s, f"boot={before:.0f}\n").splitlines()
            self._on_host("reboot", STOP_DEADLINE_S)
            self.done.append("asked for the reboot")
            state = self._wait_for_boot(before)
        deadline_s = (len(self.request.order) + 1) * STOP_DEADLINE_S
        self.done += self._on_host("resume", deadline_s).splitlines()
        self._wait_for_guests()
        if left := "; ".join(self.pending(self.look())):
            raise self._stuck(fault_text(__file__, "still-waits", left=left))
        self._on_host("forget", STOP_DEADLINE_S)
        begun = _stamp(before)
        return {
            "boot_after": _stamp(self._boot_time(state)),
            "boot_before": begun,
            "changed": self.done,
            "pending": pending or [f"finished the work of an earlier run (boot of {begun})"],
            "rebooted": True,
        }

    def look(self) -> Mapping[str, str]:
        """The hypervisor's settings, its uptime, and the mark of an unfinished reboot."""
        state = parse_state(self._on_host("read", OBSERVE_DEADLINE_S)).values
        if not state.get("uptime_us", "").isdecimal():
            what = "gave an incomplete answer: its session ended, or its uptime is missing"
            raise self._stuck(what)
        return state

    def pending(self, state: Mapping[str, str]) -> list[str]:
        """The settings that wait for a boot, in words; empty if none does."""
        found = [
            f"{key.rpartition('.')[0]} is {state[key]} for the next boot and {runtime} now"
            for key in sorted(state)
            if key.endswith(".configured")
            and (runtime := state[f"{key.rpartition('.')[0]}.runtime"]) != state[key]
        ]
        found += [
            f"{device} is to be passed through, and is owned by {state[f'{device}.current_owner']}"
            for device in (key.removesuffix(".passthrough") for key in sorted(state))
            if state.get(f"{device}.passthrough") == "true"
            and state[f"{device}.current_owner"] != PASSED_THROUGH
        ]
        # Cards of guests whose firmware will change at the guest's next start.
        for guest in (each for each in self.request.guests if each.cards):
            asked = {f"nic.{card}.ats": "on" for card in guest.cards}  # `ats_current` comes with it
            call, stdin = host_call("observe"), HostState(asked).render()
            answer = run_call(self.run, guest.endpoint, call, stdin, OBSERVE_DEADLINE_S)
            if answer.exit_status:
                raise DeviceError(f"{guest.endpoint.where}: {answer.stderr.strip()}")
            seen = parse_state(answer.stdout).values
            for card in guest.cards:
                keys = (f"nic.{card}.{key}" for key in ("ats", "ats_current"))
                new, now = (seen.get(key, "absent") for key in keys)
                reads = f"{new} for the next boot and {now} now"
                if not {new, now} <= {"on", "off"}:
                    words = {"guest": guest, "card": card, "reads": reads}
                    raise DeviceError(fault_text(__file__, "unreadable-ats", **words))
                if new != now:
                    found.append(f"ATS_ENABLED of {card} in {guest.endpoint.device} is {reads}")
        return found

    def _boot_time(self, state: Mapping[str, str]) -> float:
        """When the host booted, by our clock in seconds: the boot may set the host's clock."""
        return self.now() - float(state["uptime_us"]) / 1e6

    def _wait_for_boot(self, before: float) -> Mapping[str, str]:
        ends_at_s = self.now() + self.request.deadline_s
        last = "it still runs as before"
        while self.now() < ends_at_s:
            self.pause(POLL_S)
            try:
                state = self.look()
            except HostKeyError:
                raise
            except DeviceError as error:  # SSH answers before hostd does
                last = str(error).splitlines()[0]
                continue
            if self._boot_time(state) - before > SAME_BOOT_S:
                self.done.append("rebooted")
                return state
        limit_s = self.request.deadline_s
        raise self._stuck(f"did not come back within {limit_s:g} s; last seen: {last}")

    def _wait_for_guests(self) -> None:
        for guest in self.request.guests:
            ends_at_s, answers = self.now() + GUEST_DEADLINE_S, False
            while not answers:
                try:
                    answers = bool(self.run(guest.endpoint, "true", "", OBSERVE_DEADLINE_S))
                except UnreachableError as error:
                    if self.now() > ends_at_s:
                        words = str(error).splitlines()[0]
                        raise self._stuck(f"runs, but its guest does not: {words}") from None
                    self.pause(POLL_S)

    def _on_host(self, action: str, deadline_s: float, more: str = "") -> str:
        parameters = {
            "action": action,
            "order": ",".join(self.request.order),
            "power_off": self.request.power_off,
            "shutdown_s": f"{self.request.shutdown_s:.0f}",
            "stack": self.request.stack,
        }
        stdin = HostState({**self.request.settings, **parameters}).render() + more
        endpoint = self.request.endpoint
        call = plans.hypervisor_call("reboot")
        answer = run_call(self.run, endpoint, call, stdin, deadline_s, ash=True)
        if answer.exit_status:
            words = answer.stderr.strip() or f"status {answer.exit_status} and no words"
            raise self._stuck(f"stopped at {action}: {words}")
        return answer.stdout

    def _stuck(self, what: str) -> DeviceError:
        words = {"what": what, "done": ", ".join(self.done) or "nothing"}
        return DeviceError(fault_text(__file__, "stuck", request=self.request, **words))


def _stamp(boot_time_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(boot_time_s))


def run_reboot(text: str, environ: Mapping[str, str]) -> str:
    """Carry out the request on stdin, and return the evidence as indented JSON."""
    request = plans.parse_request(text)
    plain = run_on_hosts(request.endpoints, environ)

    def run(endpoint: Endpoint, command: str, stdin: str, deadline_s: float) -> HostAnswer:
        try:
            return plain(endpoint, command, stdin, deadline_s)
        except DeviceError as error:
            if endpoint == request.endpoint:
                raise type(error)(explain_refusal(error)) from error
            raise

    return json.dumps(Reboot(request, run).perform(), indent=2, sort_keys=True) + "\n"


def explain_refusal(error: DeviceError) -> str:
    """The message of a failed connection, and its usual cause on ESXi.

    SSH is off by default, and a timeout may close it; lockdown mode refuses even a correct key
    (sources.md#esxi).
    """
    if isinstance(error, HostKeyError):
        return str(error)
    if isinstance(error, UnreachableError) and isinstance(error.__cause__, ConnectionRefusedError):
        return fault_text(__file__, "ssh-off", error=error)
    if "refused our SSH key" in str(error):
        return fault_text(__file__, "lockdown", error=error)
    return str(error)
