"""The output of `nv show …` and `nv config show`.

Sources: lab/sources.md#cumulus. `nv show qos roce` is the vendor's transcript. The JSON of the
counters is a guess: the keys of the text form, with whole numbers, as a public client reads
`egress-queue-stats`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

from pydantic import JsonValue

from lab.switches.cumulus.config import Stored, Tree, admin_up, child, mtu_bytes, roce_mode
from lab.switches.neighbours import Told
from lab.switches.stored import Chassis
from lab.switches.text import collapse, columns, indented, numbers
from lab.views import RouterView, SessionView

if TYPE_CHECKING:
    from lab.switches.cumulus.server import CumulusSwitch

RELEASE: Final = "5.9.2"
ROCE_PRIORITY: Final = 3
CNP_PRIORITY: Final = 6


def show_config(tree: Tree, release: str = RELEASE) -> str:
    """`nv config show -o json`: a header, and the tree with its equal neighbours grouped."""
    header: Tree = {
        "model": "mqm",
        "nvue-api-version": "nvue_v1",
        "rev-id": 1.0,
        "version": f"Cumulus Linux {release}",
    }
    return indented([{"header": header}, {"set": grouped(tree)}])


def show_router(stored: Stored) -> str:
    """`nv show router bgp`: the vendor's transcript, page "Troubleshooting BGP"."""
    trees = [stored.applied, *([stored.pending] if stored.pending is not None else [])]
    found = [child(tree, "router", "bgp") for tree in trees]
    rows = [["", "applied", "pending"][: len(trees) + 1], ["-" * 30, *["-" * 11] * len(trees)]]
    for key, was in _ROUTER_DEFAULTS.items():
        rows.append([key, *(str(each.get(key, was)) for each in found)])
    return columns(rows, 32, 13)


_ROUTER_DEFAULTS: Final = {
    "enable": "off",
    "autonomous-system": "none",
    "router-id": "none",
    "policy-update-timer": "5",
    "graceful-shutdown": "off",
}


def show_platform(model: str) -> str:
    """`nv show platform -o json` of 5.9 and later: the keys of the text form, a guess."""
    name = f"M{model}"
    shown = {"manufacturer": "Mellanox", "model": name, "product-name": name}
    return indented(shown)


def show_eeprom(chassis: Chassis) -> str:
    """`decode-syseeprom`, in the form of the guide's example."""
    digits = chassis.base_mac.upper()
    mac = ":".join(digits[start : start + 2] for start in range(0, len(digits), 2))
    rows = (("Serial Number", "0x23", chassis.serial), ("Base MAC Address", "0x24", mac))
    lines = [
        f"{name:<20} {code} {6 if ':' in value else len(value):>3} {value}\n"
        for name, code, value in rows
    ]
    head = "TlvInfo Header:\n    Id String:    TlvInfo\n    Version:      1\n"
    table = "TLV Name             Code Len Value\n-------------------- ---- --- -----\n"
    return f"{head}    Total Length: 114\n{table}{''.join(lines)}(checksum valid)\n"


def grouped(tree: Tree) -> Tree:
    """Put entries with equal content under one key: `swp1,51-54`, `vlan10,20`, `111-112`.

    The common prefix of the names is printed once (tests/fabric/forms/README.md).
    """
    shown: Tree = {}
    for key, value in tree.items():
        below = grouped(value) if isinstance(value, dict) else value
        if key in {"interface", "neighbor", "vlan"} and isinstance(below, dict):
            below = _group_keys(below)
        shown[key] = below
    return shown


def _group_keys(table: Tree) -> Tree:
    groups: dict[tuple[str, str], list[int]] = {}
    shown: Tree = {}
    for name, value in table.items():
        found = re.fullmatch(r"([a-z]*)(\d+)", name)
        if found is None:
            shown[name] = value
        else:
            group = (found[1], json.dumps(value, sort_keys=True))
            groups.setdefault(group, []).append(int(found[2]))
    for (prefix, text), members in groups.items():
        shown[f"{prefix}{collapse(members)}"] = cast("JsonValue", json.loads(text))
    return shown


def show_interfaces(switch: CumulusSwitch) -> str:
    """`nv show interface -o json`: the keys that a public napalm driver reads."""
    table: Tree = {"eth0": {"link": {"mtu": 1500, "oper-status": "up"}, "type": "eth"}}
    for port in switch.ports:
        link: Tree = {
            "admin-status": "up" if admin_up(switch.stored.applied, port) else "down",
            "mtu": mtu_bytes(switch.stored.applied, port),
            "oper-status": "up" if switch.up(port) else "down",
        }
        table[port] = {"link": link, "type": "swp"}
    return indented(table)


def show_lldp(heard: Mapping[str, tuple[str, Told]]) -> str:
    """`nv show interface lldp -o json`: the keys that a public client reads."""
    table: Tree = {"eth0": {"link": {"speed": "1G"}, "type": "eth"}}
    for port, (system, far) in heard.items():
        told: Tree = {"name": far.port, "description": far.description}
        chassis: Tree = {"system-name": system}
        neighbor: Tree = {system: {"chassis": chassis, "port": told}}
        table[port] = {"link": {"speed": "100G"}, "lldp": {"neighbor": neighbor}, "type": "swp"}
    return indented(table)


_OFF: Final = """\
                    operational  applied
------------------  -----------  -------
enable                           off
"""
"""A guess, as no transcript shows a switch without the profile; the driver does not use it."""
_PFC: Final = """\
pfc
  pfc-priority      3
  rx-enabled        enabled
  tx-enabled        enabled
  cable-length      100
"""
_NO_PFC: Final = """\
pfc
  pfc-priority      -
"""
_PROFILE: Final = """\
                    operational  applied
------------------  -----------  --------
enable                           on
mode                {mode:<11}  {mode}
{pfc}congestion-control
  congestion-mode   ECN
  enabled-tc        0,3
  min-threshold     146.48 KB
  max-threshold     1.43 MB
  probability       100
trust
  trust-mode        pcp,dscp
lldp-app-tlv
  priority          3
  protocol-id       4791
  selector          UDP
"""


_DESCRIBED_BEFORE: Final = (5, 5)
"""The pages of 5.1, 5.3 and 5.4 show a third column, the page of 5.6 does not; 5.5 is unknown."""
_DESCRIPTIONS: Final = {
    "enable": "Turn the feature 'on' or 'off'.  The default is 'off'.",
    "mode": "Roce Mode",
    "cable-length": "Cable Length(in meters) for Roce Lossless Config",
    "congestion-mode": "Congestion config mode",
    "enabled-tc": "Congestion config enabled Traffic Class",
    "max-threshold": "Congestion config max-threshold",
    "min-threshold": "Congestion config min-threshold",
    "pfc-priority": "switch-prio on which PFC is enabled",
    "rx-enabled": "PFC Rx Enabled status",
    "tx-enabled": "PFC Tx Enabled status",
    "trust-mode": "Trust Setting on the port for packet classification",
}
_WIDTH: Final = 43
"""Columns up to the description."""


def _described(table: str) -> str:
    head, rule, *rows = table.splitlines()
    lines = [f"{head:<{_WIDTH}}description", f"{rule:<{_WIDTH}}{'-' * 54}"]
    lines += [f"{row:<{_WIDTH}}{_DESCRIPTIONS.get(row.split()[0], '')}".rstrip() for row in rows]
    return "\n".join(lines) + "\n"


def show_roce(tree: Tree, release: str) -> str:
    """`nv show qos roce`."""
    mode = roce_mode(tree)
    pfc = _PFC if mode == "lossless" else _NO_PFC
    text = _OFF if mode is None else _PROFILE.format(mode=mode, pfc=pfc)
    if numbers(release) < _DESCRIBED_BEFORE:
        text = _described(text)
    if mode is None:
        return text
    return text + _mapping() + _scheduler(mode) + _EXCEPTIONS


def _mapping() -> str:
    rows = "".join(
        f"    {n}  {n}    {','.join(str(n * 8 + step) for step in range(8)):<23}  {n}\n"
        for n in range(8)
    )
    return f"""
RoCE PCP/DSCP->SP mapping configurations
===========================================
       pcp  dscp                     switch-prio
    -  ---  -----------------------  -----------
{rows}"""


def _scheduler(mode: str) -> str:
    rows = "".join(
        f"    {n}  {n}            {tc}              "
        f"{'strict-priority' if tc == CNP_PRIORITY else 'DWRR-50%'}\n"
        for n, tc in enumerate(priority_to_tc(roce=True))
    )
    lossless = "    3  roce-reserved-egress   Dynamic  inf   -                  3\n"
    return f"""
RoCE SP->TC mapping and ETS configurations
=============================================
       switch-prio  traffic-class  scheduler-weight
    -  -----------  -------------  ----------------
{rows}
RoCE pool config
===================
       name                   mode     size  switch-priorities  traffic-class
    -  ---------------------  -------  ----  -----------------  -------------
    0  lossy-default-ingress  Dynamic  100%  0,1,2,3,4,5,6,7    -
    2  lossy-default-egress   Dynamic  100%  -                  0,6
{lossless if mode == "lossless" else ""}"""


_EXCEPTIONS: Final = "\nException List\n=================\nNo Data\n"
"""The list of ports that differ; no transcript shows an entry, so it stays empty."""


def priority_to_tc(*, roce: bool) -> tuple[int, ...]:
    """Without RoCE each priority has its own class; with it, only RoCE's and the CNPs'."""
    kept = (ROCE_PRIORITY, CNP_PRIORITY)
    return tuple(n if not roce or n in kept else 0 for n in range(8))


def show_roce_counters(switch: CumulusSwitch, port: str) -> str:
    """`nv show interface X qos roce counters -o json`."""
    held = switch.counted(port)
    others = sum(count for priority, count in held.rx_bytes.items() if priority != ROCE_PRIORITY)
    shown: Mapping[str, JsonValue] = {
        "rx-stats": {
            "rx-non-roce-stats": {"no-buffer-discard": held.rx_discards, "non-roce-bytes": others},
            "rx-pfc-stats": {"pause-duration": 0, "pause-packets": 0},
            "rx-roce-stats": {
                "no-buffer-discard": 0,
                "roce-bytes": held.rx_bytes.get(ROCE_PRIORITY, 0),
            },
        },
        "tx-stats": {
            "tx-cnp-stats": {"cnp-bytes": held.tx_bytes.get(CNP_PRIORITY, 0)},
            "tx-ecn-stats": {"ecn-marked-packets": sum(held.ecn_marked.values())},
            "tx-pfc-stats": {"pause-duration": 0, "pause-packets": 0},
            "tx-roce-stats": {"roce-bytes": held.tx_bytes.get(ROCE_PRIORITY, 0)},
        },
    }
    return indented(shown)


def show_queue_counters(switch: CumulusSwitch, port: str) -> str:
    """`nv show interface X counters qos -o json`: the parts that public clients read."""
    held, rows, pauses = switch.counted(port), Tree(), Tree()
    for n in range(8):
        queue: Tree = {"tx-frames": 0, "tx-bytes": held.tx_bytes.get(n, 0)}
        rows[str(n)] = queue | {
            "tx-uc-buffer-discards": held.tx_drops.get(n, 0),
            "wred-discards": 0,
        }
        pauses[str(n)] = {
            "rx-pause-frames": held.rx_pauses.get(n, 0),
            "rx-pause-duration": 0,
            "tx-pause-frames": held.tx_pauses.get(n, 0),
            "tx-pause-duration": 0,
        }
    return indented({"egress-queue-stats": rows, "pfc-stats": pauses})


def show_watchdog(switch: CumulusSwitch, port: str) -> str:
    """`nv show interface X qos pfc-watchdog`: the text of the vendor's page.

    It is a guess that a port without the watchdog lacks the table.
    """
    state = child(switch.stored.applied, "interface", port, "qos", "pfc-watchdog").get("state")
    word = "enabled" if state in {"enable", "enabled"} else "disabled"
    text = f"{'':17}operational  applied \n{'-' * 15}  {'-' * 11}  {'-' * 7} \n"
    text += f"{'state':17}{word:<13}{word:<8}\n"
    if word == "disabled":
        return text
    storms = switch.counted(port).storms
    rows = "".join(f"    {tc:<15}{'OK':<10}{storms.get(tc, 0)} \n" for tc in range(8))
    head = "    traffic-class  status    deadlock-count \n"
    head += f"    {'-' * 13}  {'-' * 8}  {'-' * 14} \n"
    return f"{text}\nPFC WD Status \n{'=' * 27} \n{head}\n{rows}"


def show_diff(stored: Stored) -> str:
    """`nv config diff`: the pending revision's set and unset paths, in the form of NVUE's YAML."""
    applied, pending = stored.applied, stored.pending
    if pending is None:
        return ""
    added, removed = _missing(pending, applied), _missing(applied, pending)
    parts = [("unset", removed)] if removed else []
    parts += [("set", added)] if added else []
    return "".join(f"- {verb}:\n{_yaml(grouped(tree), 4)}" for verb, tree in parts)


def _missing(tree: Tree, other: Tree) -> Tree:
    found: Tree = {}
    for key, value in tree.items():
        held = other.get(key)
        if isinstance(value, dict) and isinstance(held, dict):
            below = _missing(value, held)
            if below:
                found[key] = below
        elif value != held:
            found[key] = value
    return found


def _yaml(tree: Tree, indent: int) -> str:
    lines = ""
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            lines += f"{' ' * indent}{key}:\n{_yaml(value, indent + 2)}"
        else:
            lines += f"{' ' * indent}{key}: {'{}' if value == {} else value}\n"
    return lines


def own_members(tree: Tree, port: str) -> Tree | None:
    """A port's membership in the bridge; None if it is not a member."""
    domains = child(tree, "interface", port, "bridge", "domain")
    found = domains.get("br_default")
    return found if isinstance(found, dict) else None


def show_neighbors(view: RouterView, sessions: Mapping[str, SessionView]) -> str:
    """`nv show vrf default router bgp neighbor -o json`: the keys of the detailed form."""
    table = {
        name: {
            "address-family": {"ipv4-unicast": {"rx-prefix": each.networks}},
            "remote-as": view.neighbors[name],
            "state": "established" if each.up else "idle",
        }
        for name, each in sessions.items()
    }
    return indented(table)
