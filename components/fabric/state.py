"""The state of one switch: the same type for wanted, actual and recorded.

It is vendor-neutral: a driver reads its system's `show` outputs into this type and turns the
difference between two of them into its system's commands.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from components.remote.difference import Difference, diff_settings


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    unsaid: ClassVar[frozenset[str]] = frozenset()
    """Fields that most systems have no use for: written only where they say something, so that the
    requests of the others stay short, and as they were before there was a system with them."""

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        fields = type(self).model_fields
        written: dict[str, object] = write(self)
        return {
            key: value
            for key, value in written.items()
            if key not in self.unsaid or getattr(self, key) != fields[key].default
        }


class EcnState(_Frozen):
    """Marking thresholds of one traffic class: absolute, in KiB, as everything we want is."""

    min_kib: int
    max_kib: int
    kind: Literal["ecn", "red", "both"] = "ecn"
    """What a full queue does; we only want `ecn`, but must be able to put others back."""
    relative: bool = False
    """Found on a device, never wanted: the two numbers are percent of the buffer, not KiB."""

    def __str__(self) -> str:
        """The words of diffs: `150-1500` for what we set, with more for what others set."""
        unit = "%" if self.relative else ""
        return f"{self.min_kib}-{self.max_kib}{unit}" + ("" if self.kind == "ecn" else self.kind)


class PortState(_Frozen):
    """One port. None, or an absent class, means: not ours (desired) or not read (actual)."""

    unsaid: ClassVar[frozenset[str]] = frozenset(
        {"dscp_priorities", "priority_classes", "pfc_priorities", "lossless_buffers", "bindings"}
    )
    admin_up: bool | None = None
    mtu_bytes: int | None = None
    mode: Literal["access", "trunk", "hybrid", "routed"] | None = None
    """`routed`, in no bridge as Cumulus ports are at first, is found and put back, never wanted."""
    access_vlan: int | None = None
    trunk_vlans: Literal["all"] | tuple[int, ...] | None = None
    """Allowed VLANs of a trunk or hybrid port that we own, ascending; others stay.

    `all` is found on devices and put back, never wanted.
    """
    trust: Literal["L2", "L3", "both", "port"] | None = None
    ecn: dict[int, EcnState | None] = {}
    """Traffic class to thresholds; None: ECN is off there."""
    pfc: bool | None = None
    strict_classes: tuple[int, ...] | None = None
    """Traffic classes served strictly that we own (the CNP class)."""
    wrr_weights: dict[int, int] = {}
    """Weights of the classes that are not strict: found on devices, to put them back."""
    implied: tuple[str, ...] | None = None
    """Settings (`admin_up`, `mtu_bytes`) that stand nowhere in the configuration, so that the
    system's default gives them, and `rest` where nobody wrote anything that is not named here:
    found on Cumulus, to leave nothing behind. None: no matter.
    """
    dscp_priorities: dict[int, int] = {}
    """DSCP to switch priority, for the DSCPs that we own; SONiC's own map has other ones."""
    priority_classes: dict[int, int] = {}
    """Switch priority to traffic class, for the priorities that we own, on SONiC."""
    pfc_priorities: tuple[int, ...] | None = None
    """Priorities that this port pauses, where the system has them a port (SONiC)."""
    lossless_buffers: tuple[int, ...] | None = None
    """Priorities that we own with a lossless buffer on this port (SONiC)."""
    bindings: dict[str, dict[str, str]] = {}
    """Setting (`trust`, `ecn_3`) to the system's own words for it, as found on SONiC, where one
    setting hangs on names of tables: found on devices, to put them back; never wanted."""


class SwitchState(_Frozen):
    """One switch."""

    unsaid: ClassVar[frozenset[str]] = frozenset({"rows", "held_rows"})
    vlans: tuple[int, ...] = ()
    """VLANs that must exist, ascending (actual: all that exist)."""
    pfc_priorities: tuple[int, ...] | None = None
    """Switch priorities with PFC enabled globally; None: PFC is not ours."""
    pfc_enabled: bool | None = None
    """The global PFC switch; None: not ours."""
    roce: (
        Literal[
            "none", "lossless", "semi-lossless", "lossy", "lossless-single-ipool", "lossy-multi-tc"
        ]
        | None
    ) = None
    """The one-shot RoCE mode where the system has one; None: not ours.

    `semi-lossless` is Onyx', the last two are Cumulus': found and put back, never wanted.
    """
    ports: dict[str, PortState] = {}
    implied: tuple[str, ...] | None = None
    """`bridge` where no bridge stands in the configuration, `rest` where nothing of it but VLANs
    does: as a port's `implied`."""
    rows: dict[str, dict[str, str]] | None = None
    """Rows of tables that bear our name, or that the system makes of what we set: found on SONiC,
    to leave none behind. None: no matter."""
    held_rows: tuple[str, ...] = ()
    """Those of `rows` that a port uses which was not asked for."""

    def settings(self) -> dict[tuple[str, str], str]:
        """Flat (where, setting) to text, for diffs that people read."""
        flat = {("switch", f"vlan_{vlan}"): "present" for vlan in self.vlans}
        if self.pfc_priorities is not None:
            flat["switch", "pfc_priorities"] = ",".join(map(str, self.pfc_priorities)) or "none"
        if self.pfc_enabled is not None:
            flat["switch", "pfc"] = "on" if self.pfc_enabled else "off"
        if self.roce is not None:
            flat["switch", "roce"] = self.roce
        for name, port in self.ports.items():
            flat |= {(f"port {name}", key): text for key, text in _port_settings(port).items()}
        return flat


def _port_settings(port: PortState) -> dict[str, str]:
    flat = {
        key: str(value)
        for key, value in (
            ("mtu_bytes", port.mtu_bytes),
            ("mode", port.mode),
            ("access_vlan", port.access_vlan),
            ("trust", port.trust),
        )
        if value is not None
    }
    if port.admin_up is not None:
        flat["admin_state"] = "up" if port.admin_up else "down"
    if port.pfc is not None:
        flat["pfc"] = "on" if port.pfc else "off"
    flat |= {f"trunk_vlan_{vlan}": "allowed" for vlan in list_vlans(port.trunk_vlans or ())}
    flat |= {f"tc{tc}_schedule": "strict" for tc in port.strict_classes or ()}
    flat |= {f"dscp_{dscp}_priority": str(n) for dscp, n in port.dscp_priorities.items()}
    flat |= {f"priority_{n}_class": str(tc) for n, tc in port.priority_classes.items()}
    flat |= {f"priority_{n}_buffer": "lossless" for n in port.lossless_buffers or ()}
    if port.pfc_priorities is not None:
        flat["pfc_priorities"] = ",".join(map(str, port.pfc_priorities)) or "none"
    for tc, ecn in port.ecn.items():
        flat[f"tc{tc}_ecn_kib"] = str(ecn) if ecn else "off"
    return flat


ALL_VLANS = tuple(range(1, 4095))
"""IEEE 802.1Q: 0 and 4095 are reserved."""


def list_vlans(vlans: Literal["all"] | tuple[int, ...]) -> tuple[int, ...]:
    """Spell out `all`."""
    return ALL_VLANS if vlans == "all" else vlans


def diff_states(actual: SwitchState, desired: SwitchState) -> tuple[Difference, ...]:
    """The wanted settings that the switch does not have; what we do not own is not compared."""
    return diff_settings(actual.settings(), desired.settings())
