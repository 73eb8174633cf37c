"""`railyard device reboot-host`: one host, out of service only when something waits for that.

What waits is read from the host, never from what a step believes to have done: firmware that will
start otherwise than it runs, modules that are installed and not loaded, settings that converge put
off because jobs had the cards open. A mark on the host lets the next run finish what a killed one
began. What happens on the host is in `components/hosts/scripts/maintain.sh`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from components.core.errors import Bug, DeviceError, HostKeyError
from components.core.key_values import HostState, parse_state
from components.disruption.forecast import Waiting, read_waiting
from components.disruption.node import POLL_S, Node, open_node, refuse_other_name
from components.disruption.request import READY_DEADLINE_S, HostReboot, parse_request
from components.disruption.turn import Turn, run_alone
from components.hosts.keys.ask import parameter_of
from components.hosts.scripts import host_call
from components.kubernetes.client import Calls

MAINTAIN_DEADLINE_S: Final = 120.0
"""Seconds for one part on the host: `take_lock` alone waits that long for a script before it."""
LOOPBACK_DEADLINE_S: Final = 600.0
"""Seconds for the RDMA writes of all cards; each of them ends within a second or in 180 s."""
SPARE: Final = "spare."
"""Begins an InfiniBand adapter that is not usable, and that the file does not count."""


@dataclass(slots=True)
class HostRun(Turn[HostReboot]):
    """One run, with what was seen of the host."""

    last: str = ""
    """What was last seen of the host, or why nothing was."""
    service: str = "whether its node is cordoned is not known"
    """What is known of the cordon while there is no `node`."""
    drained: bool = False
    boot_ids: set[str] = field(default_factory=set[str])
    """Every boot that was seen, and the one at which an earlier run began."""
    left: tuple[str, ...] = ()
    """Settings that converge left alone although nothing ran: they wait for firmware."""

    def perform(self) -> dict[str, object]:
        """Do what waits, or finish what was begun; nothing where nothing waits.

        Raises:
            DeviceError: What was done, what was not, the last known state and the next command.
        """
        try:
            seen = self._look()
            self._refuse_power_cycle(seen)
            if seen.anything and self.request.reboots == "allow":
                return self._maintained(seen)
        except DeviceError as error:
            raise type(error)(self._stuck(str(error))) from error
        if seen.anything:
            raise DeviceError(self._denied(seen))
        return {"changed": [], "pending": [], "rebooted": False}

    def _refuse_power_cycle(self, seen: Waiting) -> None:
        """No reboot of ours would help, so the host is not taken out of service for one."""
        if seen.powers:
            raise DeviceError(
                f"firmware waits that a reboot does not load: {'; '.join(seen.powers)}. Drain the"
                " node, switch its power off and on (or run mlxfwreset), then run again"
            )

    def _maintained(self, seen: Waiting) -> dict[str, object]:
        """Out of service, changed, and back; what an earlier run did is not done again."""
        counted = before = seen.begun or seen.boot_id
        self.boot_ids.add(before)
        if seen.begun is not None:
            self.service = "an earlier run took it out of service, so its node may be cordoned"
        if seen.words:  # a mark does not say that the host was drained, and a boot does not either
            counted = seen.boot_id
            self._leave_service(seen)
            seen = self._change(seen)
        self._return_to_service(before, counted)
        return {
            "boot_after": self._look().boot_id,
            "boot_before": before,
            "changed": self.done,
            "pending": seen.words or ["what an earlier run began"],
            "rebooted": seen.boot_id != before,
        }

    def _look(self) -> Waiting:
        """What waits on the host, with its boot id."""
        asked = {
            key: value
            for key, value in self.request.settings.items()
            if self.request.loads_firmware or not parameter_of(key)
        }
        by_others = () if self.request.loads_firmware else self.left
        waiting = read_waiting(self._maintain("look", asked), by_others)
        if not waiting.boot_id:
            raise DeviceError("gave no whole answer: its session ended, or it has no boot id")
        self.last = f"boot {waiting.boot_id}"
        self.boot_ids.add(waiting.boot_id)
        return waiting

    def _leave_service(self, seen: Waiting) -> None:
        """Cordon and drain; a refusal puts all back as it was."""
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
        """The host is marked, too."""
        node.uncordon()
        self._maintain("forget-mark")

    def _node(self, calls: Calls | None) -> Node | None:
        name, node = self.request.node_name, None
        if calls is not None:
            node = open_node(name, calls, self.now, self.pause)
        if node is None:
            self.service = "it is no node of a cluster"
        else:
            node.done = self.done
        return node

    def _change(self, seen: Waiting) -> Waiting:
        """What had to wait for the drain, then the boot if one is still due."""
        self.phase = "setting what had to wait for the drain"
        self._converge()
        now = self._look()
        if not now.boots:
            return seen
        booted = self._boot(seen.boot_id)
        return Waiting(booted.boot_id, None, now.boots, seen.drains)

    def _boot(self, before: str) -> Waiting:
        self.phase = "asking for the reboot"
        self._maintain("reboot")
        self.done.append("asked for the reboot")
        self.phase = "waiting for the boot"
        deadline_s = self.request.boot_deadline_s
        ends_at_s = self.now() + deadline_s
        while True:
            self.pause(POLL_S)
            try:
                seen = self._look()
            except HostKeyError:
                raise
            except DeviceError as error:  # SSH may answer before the rest does
                self.last = str(error).splitlines()[0]
            else:
                if seen.boot_id != before:
                    self.done.append("booted")
                    return seen
                self.last = f"it answers, and is still on boot {before}"
            if self.now() >= ends_at_s:
                raise DeviceError(
                    f"did not come back with a new boot within {deadline_s:g} s"
                    " (disruption.boot_deadline_s)"
                )

    def _return_to_service(self, before: str, counted: str) -> None:
        """Settings, cards and node are as they shall be; only then pods come back.

        Args:
            before: The boot at which the host left service.
            counted: The boot in which device plugins may have counted before the last change.
        """
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
            raise DeviceError(
                f"is back in service, but udev did not rename: {'; '.join(unnamed)}. A rule or a"
                " .link file of this host comes before ours: `udevadm test` on the device's folder"
                " in /sys says which"
            )

    def _settle(self, before: str) -> str:
        """Converge until nothing waits for a boot any more; the boot id under which that is so.

        A setting that a card shows only after it started with another one takes a second boot; a
        name that udev did not give at one boot is not given at the next one either.
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
        """The boot unit has ended, and jobs could use every card.

        Args:
            booted: The unit has run in this boot; it is enabled only, where it was just installed.

        Raises:
            DeviceError: The unit failed, or a card is not ready within READY_DEADLINE_S.
        """
        ends_at_s = self.now() + READY_DEADLINE_S
        while True:
            bad = self._unready(booted=booted)
            if not bad:
                return
            self.last = bad
            if self.now() >= ends_at_s:
                raise DeviceError(f"is not ready for RDMA: {bad}")
            self.pause(POLL_S)

    def _unready(self, *, booted: bool) -> str:
        """What is not ready yet, in words; empty when all is."""
        found = dict(parse_state(self._maintain("ready", self.request.settings)).values)
        unit = found.pop("unit", "active")
        if booted and unit == "failed":
            raise DeviceError(
                "railyard-nics.service failed at this boot: see `journalctl -b -u"
                " railyard-nics.service` there"
            )
        bad = [f"{key}: {words}" for key, words in sorted(found.items()) if words != "ok"]
        if booted and unit != "active":
            bad.append(f"railyard-nics.service is {unit}")
        return "; ".join(bad)

    def _prove(self) -> list[str]:
        """The cards are as they shall be, or only their names are not; those are returned."""
        left = self._look()
        if words := [each for each in left.words if each not in left.names]:
            raise DeviceError(
                f"still waits after all: {'; '.join(words)}. Firmware that asks for a power"
                " cycle is not loaded by a warm reboot: switch the power off and on"
            )
        self.phase = "an RDMA write from each card to itself"
        asked = self._maintain("loopback", self.request.settings, LOOPBACK_DEADLINE_S)
        noted = parse_state(asked).values
        looped = {key: words for key, words in noted.items() if not key.startswith(SPARE)}
        bad = [f"{key}: {words}" for key, words in sorted(looped.items()) if words != "ok"]
        if bad:
            raise DeviceError("; ".join(bad))
        if looped:
            self.done.append(f"an RDMA write to itself passed on {len(looped)} card(s)")
        spare = [
            f"{key.removeprefix(SPARE)}: {noted[key]}" for key in sorted(noted.keys() - looped)
        ]
        if spare:
            self.done.append(f"passed over, beyond hcas = {self.request.hcas}: {'; '.join(spare)}")
        return left.names

    def _converge(self) -> None:
        """Everything as the plan says, now that nothing is in the way; it verifies itself."""
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

    def _denied(self, seen: Waiting) -> str:
        what = "; ".join(seen.words) or "an earlier run took it out of service and did not finish"
        return (
            f"{self.request.endpoint.where} has to leave service: {what}\n"
            "  where  disruption.reboots = deny\n"
            "  fix    plan a window and set disruption.reboots to allow. Nothing was changed."
        )

    def _stuck(self, what: str) -> str:
        service = self.service
        if self.node is not None:
            held = self.node.held
            service = "its node is cordoned" if held else "its node is not cordoned by us"
        last = f"{self.last or 'nothing was seen'}; {service}"
        return self._say_stuck(what, last, "Look at its console")


def run_reboot_host(text: str, environ: Mapping[str, str]) -> str:
    """Do what the request on stdin asks; the evidence is indented JSON.

    Raises:
        UsageError: It is no request, or a key is not in the environment.
        DeviceError: See `HostRun.perform`.
    """
    request = parse_request(text)
    name = request.endpoint.device
    busy = f"another run has been taking {name} out of service"
    return run_alone(HostRun, request, environ, f"reboot-{request.stack}-{name}", busy)
