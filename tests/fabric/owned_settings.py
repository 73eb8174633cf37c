"""What the plain cases of targets want: a port and a BGP with every setting of ours."""

from __future__ import annotations

from typing import Any, Final

from components.fabric.state import BgpState, EcnState, PortState, SwitchState

OURS: Final = EcnState(min_kib=150, max_kib=1500)
OWNED: Final = PortState(
    admin_up=True,
    mtu_bytes=9216,
    mode="trunk",
    trunk_vlans=(111, 112),
    trust="L3",
    ecn={3: OURS, 4: OURS},
    pfc=True,
    pfc_priorities=(3,),
    strict_classes=(6, 7),
    pfc_watchdog=True,
    cable_m=40,
    rewrite_dscp=False,
)
"""A port with every setting that an undo puts back."""
BGP: Final = BgpState(
    asn=65001,
    router_id="10.255.0.1",
    neighbors={"swp1": "external", "swp2": "external"},
    networks=("10.1.0.0/24", "10.2.0.0/24"),
)


def only(**port: Any) -> SwitchState:  # noqa: ANN401 - any setting of a port
    return SwitchState(ports={"1/1": PortState(**port)})
