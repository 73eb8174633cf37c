"""The site as its file has it: templates and ranges of hosts, which the reader expands.

The reader makes a `ClusterSpec` of it, which has single hosts only. These classes describe the file
to the schema, the reference page and the words of a refusal; no value of them is made.
"""

from __future__ import annotations

from pydantic import Field

from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.units import DnsLabel


class HostTemplate(Host):
    """Keys that several hosts share: any of [HostEntry](#hostentry) but `name` and `each`.

    A host that takes it needs to write only what differs. Cards are joined by `rail`, other
    mappings key by key; other lists replace the template's.
    """

    template: DnsLabel | None = None
    """Another template, which this one extends; its own keys win."""


class HostEntry(Host):
    """One Linux host, or a range of hosts: `name: gpu[01-16]`.

    In the entry of a range and in its template, each text may have a range of as many values, for
    example `address: 192.168.2.[11-26]`. See docs/howto/many-hosts.md.
    """

    template: DnsLabel | None = None
    """The entry of `host_templates` that it takes; its own keys win."""
    each: dict[DnsLabel, HostTemplate] = Field(default_factory=dict)
    """What single hosts of a range have of their own, by name: `{gpu03: {machine_id: …}}`."""


class SiteFile(ClusterSpec):
    """One site: the file that `railyard:site` names, or the value of `railyard:cluster`."""

    host_templates: dict[DnsLabel, HostTemplate] = Field(default_factory=dict)
    """Keys that several hosts share, by the name that `hosts[].template` takes."""
    hosts: tuple[HostEntry, ...] = ()  # pyright: ignore[reportIncompatibleVariableOverride] - frozen
    """Control plane and workers; a cloud that makes instances makes them from its pools."""
