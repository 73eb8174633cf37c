"""Show commands of the RoCE path: trust, ECN, ETS, PFC, and the one-shot's summary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, cast

from pydantic import JsonValue

from lab.switches.onyx.config import FACTORY_WEIGHTS, ONE_SHOT_ECN, TRAFFIC_CLASSES, Config
from lab.switches.text import columns

if TYPE_CHECKING:
    from lab.switches.onyx.server import OnyxSwitch


def congestion(switch: OnyxSwitch, name: str) -> Iterator[JsonValue]:
    """`show interfaces ethernet 1/1 congestion-control | json-print`: the Ansible fixture."""
    marked = sum(switch.counted(name).ecn_marked.values())
    yield {"Interface ethernet": name, "ECN marked packets": str(marked)}
    held = switch.stored.running.ports[name].congestion
    for tc in TRAFFIC_CLASSES:
        kind, unit, low, high = held.get(tc, ("none", "", 0, 0))
        word = " KB" if unit == "absolute" else "%"
        thresholds: dict[str, JsonValue] = {
            "Threshold mode": unit,
            "Minimum threshold": f"{low}{word}",
            "Maximum threshold": f"{high}{word}",
            "RED dropped packets": "0",
        }
        mode = kind.upper() if unit else kind
        yield {"header": f"TC-{tc}", "Mode": mode} | (thresholds if unit else {})


_TO_PRIORITY: Final = "PCP(DEI); DSCP to switch-priority mapping"
_FROM_PRIORITY: Final = (
    "PCP(DEI); DSCP rewrite mapping (switch-priority to PCP(DEI); DSCP; traffic-class)"
)


def qos(switch: OnyxSwitch, name: str) -> Iterator[JsonValue]:
    """`show qos interface ethernet 1/1 | json-print`: fixture show_qos_interface_ethernet.cfg."""
    port = switch.stored.running.ports[name]
    mapping, rewrites = dict[str, JsonValue](), dict[str, JsonValue]()
    for n in TRAFFIC_CLASSES:
        dscps = " ".join(str(dscp) for dscp in range(64) if port.priority_of(dscp) == n)
        mapping[f"{n}(0) {n}(1)"] = [{"switch-priority": str(n), "DSCP": dscps}]
        rewrites[str(n)] = [{"PCP(DEI)": f"{n}(0)", "DSCP": str(8 * n), "TC": str(n)}]
    pcp, dscp = ("enabled" if kind in port.rewrite else "disabled" for kind in ("pcp", "dscp"))
    summary: JsonValue = {
        "Trust mode": port.trust,
        "PCP,DEI rewrite": pcp,
        "IP PCP;DEI rewrite": "enable",
        "DSCP rewrite": dscp,
        "Default switch-priority": "0",
        "Default PCP": "0",
        "Default DEI": "0",
    }
    rewrite: JsonValue = [{"Egress Interface": f"Eth{name}"}, rewrites]
    yield {f"Eth{name}": [summary, {_TO_PRIORITY: [mapping]}, {_FROM_PRIORITY: rewrite}]}


_ETS_FLAGS: Final[dict[str, JsonValue]] = {
    "S.Mode": "Scheduling Mode [Strict/WRR]",
    "Bw.Sh": "Bandwidth Shaper",
    "D": "-",
    "W": "Weight",
    "Bw.Gr": "Bandwidth Guaranteed",
}


def ets(switch: OnyxSwitch, name: str) -> Iterator[JsonValue]:
    """`show dcb ets interface ethernet 1/1 | json-print`: the keys of the Ansible fixture."""
    given = FACTORY_WEIGHTS | switch.stored.running.ports[name].ets
    total, classes = sum(filter(None, given.values())) or 1, dict[str, JsonValue]()
    for tc, weight in given.items():
        row: JsonValue = {
            "S.Mode": "Strict" if weight is None else "WRR",
            "W": str(weight or 0),
            "W(%)": str(100 * (weight or 0) // total),
            "BW Sh.(Mbps)": "N/A",
            "BW Gr.(Mbps)": "0",
        }
        classes[str(tc)] = [row]
    summary: JsonValue = {
        "Multicast unaware mapping": "disabled",
        "Interface Bandwidth Shape [Mbps]": "N/A",
    }
    # onyx_traffic_class.py reads element [2], then [0][tc][0]; W is a number even if strict.
    yield {f"Eth{name}": [summary, {"Flags": [_ETS_FLAGS]}, {"ETS per TC": [classes]}]}


def pfc(switch: OnyxSwitch) -> tuple[str, JsonValue]:
    """`show dcb priority-flow-control`: text of capture C2, JSON of capture C4."""
    config = switch.stored.running
    on, off = (
        " ".join(str(n) for n in range(8) if (n in config.pfc_priorities) is held)
        for held in (True, False)
    )
    state = "enabled" if config.pfc_enabled else "disabled"
    rows: list[tuple[str, str, str]] = []
    for name, port in config.ports.items():
        wants = port.pfc or config.roce in {"lossless", "semi-lossless"}
        oper = "Enabled" if config.pfc_enabled and wants and switch.up(name) else "Disabled"
        rows.append((f"Eth{name}", "on" if port.pfc else "Auto", oper))
    rule = ("-" * 49,)
    text = f"PFC: {state}\nPriority Enabled List: {on}\nPriority Disabled List: {off}   \n"
    text += columns((rule, ("Interface", "PFC admin", "PFC oper"), rule, *rows), 17, 17)
    head: JsonValue = {"PFC": state, "Priority Enabled List": on, "Priority Disabled List": off}
    found = {name: [{"PFC admin": admin, "PFC oper": oper}] for name, admin, oper in rows}
    return text, [head, cast("JsonValue", found)]


_POOLS: Final = """RoCE buffer pools:
  ----------------------------------------------------------------------------------------------
  Traffic                  Type      Memory   Switch        Memory actual   Usage    Max Usage
  Pool                               [%]      Priorities
  ----------------------------------------------------------------------------------------------
  lossy-default            lossy     auto     0, 1, 2, 4,   3.6M            0        47.1K
                                              5, 6, 7
  roce-reserved            {kind}  auto     3             3.6M            0        1.8M
"""
_CLASSES: Final = """RoCE used TCs:
  ----------------------------------------------
  Switch-Priority   TC     Application   ETS
  ----------------------------------------------
  3                 3      RoCE          WRR 50%
  6                 6      CNP           Strict
"""


def roce(config: Config) -> str:
    """`show roce`: lossless as in capture C1; other modes keep its layout (a guess).

    If the one-shot is off: the example of the manual 3.10, "RoCE Commands".
    """
    if config.roce == "none":
        return "RoCE mode: N/A\n"
    pfc_on = "enabled" if config.pfc_enabled else "disabled"
    kind = "lossless" if config.pfc_enabled else "lossy   "
    lines = [
        f"RoCE mode      : {config.roce}",
        f"LLDP           : {'enabled' if config.lldp else 'disabled'}",
        "Port trust mode: L3",
        "",
        "Application TLV:\n  Selector: udp\n  Protocol: 4791\n  Priority: 3",
        "",
        "Port congestion-control:\n  Mode    : ecn, absolute\n  Min (KB): 150\n  Max (KB): 1500",
        "",
        f"PFC              : {pfc_on}",
        f"switch-priority 3: {pfc_on}",
        "",
        _CLASSES,
        _POOLS.format(kind=kind),
        "Exception list:",
        "\n".join(_exceptions(config)) or "N/A",
    ]
    return "\n".join(lines) + "\n"


def _exceptions(config: Config) -> list[str]:
    """Ports with other settings than the one-shot's; the format is a guess."""
    lines: list[str] = []
    for name, port in config.ports.items():
        if port.trust != "L3":
            lines.append(f"  Eth{name}: trust mode {port.trust}")
        if port.congestion.get(3) != ONE_SHOT_ECN:
            lines.append(f"  Eth{name}: congestion-control of TC 3")
        if port.ets.get(6, 0) is not None:
            lines.append(f"  Eth{name}: ETS of TC 6")
    return lines
