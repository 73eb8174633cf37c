"""`nft` with tables that are one set and one chain: all that a host's filter before the API is.

Texts and the form of a listing: recorded from nftables 1.0.6 of Debian 12. Nothing is filtered
here, since every connection of the lab comes from 127.0.0.1.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Network, NetmaskValueError
from itertools import pairwise

from lab.hosts.tools.call import ToolCall, ToolResult, needs_root

_TABLE = r"table inet (\w+)"
_WHOLE = re.compile(
    _TABLE + r" \{ set (\w+) \{ type ipv4_addr flags interval elements = \{ ([0-9./, ]+) \} \}"
    r" chain input \{ type filter hook input priority (-?\d+); policy accept;"
    r' iifname "lo" accept'
    r" meta nfproto ipv4 tcp dport (\d+) ip saddr != @(\w+) drop"
    r" meta nfproto ipv6 tcp dport (\d+) drop \} \}"
)
_A_LINE = 2
"""Addresses on one line of a listed set."""
_DENIED = (
    "Operation not permitted (you must be root)\n"
    "netlink: Error: cache initialization failed: Operation not permitted\n"
)


def nft(call: ToolCall) -> ToolResult:
    """`nft [-c] -f FILE`, `nft list table inet NAME`, `nft delete table inet NAME`."""
    words = list(call.argv)
    if (refused := needs_root(call, _DENIED)) is not None:
        return refused
    trial = words[:1] == ["-c"]
    if words[trial : trial + 1] == ["-f"] and len(words) == trial + 2:
        return _load(call, words[-1], trial=trial)
    asked = re.fullmatch(rf"(list|delete) {_TABLE}", " ".join(words))
    if asked is None:
        return call.unmodelled(ToolResult(1, err="Error: syntax error, unexpected string\n"))
    tables, name = call.model.platform.nft, asked[2]
    if name not in tables:
        reason = "" if asked[1] == "list" else "Could not process rule: "
        line = " ".join(words)
        mark = f"{' ' * line.rindex(name)}{'^' * len(name)}"
        return ToolResult(1, err=f"Error: {reason}No such file or directory\n{line}\n{mark}\n")
    if asked[1] == "list":
        return ToolResult(out=tables[name])
    del tables[name]
    return ToolResult()


def _load(call: ToolCall, path: str, *, trial: bool) -> ToolResult:
    """All statements of a file, or none of them."""
    file = call.host_path(path)
    if path != "-" and not file.is_file():
        words = f'internal:0:0-0: Error: Could not open file "{path}": No such file or directory'
        return ToolResult(1, err=f"{words}\n\n\n")
    tables = dict(call.model.platform.nft)
    text = "".join(iter(call.stdin_text, "")) if path == "-" else file.read_text()
    rest = " ".join(text.split())
    while rest:
        whole, bare = _WHOLE.match(rest), re.match(rf"(delete )?{_TABLE}(?= \w|$)", rest)
        if whole is not None:
            listed = _listing(whole)
            if listed.startswith("Error"):
                return ToolResult(1, err=f"{path}:1:1-1: {listed}\n")
            tables[whole[1]] = listed
        elif bare is not None and bare[1]:
            del tables[bare[2]]
        elif bare is not None:
            tables.setdefault(bare[2], f"table inet {bare[2]} {{\n}}\n")
        else:
            refused = ToolResult(1, err=f"{path}:1:1-1: Error: syntax error, unexpected string\n")
            return call.unmodelled(refused)
        rest = rest[(whole or bare).end() :].lstrip()  # pyright: ignore[reportOptionalMemberAccess] - one of them is there
    if not trial:
        call.model.platform.nft.clear()
        call.model.platform.nft.update(tables)
    return ToolResult()


def _listing(whole: re.Match[str]) -> str:
    """The table as nft lists it, or its own words for what it refuses."""
    name, allowed, elements, priority, port, used, port6 = whole.groups()
    if used != allowed:
        return "Error: No such file or directory"
    try:
        networks = sorted(IPv4Network(each.strip(), strict=False) for each in elements.split(","))
    except (AddressValueError, NetmaskValueError):
        return "Error: Could not parse IPv4 address"
    if any(after.overlaps(before) for before, after in pairwise(networks)):
        return "Error: conflicting intervals specified"
    texts = [str(each).removesuffix("/32") for each in networks]
    rows = [", ".join(texts[at : at + _A_LINE]) for at in range(0, len(texts), _A_LINE)]
    number = int(priority)
    where = f"filter {'-' if number < 0 else '+'} {abs(number)}" if number else "filter"
    return (
        f"table inet {name} {{\n"
        f"\tset {allowed} {{\n\t\ttype ipv4_addr\n\t\tflags interval\n"
        f"\t\telements = {{ {(',' + chr(10) + chr(9) * 3 + ' ' * 5).join(rows)} }}\n\t}}\n\n"
        f"\tchain input {{\n"
        f"\t\ttype filter hook input priority {where}; policy accept;\n"
        f'\t\tiifname "lo" accept\n'
        f"\t\ttcp dport {port} ip saddr != @{used} drop\n"
        f"\t\tmeta nfproto ipv6 tcp dport {port6} drop\n"
        "\t}\n}\n"
    )
