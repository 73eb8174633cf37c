"""A host's wanted settings, and the tool for Linux hosts as plain shell text, without a host."""

from __future__ import annotations

from components.core.key_values import HostState
from components.hosts.host_plan import host_names, host_settings, with_boot_unit
from components.hosts.scripts import Verb, host_tool
from components.model.cluster import ClusterSpec
from components.model.hosts import Host

_VERBS = "case $verb in\nobserve)\n"


def library_text() -> str:
    """Everything that every verb starts with."""
    library, found, _ = host_tool().text.partition(_VERBS)
    assert found
    return library


def script_text(verb: Verb) -> str:
    """One verb as a script of its own; what it installs for the boot unit is empty."""
    return f"set -- {verb}\nt=''\n{host_tool().text}"


def desired_state(spec: ClusterSpec, host: Host) -> HostState:
    """All wanted settings of one host."""
    return with_boot_unit(host_settings(spec, host, host_names(spec).get(host.name)))
