"""What an update would reboot or shut down, where the file says `disruption.reboots: deny`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from components.core.key_values import HostState
from components.hypervisor.plan import HypervisorPlan

_AT_BOOT: Final = ("runtime", "current_owner")
"""Settings that only a boot of the hypervisor brings about."""
_NO_STOP: Final = ("power",)
"""Settings of a virtual machine that can be set without stopping it."""


def reboots_refused(
    plans: tuple[HypervisorPlan, ...], observed: Mapping[str, HostState]
) -> tuple[str, ...]:
    """Say, at preview, what would go out of service although the file denies it.

    Call it only where `disruption.reboots` is `deny`.

    Args:
        plans: The hypervisors.
        observed: Device name to what was seen of it: hypervisors, and hosts for the firmware of
            their cards. What was not observed cannot be judged here; the steps refuse it.
    """
    found = [line for plan in plans for line in _of_hypervisor(plan, observed)]
    return tuple(
        f"disruption: {line}\n"
        "  where  disruption.reboots = deny\n"
        "  fix    plan a window and set disruption.reboots to allow, or take the change back"
        for line in found
    )


def _of_hypervisor(plan: HypervisorPlan, observed: Mapping[str, HostState]) -> Iterator[str]:
    seen = observed.get(plan.name)
    if seen is not None:
        yield from _boots(plan, seen)
        yield from _stops(plan, seen)
    if plan.firmware_reboot is None:
        return
    for guest in plan.firmware_reboot.request.guests:
        facts = observed.get(guest.endpoint.device)
        for card in guest.cards if facts else ():
            key = f"nic.{card}.ats"
            now = facts.values.get(key, "on") if facts else "on"
            if now != "on":
                yield (
                    f"{plan.name} would be rebooted: ATS_ENABLED of {card} in"
                    f" {guest.endpoint.device} is {now}, want on"
                )


def _boots(plan: HypervisorPlan, seen: HostState) -> Iterator[str]:
    for key, wanted in sorted(plan.desired.values.items()):
        actual = seen.values.get(key, wanted)
        if key.rpartition(".")[2] in _AT_BOOT and actual != wanted:
            yield f"{plan.name} would be rebooted: {key} is {actual}, want {wanted}"


def _stops(plan: HypervisorPlan, seen: HostState) -> Iterator[str]:
    for key, wanted in sorted(plan.desired.values.items()):
        actual = seen.values.get(key, wanted)
        parts = key.split(".", 2)
        if parts[0] != "vm" or parts[2] in _NO_STOP or actual == wanted:
            continue
        if seen.values.get(f"vm.{parts[1]}.power") == "on":
            change = f"{parts[2]} is {actual}, want {wanted}"
            yield f"{parts[1]} on {plan.name} would be shut down: {change}"
