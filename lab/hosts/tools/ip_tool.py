"""iproute2's `ip` for the host's own interfaces: `link`, `addr`, and the reading forms around them.

Texts: iproute2 6.1 and the kernel's answers through RTNETLINK.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from components.core.record import record
from lab.hosts.model import HostModel
from lab.hosts.nic import DeviceRefusal, Nic, Vf
from lab.hosts.tools.call import ToolCall, ToolResult
from lab.hosts.tools.ip_routes import MANAGEMENT, drop_routes, ip_neigh, ip_route, ip_rule
from lab.hosts.tools.ip_vf import set_vf, show_vf
from lab.hosts.tools.options import split_options

HELP = "Usage: ip [ OPTIONS ] OBJECT { COMMAND | help }\n"


@record
class Link:
    """One interface as `ip link` shows it."""

    index: int
    name: str
    mtu_bytes: int
    up: bool
    carrier: bool
    mac: str
    addresses: tuple[str, ...] = ()
    nic: Nic | None = None
    vf: Vf | None = None


def links(model: HostModel) -> list[Link]:
    """All interfaces of the host: lo, the management port, the PFs, the VFs."""
    own = (model.config.address, model.config.node_address)
    found = [
        Link(1, "lo", 65536, up=True, carrier=True, mac="00:00:00:00:00:00",
             addresses=("127.0.0.1/8",)),
        Link(2, MANAGEMENT, 1500, up=True, carrier=True, mac="0c:42:a1:00:00:01",
             addresses=tuple(f"{each}/24" for each in own if each)),
    ]  # fmt: skip
    for nic in model.nics:
        found.append(
            Link(len(found) + 1, nic.config.netdev, nic.mtu_bytes, nic.admin_up, nic.link_up,
                 nic.mac, tuple(nic.addresses), nic=nic)
        )  # fmt: skip
    for nic, vf in model.all_vfs():
        found.append(
            Link(len(found) + 1, vf.netdev, vf.mtu_bytes, vf.admin_up, vf.admin_up and nic.link_up,
                 vf.mac, nic=nic, vf=vf)
        )  # fmt: skip
    return found


OPTIONS = ("-j", "-json", "-4", "-6", "-br", "-brief", "-o", "-oneline", "-d", "-details", "-p",
           "-V", "-Version")  # fmt: skip


def ip(call: ToolCall) -> ToolResult:
    """Run one `ip` command."""
    parsed = split_options(call.argv, (), OPTIONS, mixed=False)
    if isinstance(parsed, str):
        text = f'Option "{parsed}" is unknown, try "ip -help".\n'
        return call.unmodelled(ToolResult(255, err=text))
    if parsed.has("-V", "-Version"):
        return ToolResult(out="ip utility, iproute2-6.1.0, libbpf 1.1.0\n")
    if not parsed.words:
        return ToolResult(255, err=HELP)
    options = {name for name, _ in parsed.given}
    area, rest = parsed.words[0], list(parsed.words[1:])
    objects: dict[str, Callable[[], ToolResult]] = {
        "link": lambda: _link(call, rest, options),
        "address": lambda: _address(call, rest, options),
        "addr": lambda: _address(call, rest, options),
        "route": lambda: ip_route(call, rest),
        "rule": lambda: ip_rule(call, rest),
        "neighbour": lambda: ip_neigh(call, rest),
    }
    chosen = next((run for name, run in objects.items() if name.startswith(area)), None)
    if chosen is not None:
        return chosen()
    text = f'Object "{area}" is unknown, try "ip help".\n'
    return call.unmodelled(ToolResult(1, err=text))


def _link(call: ToolCall, words: list[str], options: set[str]) -> ToolResult:
    verb, rest = (words[0], words[1:]) if words else ("show", [])
    if verb in ("show", "list", "ls"):
        return _show(call, rest, options, with_addresses=False)
    if verb == "set":
        return _set(call, rest)
    text = f'Command "{verb}" is unknown, try "ip link help".\n'
    return call.unmodelled(ToolResult(255, err=text))


def _selected(call: ToolCall, words: list[str]) -> list[Link] | ToolResult:
    names = [word for word in words if word not in ("dev", "up")]
    found = links(call.model)
    if not names:
        return found
    chosen = [link for link in found if link.name == names[0]]
    if not chosen:
        return ToolResult(1, err=f'Device "{names[0]}" does not exist.\n')
    return chosen


def _show(
    call: ToolCall, words: list[str], options: set[str], *, with_addresses: bool
) -> ToolResult:
    chosen = _selected(call, words)
    if isinstance(chosen, ToolResult):
        return chosen
    if {"-j", "-json"} & options:
        return ToolResult(
            out=json.dumps([_as_json(link, with_addresses) for link in chosen]) + "\n"
        )
    if {"-br", "-brief"} & options:
        return ToolResult(out="".join(_brief(link, with_addresses) for link in chosen))
    if with_addresses and {"-o", "-oneline"} & options:
        return ToolResult(out="".join(map(_one_line_each, chosen)))
    return ToolResult(out="".join(_as_text(link, with_addresses) for link in chosen))


def _one_line_each(link: Link) -> str:
    """One line for each address of an interface: iproute2's `-oneline`."""
    tail = "\\       valid_lft forever preferred_lft forever"
    return "".join(
        f"{link.index}: {link.name}    inet {cidr} scope global {link.name}{tail}\n"
        for cidr in link.addresses
    )


def _brief(link: Link, with_addresses: bool) -> str:  # noqa: FBT001 - private renderer
    tail = " ".join(link.addresses) if with_addresses else link.mac
    return f"{link.name:<16} {_state(link):<14} {tail} \n"


def _state(link: Link) -> str:
    if link.name == "lo":
        return "UNKNOWN"
    return "UP" if link.carrier else "DOWN"


def _flags(link: Link) -> list[str]:
    if link.name == "lo":
        return ["LOOPBACK", "UP", "LOWER_UP"]
    flags = ["BROADCAST", "MULTICAST"]
    if link.up:
        flags += ["UP", "LOWER_UP"] if link.carrier else ["UP"]
        flags = flags if link.carrier else ["NO-CARRIER", *flags]
    return flags


def _as_text(link: Link, with_addresses: bool) -> str:  # noqa: FBT001 - a flag of a private renderer
    kind = "loopback" if link.name == "lo" else "ether"
    text = (
        f"{link.index}: {link.name}: <{','.join(_flags(link))}> mtu {link.mtu_bytes} qdisc "
        f"{'noqueue' if link.name == 'lo' else 'mq'} state {_state(link)} "
        f"{'' if with_addresses else 'mode DEFAULT '}group default qlen 1000\n"
        f"    link/{kind} {link.mac} brd ff:ff:ff:ff:ff:ff\n"
    )
    if with_addresses:
        for cidr in link.addresses:
            text += f"    inet {cidr} scope global {link.name}\n"
            text += "       valid_lft forever preferred_lft forever\n"
    elif link.nic is not None and link.vf is None:
        text += "".join(show_vf(link.nic, vf) for vf in link.nic.vfs)
    return text


def _as_json(link: Link, with_addresses: bool) -> dict[str, object]:  # noqa: FBT001 - private renderer
    answer: dict[str, object] = {
        "ifindex": link.index,
        "ifname": link.name,
        "flags": _flags(link),
        "mtu": link.mtu_bytes,
        "operstate": _state(link),
        "link_type": "loopback" if link.name == "lo" else "ether",
        "address": link.mac,
    }
    if with_addresses:
        answer["addr_info"] = [
            {"family": "inet", "local": cidr.split("/")[0], "prefixlen": int(cidr.split("/")[1])}
            for cidr in link.addresses
        ]
    elif link.nic is not None and link.vf is None and link.nic.vfs:
        answer["vfinfo_list"] = [
            {"vf": vf.index, "address": vf.admin_mac,
             "vlan_list": [{"vlan": vf.vlan, "qos": vf.qos}], "spoofchk": vf.spoofchk,
             "link_state": vf.link_state, "trust": vf.trust}
            for vf in link.nic.vfs
        ]  # fmt: skip
    return answer


def _set(call: ToolCall, words: list[str]) -> ToolResult:
    names = words[1:] if words[:1] == ["dev"] else words
    if not names:
        return ToolResult(255, err='Not enough of information: "dev" argument is required.\n')
    link = next((found for found in links(call.model) if found.name == names[0]), None)
    if link is None:
        return ToolResult(1, err=f'Cannot find device "{names[0]}"\n')
    if call.uid:
        return ToolResult(2, err="RTNETLINK answers: Operation not permitted\n")
    rest = names[1:]
    while rest:
        outcome = _set_one(call, link, rest)
        if isinstance(outcome, ToolResult):
            return outcome
        rest = rest[outcome:]
    return ToolResult()


def _set_one(call: ToolCall, link: Link, rest: list[str]) -> int | ToolResult:
    word = rest[0]
    if word in ("up", "down"):
        return _set_up(call, link, up=word == "up")
    if word == "mtu" and len(rest) > 1:
        return _set_mtu(link, rest[1])
    if word == "vf" and len(rest) > 3:  # noqa: PLR2004 - vf INDEX SETTING VALUE
        return set_vf(call, None if link.vf else link.nic, rest[1:])
    text = f'Error: either "dev" is duplicate, or "{word}" is a garbage.\n'
    return call.unmodelled(ToolResult(255, err=text))


def _set_up(call: ToolCall, link: Link, *, up: bool) -> int | ToolResult:
    if link.vf is not None:
        link.vf.admin_up = up
    elif link.nic is not None:
        link.nic.admin_up = up
        if not up:
            drop_routes(call.model, link.nic)
    else:
        return ToolResult(2, err="RTNETLINK answers: Operation not permitted\n")
    return 1


def _set_mtu(link: Link, text: str) -> int | ToolResult:
    if not text.isdigit():
        return ToolResult(255, err=f'Error: argument "{text}" is wrong: Invalid "mtu" value\n\n')
    try:
        if link.vf is not None and link.nic is not None:
            if int(text) > link.nic.mtu_bytes:
                return ToolResult(2, err="RTNETLINK answers: Invalid argument\n")
            link.vf.mtu_bytes = int(text)
        elif link.nic is not None:
            link.nic.set_mtu(text)
        else:
            return ToolResult(2, err="RTNETLINK answers: Operation not permitted\n")
    except DeviceRefusal:
        return ToolResult(2, err="Error: mtu greater than device maximum.\n")
    return 2


def _address(call: ToolCall, words: list[str], options: set[str]) -> ToolResult:
    verb, rest = (words[0], words[1:]) if words else ("show", [])
    if verb in ("show", "list", "ls"):
        return _show(call, rest, options, with_addresses=True)
    if verb not in ("add", "del", "replace") or len(rest) < 3 or "dev" not in rest:  # noqa: PLR2004 - CIDR dev NAME
        text = f'Command "{verb}" is unknown, try "ip address help".\n'
        return call.unmodelled(ToolResult(255, err=text))
    name = rest[rest.index("dev") + 1]
    nic = call.model.nic_by_netdev(name)
    if nic is None:
        return ToolResult(1, err=f'Cannot find device "{name}"\n')
    if call.uid:
        return ToolResult(2, err="RTNETLINK answers: Operation not permitted\n")
    return _change_address(call, nic, verb, rest[0] if "/" in rest[0] else f"{rest[0]}/32")


def _change_address(call: ToolCall, nic: Nic, verb: str, cidr: str) -> ToolResult:
    if verb == "del":
        if cidr not in nic.addresses:
            return ToolResult(2, err="RTNETLINK answers: Cannot assign requested address\n")
        nic.addresses.remove(cidr)
        drop_routes(call.model, nic, cidr.split("/", maxsplit=1)[0])
    elif cidr not in nic.addresses:
        nic.addresses.append(cidr)
    elif verb == "add":
        return ToolResult(2, err="RTNETLINK answers: File exists\n")
    return ToolResult()
