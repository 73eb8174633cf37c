"""`railyard device reboot-hosts`: take hosts out of service if changes wait on them, and reboot.

The host reports waiting changes; a step's record does not count. Such changes are firmware settings
for the next boot, modules that are installed but not loaded, and settings that converge postponed
because jobs used the cards. A mark on the host lets the next run finish after a killed one.
`components/hosts/scripts/maintain.sh` does the work on the host.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from components.core.errors import Bug, DeviceError, HostKeyError
from components.core.key_values import HostState, parse_state
from components.core.templates import fault_text
from components.disruption.forecast import Waiting, read_waiting
from components.disruption.node import POLL_S, Node, Turn, open_node, refuse_other_name, run_alone
from components.disruption.request import READY_DEADLINE_S, HostReboot, parse_request
from components.hosts.keys.ask import find_row
from components.hosts.scripts import host_call
from components.kubernetes.client import Calls
from components.remote import sending

MAINTAIN_DEADLINE_S: Final = 120.0
"""Seconds for one action on the host; `take_lock` alone may wait so long for another script."""
LOOPBACK_DEADLINE_S: Final = 600.0
"""Seconds for the RDMA writes of all cards; each ends within a second or in 180 s."""
SPARE: Final = "spare."
"""Prefix of an InfiniBand adapter that is unusable and beyond the file's count."""


@dataclass(slots=True)
class HostRun(Turn[HostReboot]):
    """One run, and the host's last known state."""

    last: str = ""
    """The last state of the host, or the reason for its silence."""
    service: str = "whether its node is cordoned is not known"
    """The known state of the cordon without a `node`."""
    drained: bool = False
    boot_ids: set[str] = field(default_factory=set[str])
    """Every boot id of this run, and that of an earlier, unfinished run."""
    left: tuple[str, ...] = ()
    """Settings that converge skipped although the host was idle: they wait for firmware."""

    def perform(self) -> dict[str, object]:
        """Make the waiting changes, or finish an earlier run; do nothing without either."""
        try:
            seen = self._look()
            if changes := "; ".join(seen.powers):
                refused = fault_text(__file__, "power", changes=changes)
                raise DeviceError(refused)  # noqa: TRY301 - handled below like any other fault
            if seen.anything and self.request.reboots == "allow":
                return self._maintained(seen)
        except DeviceError as error:
            service = self.service
            if self.node is not None:
                held = self.node.held
                service = "its node is cordoned" if held else "its node is not cordoned by us"
            last = f"{self.last or 'nothing was seen'}; {service}"
            what = self._say_stuck(str(error), last, "Look at its console")
            raise type(error)(what) from error
        if seen.anything:
            unfinished = "an earlier run took it out of service and did not finish"
            why = "; ".join(seen.words) or unfinished
            raise DeviceError(fault_text(__file__, "denied-host", request=self.request, why=why))
        return {"changed": [], "pending": [], "rebooted": False}

    def _maintained(self, seen: Waiting) -> dict[str, object]:
        """Take the host out of service, change it, and return it; continue an earlier run."""
        # The boot at which it left service, and that at which device plugins may have counted.
        before = counted = seen.begun or seen.boot_id
        self.boot_ids.add(before)
        if seen.begun is not None:
            self.service = "an earlier run took it out of service, so its node may be cordoned"
        if seen.words:  # a mark or a boot does not prove that the host was drained
            counted = seen.boot_id
            self._leave_service(seen)
            self.phase = "applying the settings that waited for the drain"
            self._converge()
            if boots := self._look().boots:  # changes still need a boot
                booted = self._boot(seen.boot_id)
                seen = Waiting(booted.boot_id, None, boots, seen.drains)
        # Verify settings, cards and node, and only then uncordon.
        now = self._settle(before)
        unnamed = self._prove()
        if self.node is None:
            self.phase = "asking the cluster"
            self.node = self._node(self._patient_cluster(READY_DEADLINE_S))
        if self.node is not None:
            self.phase = "waiting for the node"
            if now == counted:
                self.node.restart_device_plugins()
            self.node.await_service(self.boot_ids - {now}, READY_DEADLINE_S)
            self.node.uncordon()
        self._maintain("forget")
        if unnamed:
            raise DeviceError(fault_text(__file__, "unnamed", devices="; ".join(unnamed)))
        return {
            "boot_after": self._look().boot_id,
            "boot_before": before,
            "changed": self.done,
            "pending": seen.words or ["the work of an earlier run"],
            "rebooted": seen.boot_id != before,
        }

    def _look(self) -> Waiting:
        asked, by_others = self.request.settings, self.left
        if self.request.loads_firmware:
            by_others = ()
        else:
            asked = {key: value for key, value in asked.items() if not find_row(key).parameter}
        waiting = read_waiting(self._maintain("look", asked), by_others)
        if not waiting.boot_id:
            what = "gave an incomplete answer: its session ended, or its boot id is missing"
            raise DeviceError(what)
        self.last = f"boot {waiting.boot_id}"
        self.boot_ids.add(waiting.boot_id)
        return waiting

    def _leave_service(self, seen: Waiting) -> None:
        self.phase = "asking the cluster"
        calls = self.cluster() if seen.begun is None else self._patient_cluster(READY_DEADLINE_S)
        self.node = self._node(calls)
        if calls is not None:
            if self.node is None:
                refuse_other_name(calls, self.request.node_name, seen.boot_id)
            else:
                self._ask_to_go(calls)
        self._maintain("begin")
        if self.node is not None:
            begun = seen.begun is not None
            self._take_out(self.node, ends_vfs=seen.ends_vfs, drains=True, begun=begun)
        self.drained = True

    def _stay(self, node: Node) -> None:
        node.uncordon()
        self._maintain("forget-mark")

    def _node(self, calls: Calls | None) -> Node | None:
        name = self.request.node_name
        node = None if calls is None else open_node(name, calls, self, self.done)
        if node is None:
            self.service = "it is not a node of a cluster"
        return node

    def _boot(self, before: str) -> Waiting:
        self.phase = "asking for the reboot"
        self._maintain("reboot")
        self.done.append("asked for the reboot")
        self.phase = "waiting for the boot"
        deadline_s = self.request.boot_deadline_s
        self.pause(POLL_S)
        for _ in self.tries(deadline_s - POLL_S):
            try:
                seen = self._look()
            except HostKeyError:
                raise
            except DeviceError as error:  # SSH may answer before the other services
                self.last = str(error).splitlines()[0]
            else:
                if seen.boot_id != before:
                    self.done.append("booted")
                    return seen
                self.last = f"it answers, and is still on boot {before}"
        raise DeviceError(fault_text(__file__, "no-boot", limit_s=deadline_s))

    def _settle(self, before: str) -> str:
        """Converge until no change waits for a boot, and return that boot id.

        A card may show a setting only after a boot with another one, which needs a second boot. A
        name that udev did not assign in one boot does not come with the next.
        """
        self.phase = "checking the settings"
        for again in (True, False):
            boot_id = self._look().boot_id
            self._await_ready(booted=boot_id != before)
            self._converge()
            waiting = self._look()
            named = boot_id != before and len(waiting.names) == len(waiting.boots)
            if not again or not waiting.boots or named:
                return boot_id
            if not self.drained:
                self._leave_service(waiting)
            self._boot(boot_id)
            self.phase = "checking the settings"
        raise Bug("the second round returns")

    def _await_ready(self, *, booted: bool) -> None:
        """Wait until jobs can use every card and, after a boot, until the boot unit has ended."""
        for _ in self.tries(READY_DEADLINE_S):
            found = dict(parse_state(self._maintain("ready", self.request.settings)).values)
            unit = found.pop("unit", "active")
            if booted and unit == "failed":
                raise DeviceError(fault_text(__file__, "boot-unit"))
            bad = [f"{key}: {words}" for key, words in sorted(found.items()) if words != "ok"]
            if booted and unit != "active":
                bad.append(f"railyard-nics.service is {unit}")
            if not bad:
                return
            self.last = "; ".join(bad)
        raise DeviceError(f"is not ready for RDMA: {self.last}")

    def _prove(self) -> list[str]:
        """Verify the cards; return devices whose only fault is a missing name."""
        left = self._look()
        if words := [each for each in left.words if each not in left.names]:
            raise DeviceError(fault_text(__file__, "still-waits", changes="; ".join(words)))
        self.phase = "an RDMA write from each card to itself"
        asked = self._maintain("loopback", self.request.settings, LOOPBACK_DEADLINE_S)
        noted = parse_state(asked).values
        looped = {key: words for key, words in noted.items() if not key.startswith(SPARE)}
        bad = [f"{key}: {words}" for key, words in sorted(looped.items()) if words != "ok"]
        if bad:
            raise DeviceError("; ".join(bad))
        if looped:
            self.done.append(f"an RDMA write to itself passed on {len(looped)} card(s)")
        keys = sorted(noted.keys() - looped)
        if spare := "; ".join(f"{key.removeprefix(SPARE)}: {noted[key]}" for key in keys):
            self.done.append(f"passed over, beyond hcas = {self.request.hcas}: {spare}")
        return left.names

    def _converge(self) -> None:
        """Apply all settings, now without jobs; converge verifies them itself."""
        deadline_s = self.request.converge_deadline_s
        stdin = HostState({**self.request.settings, "disrupt": "now"}).render()
        answer = self._on_host(host_call("converge"), stdin, deadline_s)
        report: dict[str, list[str]] = json.loads(answer.splitlines()[-1])
        self.left = tuple(report.get("waiting", ()))
        if report["changed"]:
            self.done.append(f"set {', '.join(report['changed'])}")

    def _maintain(
        self,
        action: str,
        settings: Mapping[str, str] | None = None,
        deadline_s: float = MAINTAIN_DEADLINE_S,
    ) -> str:
        lines = {"action": action, "stack": self.request.stack, "hcas": str(self.request.hcas)}
        stdin = HostState({**(settings or {}), **lines}).render()
        return self._on_host(host_call("maintain"), stdin, deadline_s)


def run_reboot_hosts(text: str, environ: Mapping[str, str]) -> str:
    """Perform the requests on stdin that the last run of this resource did not perform.

    The hosts of a group go together; if any fails, the groups after it are not touched. The output
    has a record of each host, and the evidence of each host that it read.
    """
    was, said = sending.read_records(environ.get(sending.PREVIOUS_OUTPUT, "")), ""
    asked = [(part, parse_request(part.stdin)) for part in sending.split_parts(text)]
    for _, group in groupby(asked, lambda each: each[1].group):
        members = [(sending.record_of(part), request) for part, request in group]
        due = [each for each in members if was.get(each[0]["step"], (None, ""))[0] != each[0]]
        with ThreadPoolExecutor(max(1, len(due))) as pool:
            runs = {each["step"]: pool.submit(reboot_host, asked, environ) for each, asked in due}
        failed = [error for run in runs.values() if (error := run.exception()) is not None]
        if len(failed) == 1 or not all(isinstance(error, DeviceError) for error in failed):
            raise failed[0]
        if failed:
            raise DeviceError("\n".join(map(str, failed)))
        done = {step: run.result() for step, run in runs.items()}
        said += "".join(
            sending.render_record(each, done.get(each["step"], "")) for each, _ in members
        )
    return said


def reboot_host(request: HostReboot, environ: Mapping[str, str]) -> str:
    """Perform one request; the evidence is indented JSON."""
    name = request.endpoint.device
    busy = f"another run has been taking {name} out of service"
    return run_alone(HostRun, request, environ, f"reboot-{request.stack}-{name}", busy)
