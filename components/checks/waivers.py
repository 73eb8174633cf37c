"""Waivers: rules that a site goes without by name, and what they hide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from components.checks.registry import FILE_RULES, RULES
from components.checks.rule import Finding, Findings, at
from components.core.problem import Problem
from components.model.cluster import ClusterSpec
from components.reading.wording import did_you_mean


@dataclass(frozen=True, slots=True)
class Waived:
    """One waiver of the file that holds."""

    rule: str
    reason: str
    hides: int
    """Problems and warnings that are not reported for its sake."""

    def __str__(self) -> str:
        """The words of every report."""
        count = f"{self.hides} problem{'' if self.hides == 1 else 's'}"
        return f"waived: {self.rule} ({count} not reported): {self.reason}"


def waive(
    spec: ClusterSpec, problems: Sequence[Problem]
) -> tuple[list[Problem], tuple[Waived, ...]]:
    """Leave out what the rules that the file waives have found.

    Returns:
        The other problems, and each waiver that holds, in the order of the file.
    """
    valid = {rule: reason for rule, reason in spec.waive.items() if _why_not(rule) is None}
    kept = [problem for problem in problems if problem.rule not in valid]
    hidden = [problem.rule for problem in problems if problem.rule in valid]
    return kept, tuple(Waived(rule, why, hidden.count(rule)) for rule, why in valid.items())


def check_waiver(spec: ClusterSpec, waived: Sequence[Waived] | None) -> Findings:
    """Find the waivers that do not hold, and those that hide nothing.

    Args:
        spec: The site.
        waived: What its waivers hide; None where not all rules could run.
    """
    for rule, reason in spec.waive.items():
        why = _why_not(rule)
        if why is not None:
            yield Finding(why, (at(("waive", rule), reason),), "remove the waiver.")
    for each in waived or ():
        if not each.hides:
            what = f"the waiver of {each.rule} hides nothing: the site keeps to that rule."
            fix = "remove the waiver, so that it does not hide a later mistake."
            yield Finding(what, (at(("waive", each.rule), each.reason),), fix, "warning")


def _why_not(rule: str) -> str | None:
    """Why a rule cannot be waived; None: it can."""
    if rule in NEVER_WAIVED:
        return f"{rule} cannot be waived: {NEVER_WAIVED[rule]}."
    names = [each.name for each in RULES]
    if rule in names:
        return None
    if rule in {each.name for each in FILE_RULES}:
        return f"{rule} cannot be waived: it says how the file is read."
    return f"the waiver names {rule!r}, which is no rule.{did_you_mean(rule, names)}"


_BY_REASON: Final[Mapping[str, frozenset[str]]] = {
    "it protects secrets, host keys, or who may reach the site": frozenset(
        {
            "host-key",
            "credentials",
            "hypervisor-access",
            "registry-login",
            "jump-host",
            "exec-reach",
            "agent-token",
        }
        | {"external-partition"}
    ),
    "without it an update can cut off its own way to a device": frozenset(
        {"management-port", "partition-key", "port-function", "api-from"}
    ),
    "it holds what an update may interrupt": frozenset(
        {"exec-disruptive", "max-unavailable", "ports-drain", "wave-order"}
    ),
    "its values become parts of commands and of file names": frozenset(
        {"resource-name", "network-name", "driver-package"}
        | {"partition-name", "image-download", "container-image"}
    ),
    "parts of another maker would get values that mean nothing there": frozenset({"other-vendor"}),
    "no file has a checksum of zeros": frozenset({"checksum-zeros"}),
    "no plan can be made of what it refuses": frozenset(
        {"port-target", "nic-rail", "link-ends", "switch-transport"}
        | {"exec-system", "duplicate-name", "duplicate-vlan", "duplicate-address"}
        | {"duplicate-nic", "node-address", "subnet-overlap", "routed-port"}
        | {"subnet-size", "cluster-networks", "host-group"}
        | {"macvlan-master", "host-network", "esxi-release", "vm-host"}
        | {"hypervisor-name", "vm-devices", "passthrough-device"}
        | {"pf-address", "payload-choice", "container-hosts", "control-plane", "host-login"}
        | {"instance-type", "cloud-hosts", "fabric-transport"}
        | {"ib-partition", "partition-member", "deepspeed-workers", "driver-tag"}
    ),
}
NEVER_WAIVED: Final[Mapping[str, str]] = {
    rule: why for why, rules in _BY_REASON.items() for rule in sorted(rules)
}
"""Rule to the reason. The rules on the file say how it is read, and cannot be waived either."""
