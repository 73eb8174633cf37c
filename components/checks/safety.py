"""The rules that no site can waive, with the reason why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
        | {"duplicate-nic", "node-address", "subnet-overlap"}
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
