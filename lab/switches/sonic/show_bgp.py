"""What `show ip …` prints of BGP and routes, asked of the real FRR.

sonic-utilities ask vtysh: `show ip bgp neighbors` and `show runningconfiguration bgp` print what it
says, `show ip bgp summary` makes a table of its JSON (show/bgp_frr_v4.py, utilities_common/
bgp_util.py and tests/bgp_commands_test.py), and `show ip route` writes FRR's own text again.
"""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, Field, TypeAdapter

from lab.switches.emulators import Daemons
from lab.switches.sonic.show import table

_HEADER: Final = (
    *("Neighbhor", "V", "AS", "MsgRcvd", "MsgSent", "TblVer", "InQ", "OutQ", "Up/Down"),
    *("State/PfxRcd", "NeighborName"),
)
"""As it is spelled there."""
_PASSED_ON: Final = {
    ("ip", "route"): "show ip route",
    ("ip", "bgp", "neighbors"): "show ip bgp neighbors",
    ("runningconfiguration", "bgp"): "show running-config bgpd",
}
_SUMMARY: Final = ("ip", "bgp", "summary")


class _Peer(BaseModel):
    version: int = 4
    number: int = Field(alias="remoteAs")
    received: int = Field(alias="msgRcvd")
    sent: int = Field(alias="msgSent")
    table: int = Field(alias="tableVersion", default=0)
    inq: int = 0
    outq: int = 0
    up: str = Field(alias="peerUptime")
    prefixes: int = Field(alias="pfxRcd", default=0)
    state: str
    description: str = Field(alias="desc", default="NotAvailable")


class _Summary(BaseModel):
    router: str = Field(alias="routerId")
    number: int = Field(alias="as")
    vrf: int = Field(alias="vrfId", default=0)
    version: int = Field(alias="tableVersion")
    entries: int = Field(alias="ribCount")
    entry_bytes: int = Field(alias="ribMemory")
    count: int = Field(alias="peerCount")
    peer_bytes: int = Field(alias="peerMemory")
    peers: dict[str, _Peer] = {}


_ANSWER: Final = TypeAdapter(dict[str, _Summary])


def tell(frr: Daemons | None, words: list[str]) -> str | None:
    """The answer to `show` with these words; None: it is no question for FRR, or there is none."""
    if frr is None:
        return None
    if tuple(words) == _SUMMARY:
        _, text = frr.vtysh("-c", "show ip bgp summary json")
        found = _ANSWER.validate_json(text).get("ipv4Unicast")
        return _summary(found) if found else "IPv4 Unicast Summary:\nNo BGP neighbors found\n"
    for head, question in _PASSED_ON.items():
        if tuple(words[: len(head)]) == head:
            return frr.vtysh("-c", " ".join((question, *words[len(head) :])))[1]
    return None


def _summary(found: _Summary) -> str:
    rows = [
        tuple(map(str, (
            name, peer.version, peer.number, peer.received, peer.sent, peer.table, peer.inq,
            peer.outq, peer.up, peer.prefixes if peer.state == "Established" else peer.state,
            peer.description,
        )))
        for name, peer in sorted(found.peers.items())
    ]  # fmt: skip
    return (
        "\nIPv4 Unicast Summary:\n"
        f"BGP router identifier {found.router}, local AS number {found.number} vrf-id {found.vrf}\n"
        f"BGP table version {found.version}\n"
        f"RIB entries {found.entries}, using {found.entry_bytes} bytes of memory\n"
        f"Peers {found.count}, using {found.peer_bytes} KiB of memory\n\n\n"
        f"{table(_HEADER, rows)}\nTotal number of neighbors {len(rows)}\n"
    )
