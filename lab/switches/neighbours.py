"""The information that a switch gets from its neighbours: LLDP, and BGP in the forms of FRR.

Sources: lab/sources.md#cumulus.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from components.core.record import record
from lab.views import BgpView, RouterView, RouteView, SessionView

if TYPE_CHECKING:
    from lab.switches.emulators import Daemons

SUMMARY = "show bgp ipv4 unicast summary json"
BFD = "show bfd peers json"
ROUTES = "show ip route bgp json"


def every_session(view: RouterView, told: Mapping[str, SessionView]) -> dict[str, SessionView]:
    """Each configured neighbour; a silent one has a session that is down."""
    return {
        name: told.get(name, SessionView(bfd=False if name in view.bfd else None))
        for name in view.neighbors
    }


def ask_frr(frr: Daemons) -> dict[str, SessionView]:
    """The sessions of real daemons."""
    _, text = frr.vtysh("-c", SUMMARY)
    peers: dict[str, dict[str, Any]] = json.loads(text).get("peers", {})
    return {
        name: SessionView(up=peer["state"] == "Established", networks=peer.get("pfxRcd", 0))
        for name, peer in peers.items()
    }


def vtysh(words: Sequence[str], view: RouterView, told: BgpView) -> str | None:
    """FRR's answer to `-c QUESTION`s about sessions and routes; None for any other question."""
    found = every_session(view, told.sessions)
    answers = {
        SUMMARY: lambda: _summary(view, found),
        BFD: lambda: _bfd(found),
        ROUTES: lambda: _routes(told.routes),
    }
    if words == ["-c", CONFIGURED]:
        return _configured(view)
    questions = [*words[1::2]]
    if {*words[::2]} != {"-c"} or not all(each in answers for each in questions):
        return None
    return "".join(f"{json.dumps(answers[each]())}\n" for each in questions)


CONFIGURED = "show running-config bgpd"


def _configured(view: RouterView) -> str:
    """The part of FRR's configuration that this question needs (run: FRR 10.3)."""
    lines = ["Building configuration...", "", "Current configuration:", "!"]
    if view.asn is not None:
        lines += [f"router bgp {view.asn}"]
        lines += [" bgp graceful-shutdown"] if view.drained else []
        lines += ["exit", "!"]
    return "\n".join([*lines, "end", ""])


def _routes(found: Sequence[RouteView]) -> object:
    return {
        each.network: [
            {
                "prefix": each.network,
                "protocol": "bgp",
                "selected": True,
                "installed": True,
                "nexthops": [
                    {"fib": True, "interfaceName": port, "active": True, "weight": 1}
                    for port in each.interfaces
                ],
            }
        ]
        for each in found
    }


def _summary(view: RouterView, found: Mapping[str, SessionView]) -> object:
    if view.asn is None:
        return {}
    peers = {
        name: {
            "remoteAs": view.neighbors[name],
            "pfxRcd": each.networks,
            "state": "Established" if each.up else "Idle",
        }
        for name, each in found.items()
    }
    return {"routerId": view.router_id, "as": view.asn, "peers": peers}


def _bfd(found: Mapping[str, SessionView]) -> object:
    return [
        {"peer": name, "interface": name, "status": "up" if each.bfd else "down"}
        for name, each in found.items()
        if each.bfd is not None
    ]


@record
class Told:
    """The announced port and description of one neighbour."""

    port: str
    description: str
    is_switch: bool


def tell(name: str, host_mac: str) -> Told:
    """The port and description that the owner of a port announces.

    A Linux host announces a MAC address as its port and the device as its description, as lldpd
    does by default and as NVUE's reference shows. A switch announces the port's name, Onyx with
    `Eth` before the number. A SONiC switch announces the port's alias and describes it by its name;
    here it uses the name for both.

    Args:
        name: Network device of a host, or port of a switch.
        host_mac: The address as the listening system writes one.
    """
    if name[:1].isdigit():
        return Told(f"Eth{name}", f"Eth{name}", is_switch=True)
    if name.startswith(("swp", "Ethernet")):
        return Told(name, name, is_switch=True)
    return Told(host_mac, name, is_switch=False)
