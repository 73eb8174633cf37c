"""How to react to settings of others that break the traffic of the rails."""

from typing import Literal

from components.model.units import Frozen

Seen = Literal["warn", "refuse"]
Way = Literal["warn", "refuse", "repair"]
"""`warn`: every report mentions it. `refuse`: no update starts while it is there. `repair`: an
update sets the value that does no harm, and `destroy` restores the old one."""


class SwitchGuards(Frozen):
    """Settings of switches; omitted ones follow `default`."""

    schedule: Seen | None = None
    """Weights and strictness of the classes of RoCE and CNP."""
    rewrite: Way | None = None
    """A rewrite of DSCP on a port of a rail: the next hop sorts the packets wrongly."""
    ecn_elsewhere: Way | None = None
    """ECN or RED on classes other than the planned ones."""
    pfc_elsewhere: Way | None = None
    """PFC outside of the plan: a lossy class that pauses, or priorities other than the file's."""
    dscp_map: Seen | None = None
    """Other DSCPs in the file's class, or its DSCPs in another class."""
    foreign_ports: Seen | None = None
    """Ports outside of the file in the VLAN of a rail."""
    other_vlans: Seen | None = None
    """VLANs outside of the file on trunks of the file."""


class HostGuards(Frozen):
    """Settings of hosts; omitted ones follow `default`."""

    priority_classes: Way | None = None
    """Priorities to traffic classes of a card: others in the class of RoCE or of CNPs. `repair`
    sets the card's own map."""
    ets: Way | None = None
    """Shares and strictness of the card's traffic classes. `repair` sets the card's defaults: all
    classes in turn."""
    rate_limit: Way | None = None
    """Rate limits of the class of RoCE and of VFs. `repair` removes them."""
    dscp_map: Way | None = None
    """Foreign DSCPs in the card's priority of RoCE or of CNPs. `repair` sets the default map for
    them."""
    vf_rights: Way | None = None
    """Link state of VFs, and spoof check and trust of VFs in pods. `repair` sets the link state:
    the network attachment owns the others."""
    buffers: Seen | None = None
    """Receive buffers that are too small for a pause; `host_defaults.qos` sets their sizes."""
    ip: Way | None = None
    """`rp_filter`, `arp_ignore` and `arp_announce` of a host with addresses on several rails."""


class Guards(Frozen):
    """How to react to a setting outside of the file that breaks the site's traffic."""

    default: Seen = "warn"
    """For every kind without its own value."""
    cabling: Seen = "refuse"
    """A switch whose LLDP neighbours contradict the file on most ports. `warn` is for hosts that
    announce other names than the file's."""
    switch: SwitchGuards = SwitchGuards()
    """Settings of switches."""
    host: HostGuards = HostGuards()
    """Settings of hosts."""

    def way(self, kind: str) -> Way:
        """Return the reaction to one kind, named `switch.schedule`; ValueError without that one."""
        layer, _, name = kind.partition(".")
        part = {"switch": self.switch, "host": self.host}.get(layer)
        if part is None or name not in type(part).model_fields:
            raise ValueError(f"{kind} is not a kind of guard")
        said: Way | None = getattr(part, name)
        return said or self.default


def kinds() -> tuple[str, ...]:
    """Every kind, as `Guards.way` takes it."""
    parts = {"switch": SwitchGuards, "host": HostGuards}
    return tuple(f"{layer}.{name}" for layer, part in parts.items() for name in part.model_fields)
