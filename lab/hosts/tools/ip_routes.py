"""`ip rule` and `ip route` with tables. Texts: iproute2 6.1 and the kernel's answers."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface

from lab.hosts.model import HostModel
from lab.hosts.nic import Nic
from lab.hosts.platform import Platform, Route
from lab.hosts.tools.call import ToolCall, ToolResult

MANAGEMENT = "eno1"
_DENIED = ToolResult(2, err="RTNETLINK answers: Operation not permitted\n")


def ip_rule(call: ToolCall, words: list[str]) -> ToolResult:
    """`ip rule [show]`, `ip rule add|del [pref N] [from A] [lookup T]`."""
    platform = call.model.platform
    if words[:1] in ([], ["show"], ["list"], ["ls"]):
        return ToolResult(out="".join(f"{n}:\t{text}\n" for n, text in platform.all_rules()))
    pairs = dict(zip(words[1::2], words[2::2], strict=False))
    pref = pairs.get("pref") or pairs.get("priority") or pairs.get("prio") or ""
    if words[0] not in ("add", "del") or not pref.isdigit() or len(words) % 2 == 0:
        text = f'Error: argument "{words[-1]}" is wrong: Failed to parse rule type\n'
        return call.unmodelled(ToolResult(255, err=text))
    return _DENIED if call.uid else _change_rule(platform, words[0], int(pref), pairs)


def _change_rule(platform: Platform, verb: str, pref: int, pairs: dict[str, str]) -> ToolResult:
    if verb == "del":
        rule = next((each for each in platform.rules if each[0] == pref), None)
        if rule is None:
            return ToolResult(2, err="RTNETLINK answers: No such file or directory\n")
        platform.rules.remove(rule)
        return ToolResult()
    table = pairs.get("lookup") or pairs.get("table") or "main"
    added = (pref, f"from {pairs.get('from', 'all')} lookup {table}")
    if added in platform.rules:
        return ToolResult(2, err="RTNETLINK answers: File exists\n")
    platform.rules.append(added)
    return ToolResult()


def ip_neigh(call: ToolCall, words: list[str]) -> ToolResult:
    """`ip neigh show to A dev L` and `ip neigh flush to A dev L` of the management network.

    Source: iproute2 6.1, ipneigh.c: the interface that was asked for is not in the answer.
    """
    pairs = dict(zip(words[1::2], words[2::2], strict=False))
    if words[:1] not in (["show"], ["flush"]) or pairs.keys() != {"to", "dev"}:
        text = f'Command "{" ".join(words)}" is unknown, try "ip neigh help".\n'
        return call.unmodelled(ToolResult(255, err=text))
    mac = call.model.platform.neighbours.get(pairs["to"])
    if words[0] == "flush":
        return _DENIED if call.uid else ToolResult(out="" if mac else "Nothing to flush.\n")
    known = mac is not None and pairs["dev"] == MANAGEMENT
    return ToolResult(out=f"{pairs['to']} lladdr {mac} REACHABLE \n" if known else "")


def ip_route(call: ToolCall, words: list[str]) -> ToolResult:
    """`ip route show|add|del|flush` with `table`, and `ip route get`."""
    verb, rest = (words[0], words[1:]) if words else ("show", [])
    if verb in ("show", "list", "ls") and rest[:1] in ([], ["table"]) and len(rest) != 1:
        return _show(call.model, rest[1] if rest else "main")
    if verb in ("show", "list", "ls") and rest == ["default"]:
        lines = _show(call.model, "main").out.splitlines(keepends=True)
        return ToolResult(out="".join(line for line in lines if line.startswith("default ")))
    if verb == "get" and rest:
        return ToolResult(
            out=f"{rest[0]} dev {MANAGEMENT} src {call.model.config.address} uid {call.uid}\n"
            "    cache\n"
        )
    if verb not in ("add", "del", "flush") or "table" not in rest[:-1]:
        text = f'Command "{verb}" is unknown, try "ip route help".\n'
        return call.unmodelled(ToolResult(255, err=text))
    if call.uid:
        return _DENIED
    at = rest.index("table")
    return _change(call.model, verb, rest[at + 1], (*rest[:at], *rest[at + 2 :]))


def _show(model: HostModel, table: str) -> ToolResult:
    network = model.config.address.rpartition(".")[0]
    main = (
        f"default via {network}.1 dev {MANAGEMENT} proto static\n"
        f"{network}.0/24 dev {MANAGEMENT} proto kernel scope link src {model.config.address}\n"
    )
    connected = "".join(
        f"{IPv4Interface(cidr).network} dev {nic.config.netdev} proto kernel scope link "
        f"src {cidr.split('/')[0]}{'' if nic.link_up else ' linkdown'}\n"
        for nic in model.nics
        if nic.admin_up
        for cidr in nic.addresses
    )
    own = [route for route in model.platform.routes if table in (route.table, "all")]
    lines = "".join(_line(model, route, with_table=table == "all") for route in own)
    if table == "main":
        return ToolResult(out=main + connected)
    if table == "all":
        local = f"local {model.config.address} dev {MANAGEMENT} table local proto kernel "
        local += f"scope host src {model.config.address}\n"
        return ToolResult(out=lines + main + connected + local)
    if not own:
        text = "Error: ipv4: FIB table does not exist.\nDump terminated\n"
        return ToolResult(2, err=text)
    return ToolResult(out=lines)


def _line(model: HostModel, route: Route, *, with_table: bool) -> str:
    words = list(route.words)
    if with_table:
        at = words.index("dev") + 2 if "dev" in words else 1
        words[at:at] = ["table", route.table]
    nic = model.nic_by_netdev(route.value("dev"))
    state = " linkdown" if nic is not None and not nic.link_up else ""
    return " ".join(words) + f"{state} \n"


def _change(model: HostModel, verb: str, table: str, words: tuple[str, ...]) -> ToolResult:
    platform = model.platform
    own = [route for route in platform.routes if route.table == table]
    if verb == "flush":
        if not own:
            text = "Error: ipv4: FIB table does not exist.\nFlush terminated\n"
            return ToolResult(2, err=text)
        platform.routes = [route for route in platform.routes if route.table != table]
        return ToolResult()
    same = next((route for route in own if route.words[:1] == words[:1]), None)
    if verb == "del":
        if same is None:
            return ToolResult(2, err="RTNETLINK answers: No such process\n")
        platform.routes.remove(same)
        return ToolResult()
    if same is not None:
        return ToolResult(2, err="RTNETLINK answers: File exists\n")
    return _add(model, Route(table, words))


def _add(model: HostModel, route: Route) -> ToolResult:
    device = route.value("dev")
    nic = model.nic_by_netdev(device)
    if nic is None and device != MANAGEMENT:
        return ToolResult(1, err=f'Cannot find device "{device}"\n')
    if nic is not None:
        refused = _refuse(nic, route)
        if refused:
            return ToolResult(2, err=refused)
    model.platform.routes.append(route)
    return ToolResult()


def _refuse(nic: Nic, route: Route) -> str:
    if not nic.admin_up:
        return "Error: Device for nexthop is not up.\n"
    source, via = route.value("src"), route.value("via")
    if source and source not in [cidr.split("/")[0] for cidr in nic.addresses]:
        return "Error: Invalid prefsrc address.\n"
    if via and not any(IPv4Address(via) in IPv4Interface(c).network for c in nic.addresses):
        return "Error: Nexthop has invalid gateway.\n"
    return ""


def drop_routes(model: HostModel, nic: Nic, address: str | None = None) -> None:
    """What the kernel does when a link goes down, or when an address is taken away.

    Args:
        model: The host.
        nic: The card.
        address: The address; None for all routes of the link.
    """
    model.platform.routes = [
        route
        for route in model.platform.routes
        if route.value("dev") != nic.config.netdev
        or (address is not None and route.value("src") != address)
    ]
