"""What to do about settings beside ours that break the traffic of the rails."""

from __future__ import annotations

from typing import Literal

from components.model.units import Frozen

Seen = Literal["warn", "refuse"]
Way = Literal["warn", "refuse", "repair"]
"""`warn`: every report says it. `refuse`: no update starts over it. `repair`: an update puts the
value that does no harm, and `destroy` puts back what was there."""


class SwitchGuards(Frozen):
    """Settings of switches; what is left out follows `default`."""

    schedule: Seen | None = None
    """Weights and strictness of the classes of RoCE and CNP."""
    rewrite: Way | None = None
    """A rewrite of DSCP on a port of a rail: the next hop sorts the packets wrongly."""
    ecn_elsewhere: Way | None = None
    """ECN or RED on other classes than the planned ones."""
    pfc_elsewhere: Way | None = None
    """PFC where the file plans none: a lossy class that pauses, or other priorities than ours."""
    dscp_map: Seen | None = None
    """Other DSCPs in our class, or ours in another one."""
    foreign_ports: Seen | None = None
    """Ports that the file does not name, in the VLAN of a rail."""
    other_vlans: Seen | None = None
    """VLANs that the file does not name, on our trunks."""


class HostGuards(Frozen):
    """Settings of hosts; what is left out follows `default`."""

    priority_classes: Way | None = None
    """Priorities to traffic classes of a card: others in the class of RoCE or of CNPs. `repair`
    sets the card's own map."""
    ets: Way | None = None
    """Shares and strictness of the card's traffic classes. `repair` sets the card's own: all of
    them in turn."""
    rate_limit: Way | None = None
    """Rate limits of the class of RoCE and of VFs. `repair` takes them off."""
    dscp_map: Way | None = None
    """DSCPs that the card sorts into the priority of RoCE or of CNPs, and by its own map would not.
    `repair` sets the card's own map for them."""
    vf_rights: Way | None = None
    """Link state of VFs, and spoof check and trust of those that pods have. `repair` sets the link
    state: the others belong to the network attachment."""
    buffers: Seen | None = None
    """Receive buffers that hold less than a pause needs. What is written in `host_defaults.qos` is
    set; how large buffers are without it, the card alone knows."""
    ip: Way | None = None
    """`rp_filter`, `arp_ignore` and `arp_announce` of a host with addresses on several rails, as
    the kernel combines those of the device with those of all."""


class Guards(Frozen):
    """What happens where a setting that the site does not own breaks its traffic."""

    default: Seen = "warn"
    """For every kind that says nothing itself."""
    cabling: Seen = "refuse"
    """A switch of which LLDP contradicts the file on most ports: it may be another switch. `warn`
    is for hosts that tell other names by LLDP than the file has."""
    switch: SwitchGuards = SwitchGuards()
    """Settings of switches."""
    host: HostGuards = HostGuards()
    """Settings of hosts."""

    def way(self, kind: str) -> Way:
        """What to do about one kind, named `switch.schedule`.

        Raises:
            ValueError: There is no such kind.
        """
        layer, _, name = kind.partition(".")
        part = {"switch": self.switch, "host": self.host}.get(layer)
        if part is None or name not in type(part).model_fields:
            raise ValueError(f"{kind} is no kind of guard")
        said: Way | None = getattr(part, name)
        return said or self.default


def kinds() -> tuple[str, ...]:
    """Every kind, as `Guards.way` takes it."""
    parts = {"switch": SwitchGuards, "host": HostGuards}
    return tuple(f"{layer}.{name}" for layer, part in parts.items() for name in part.model_fields)
