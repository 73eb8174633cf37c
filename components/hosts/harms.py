"""Host settings outside the plan: which to read, which values harm our traffic, and repairs. Pure.

A rule compares the observed values with the host's plan (`Guarded`). It does not judge a value that
could not be read, for example without `mlnx_qos` and `dcb`: then our own settings show as drift. It
skips settings that the plan owns: a different value of those is drift. If `guards.host` of the file
says repair, the plan contains the setting, and the host's step sets, keeps and undoes it.

Sources of every harmless value: sources.md#host-guards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final

from components.core.difference import Difference, ForeignSetting
from components.core.key_values import HostState, split_key
from components.hosts.settings import CARD_SYSCTLS, conf_name, routed_cards
from components.model.cluster import ClusterSpec
from components.model.fabric import DSCP_PER_PRIORITY
from components.model.hosts import Host, Nic

OWN_CLASSES: Final = "1,0,2,3,4,5,6,7"
"""The driver's traffic class of each priority: 1 is the lowest (sources.md#host-guards)."""
OWN_ALGORITHMS: Final = ",".join(["vendor"] * 8)
"""The driver's default schedule: all classes take turns."""
_ANY_BUFFERS: Final = "/".join([",".join("0" * 8)] * 2)
_DSCPS: Final = 64
ALL: Final = "net.ipv4.conf.all"
_ARP_FILTER: Final = "arp_filter"
"""A second way to a single ARP answer: by the route to the asking host."""


@dataclass(frozen=True, slots=True)
class GuardedCard:
    """The facts of a card's plan by which the rules judge other settings."""

    pci: str
    netdev: str
    gbit_s: int
    mtu_bytes: int
    vfs: int = 0
    """VFs whose settings the card has: 0 in switchdev mode."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """The facts of a host's plan by which the rules judge other settings."""

    cards: tuple[GuardedCard, ...] = ()
    priority: int = 0
    """Of RoCE."""
    cnp_priority: int = 0
    pauses: bool = False
    """The cards send and obey pause frames on `priority`."""
    attached: bool = False
    """Pods get VFs, and a network attachment sets their spoof check and trust."""
    rails: tuple[str, ...] = ()
    """Network devices with addresses on rails, if there are several."""

    def asked(self) -> HostState:
        """The settings to read besides the planned ones, each with a harmless value."""
        values: dict[str, str] = {}
        for card in self.cards:
            values |= {f"nic.{card.pci}.{key}": value for key, value in self._of_card().items()}
            for number in range(card.vfs):
                vf = f"vf.{card.pci}.{number}"
                values |= {f"{vf}.{key}": value for key, value in self._of_vf().items()}
        names = (ALL, *map(conf_name, self.rails)) if self.rails else ()
        values |= {
            f"kernel.sysctl.{name}.{key}": value
            for name in names
            for key, value in {**CARD_SYSCTLS, _ARP_FILTER: "0"}.items()
        }
        return HostState(values)

    def _of_card(self) -> Mapping[str, str]:
        rates = {f"tc{number}_rate": "unlimited" for number in range(8)}
        buffers = {"buffers": _ANY_BUFFERS, "cable_length_m": "7"} if self.pauses else {}
        classes = {"priority_classes": OWN_CLASSES, "ets": OWN_ALGORITHMS, "dscp_map": "any"}
        return {**classes, **rates, **buffers}

    def _of_vf(self) -> Mapping[str, str]:
        attached = {"trust": "on", "spoofchk": "off", "place": "here"} if self.attached else {}
        return {**_VF_RATES, "link_state": "auto", **attached}


_VF_RATES: Final = {"min_rate_mbit_s": "0", "max_rate_mbit_s": "0"}


def plan_guards(spec: ClusterSpec, host: Host) -> Guarded:
    """Collect the facts of a host's plan that the rules need."""
    cards = tuple(
        GuardedCard(
            nic.pci,
            nic.netdev,
            nic.speed_gbit_s,
            nic.mtu_bytes or spec.rdma.mtu_bytes,
            _legacy_vfs(nic),
        )
        for nic in host.nics
    )
    rails = tuple(nic.netdev for _, _, nic in routed_cards(spec, host))
    return Guarded(
        cards,
        spec.rdma.priority,
        spec.rdma.cnp_priority,
        spec.rdma.host_pfc,
        spec.kubernetes is not None and spec.pod_network.mode == "sriov",
        rails if len(rails) > 1 else (),
    )


def _legacy_vfs(nic: Nic) -> int:
    return 0 if nic.sriov.eswitch == "switchdev" else nic.vfs


def repaired_settings(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """The settings that the file asks to repair; a value that the file sets itself wins."""
    repaired = {kind for kind in _REPAIRS if spec.guards.way(f"host.{kind}") == "repair"}
    settings: dict[str, str] = {}
    for nic in host.nics:
        each = {key: value for kind in repaired for key, value in _card(spec, kind).items()}
        settings |= {f"nic.{nic.pci}.{key}": value for key, value in each.items()}
        each = {key: value for kind in repaired for key, value in _VF_REPAIRS.get(kind, {}).items()}
        for number in range(_legacy_vfs(nic)):
            settings |= {f"vf.{nic.pci}.{number}.{key}": value for key, value in each.items()}
    if "ip" in repaired:
        settings |= _sysctls(spec, host)
    return settings


_VF_REPAIRS: Final[Mapping[str, Mapping[str, str]]] = {
    "rate_limit": _VF_RATES,
    "vf_rights": {"link_state": "auto"},
}
_REPAIRS: Final = (
    "priority_classes", "ets", "rate_limit", "dscp_map", "vf_rights", "ip",
)  # fmt: skip


def _card(spec: ClusterSpec, kind: str) -> Mapping[str, str]:
    if kind == "dscp_map":
        ours = {spec.rdma.dscp, spec.rdma.cnp_dscp}
        return {
            f"dscp{dscp}_priority": str(dscp // DSCP_PER_PRIORITY)
            for dscp in range(_DSCPS)
            if dscp not in ours
        }
    own_class = OWN_CLASSES.split(",")[spec.rdma.priority]
    return {
        "priority_classes": {"priority_classes": OWN_CLASSES},
        "ets": {"ets": OWN_ALGORITHMS},
        "rate_limit": {f"tc{own_class}_rate": "unlimited"},
    }.get(kind, {})


def _sysctls(spec: ClusterSpec, host: Host) -> Mapping[str, str]:
    """The values used with routes by source; `all.arp_ignore` is 0, since the greater counts."""
    cards = routed_cards(spec, host)
    if len(cards) < 2:  # noqa: PLR2004 - one card cannot be confused
        return {}
    of_cards = {
        f"kernel.sysctl.{conf_name(nic.netdev)}.{key}": value
        for _, _, nic in cards
        for key, value in CARD_SYSCTLS.items()
    }
    return of_cards | {f"kernel.sysctl.{ALL}.arp_ignore": "0"}


UNKNOWN: Final = frozenset({"", "absent", "unsupported", "unknown"})
_LEAST_SHARE: Final = 100 // 8
"""Percent of the line for each class while all eight take turns, the driver's default."""
_CABLE_M: Final = 7
"""The length that the driver assumes for a cable if none is set."""
_LEAST_GBIT_S: Final = 40
_LEAST_MAX_MTU_BYTES: Final = 9216
"""The maximum MTU from which mlx5 computes a pause's headroom, if the real one is smaller."""


@dataclass(frozen=True, slots=True)
class HarmfulSetting:
    """A harmful value: its setting, a harmless value, and the traffic that suffers."""

    setting: str
    actual: str
    harmless: str
    breaks: str
    fix: str = ""
    """The command to run instead of the rule's own."""


@dataclass(frozen=True, slots=True)
class SeenCard:
    """A card's plan, and its settings as far as they are known."""

    plan: GuardedCard
    host: Guarded
    seen: Mapping[str, str]
    owned: frozenset[str]
    """Its settings that the plan contains."""

    def __getitem__(self, setting: str) -> str:
        """The value of one setting; empty if it is unknown."""
        value = self.seen.get(setting, "")
        return "" if value in UNKNOWN else value

    @property
    def roce(self) -> str:
        """The priority of RoCE in words."""
        return f"priority {self.host.priority} (RoCE)"

    @property
    def cnp(self) -> str:
        """The priority of CNPs in words."""
        return f"priority {self.host.cnp_priority} (CNPs)"

    @property
    def classes(self) -> tuple[int, ...]:
        """The traffic class of each priority; the driver's default if it is unknown."""
        return tuple(map(int, (self["priority_classes"] or OWN_CLASSES).split(",")))

    def sharing(self, priority: int) -> tuple[int, ...]:
        """The other priorities in the class of a priority."""
        own = self.classes[priority]
        return tuple(p for p, c in enumerate(self.classes) if c == own and p != priority)


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _shared_class(card: SeenCard) -> Iterator[HarmfulSetting]:
    """Check that RoCE and CNPs each have a class without other priorities."""
    if not card["priority_classes"]:
        return
    for priority, name in ((card.host.priority, card.roce), (card.host.cnp_priority, card.cnp)):
        if others := card.sharing(priority):
            yield HarmfulSetting(
                "priority_classes",
                card["priority_classes"],
                OWN_CLASSES,
                f"the class of {name}: class {card.classes[priority]} has priority "
                f"{_list(others)} too",
            )
            return


def _groups(algorithms: tuple[str, ...]) -> tuple[int, ...]:
    """Rank the classes as mlx5 serves them: a greater number is served first.

    `vendor` comes before `strict`, and `strict` before shares. The last strict class is first.
    """
    ranks: list[int] = []
    strict = 2
    for each in algorithms:
        if each == "vendor":
            ranks.append(10)
        elif each == "strict":
            ranks.append(strict)
            strict += 1
        else:
            ranks.append(0 if each == "ets:0" else 1)
    return tuple(ranks)


def _starved(card: SeenCard) -> Iterator[HarmfulSetting]:
    """Check that only the class of CNPs is served strictly before RoCE's, and none before CNPs.

    RoCE's share must be at least the card's default.
    """
    algorithms = tuple(card["ets"].split(","))
    if len(algorithms) != len(card.classes):
        return
    groups, used = _groups(algorithms), sorted(set(card.classes))
    roce, cnp = card.classes[card.host.priority], card.classes[card.host.cnp_priority]

    def harm(breaks: str) -> HarmfulSetting:
        return HarmfulSetting("ets", card["ets"], OWN_ALGORITHMS, breaks)

    before_roce = [c for c in used if groups[c] > groups[roce] and c not in {roce, cnp}]
    before_cnp = [c for c in used if groups[c] > groups[cnp] and c != cnp]
    _, _, share = algorithms[roce].partition(":")
    if before_roce:
        yield harm(
            f"the rate of {card.roce}: its class {roce} comes after class {_list(before_roce)}"
        )
    elif share and int(share) < _LEAST_SHARE:
        yield harm(
            f"the rate of {card.roce}: its class {roce} has {share} % of the line, and "
            f"{_LEAST_SHARE} % while all take turns"
        )
    elif before_cnp:
        yield harm(
            f"congestion control, {card.cnp}: class {cnp} comes after class {_list(before_cnp)}"
        )


def _limited(card: SeenCard) -> Iterator[HarmfulSetting]:
    """Check that the class of RoCE may send at line rate."""
    own = card.classes[card.host.priority]
    rate = card[f"tc{own}_rate"]
    if rate and rate != "unlimited" and float(rate) < card.plan.gbit_s:
        kept = (card[f"tc{each}_rate"] or "unlimited" for each in range(8))
        rates = ["0" if each == "unlimited" else str(ceil(float(each))) for each in kept]
        rates[own] = "0"
        yield HarmfulSetting(
            f"tc{own}_rate",
            f"{rate} Gbit/s",
            "unlimited",
            f"the rate of {card.roce}",
            f"mlnx_qos -i {card.plan.netdev} -r {','.join(rates)}",
        )


def _sorted_in(card: SeenCard) -> Iterator[HarmfulSetting]:
    """Check that foreign DSCPs enter our priorities only by the default map, or as planned."""
    for priority, name in ((card.host.priority, card.roce), (card.host.cnp_priority, card.cnp)):
        foreign = sorted(
            int(dscp)
            for row in card["dscp_map"].split()
            if row.startswith(f"{priority}:")
            for dscp in row.partition(":")[2].split(",")
            if dscp
            and int(dscp) // DSCP_PER_PRIORITY != priority
            and f"dscp{int(dscp)}_priority" not in card.owned
        )
        if foreign:
            own = [str(dscp // DSCP_PER_PRIORITY) for dscp in foreign]
            sets = (f"set,{d},{p}" for d, p in zip(foreign, own, strict=True))
            yield HarmfulSetting(
                f"priority of DSCP {_list(foreign)}",
                str(priority),
                ", ".join(dict.fromkeys(own)),
                f"{name}, in which others' packets are then",
                "; ".join(f"mlnx_qos -i {card.plan.netdev} --dscp2prio {one}" for one in sets),
            )


def headroom_bytes(gbit_s: int, mtu_bytes: int, cable_m: int) -> int:
    """Bytes that a receive buffer must hold for a pause to come in time, as mlx5 computes it.

    Two packets, and the bytes under way on the cable and in the cards.
    """
    under_way = (301 + 216 * cable_m // 100) * max(gbit_s, _LEAST_GBIT_S)
    return under_way + 272 * mtu_bytes // 100 + _LEAST_MAX_MTU_BYTES


def _too_small(card: SeenCard) -> Iterator[HarmfulSetting]:
    """Check that RoCE's receive buffer holds the bytes that arrive before a pause takes effect."""
    sizes, _, of_priority = card["buffers"].partition("/")
    if not (card.host.pauses and of_priority):
        return
    number = int(of_priority.split(",")[card.host.priority])
    size = int(sizes.split(",")[number])
    cable_m = card["cable_length_m"]
    needed = headroom_bytes(
        card.plan.gbit_s, card.plan.mtu_bytes, int(cable_m) if cable_m.isdigit() else _CABLE_M
    )
    if size < needed:
        yield HarmfulSetting(
            "buffers",
            f"{size} bytes in buffer {number}",
            f"at least {needed}",
            f"losslessness of {card.roce}: a pause comes too late",
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """A card's setting outside the plan: which values harm our traffic, and how to correct them."""

    kind: str
    keys: str
    """The keys that it judges, as the table of keys writes them."""
    find: Callable[[SeenCard], Iterator[HarmfulSetting]]
    fix: str
    """The command, with `{netdev}` and `{harmless}`."""


CARD_RULES: Final = (
    Rule("host.priority_classes", "nic.<pci>.priority_classes", _shared_class,
        "mlnx_qos -i {netdev} -p {harmless}"),
    Rule("host.ets", "nic.<pci>.ets", _starved, "mlnx_qos -i {netdev} -s {harmless}"),
    Rule("host.rate_limit", "nic.<pci>.tc<class>_rate", _limited, ""),
    Rule("host.dscp_map", "nic.<pci>.dscp_map", _sorted_in, ""),
    Rule("host.buffers", "nic.<pci>.buffers", _too_small,
        "write host_defaults.qos.buffers in the file, or load the driver again"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class VfRule:
    """A setting of VFs outside the plan: how to read it, and which values harm our traffic."""

    kind: str
    setting: str
    harmless: str
    breaks: str
    word: str
    """The name of the setting in `ip link set DEV vf N`."""
    harms: Callable[[GuardedCard, Mapping[str, str], Mapping[str, str]], bool]
    """Gets the card, one VF's values, and the values of this setting of all its VFs."""


VF_RULES: Final = (
    VfRule("host.rate_limit", "max_rate_mbit_s", "0", "the rate of their pods", "max_tx_rate",
        lambda card, vf, _all: 0 < int(vf["max_rate_mbit_s"]) < card.gbit_s * 1000),
    VfRule("host.rate_limit", "min_rate_mbit_s", "0", "the share of the card's other VFs",
        "min_tx_rate",
        lambda _card, vf, of_all: vf["min_rate_mbit_s"] != "0" and len({*of_all.values()}) > 1),
    VfRule("host.vf_rights", "link_state", "auto", "the link of their pods", "state",
        lambda _card, vf, _all: vf["link_state"] == "disable"),
    VfRule(
        "host.vf_rights", "trust", "on",
        "a right from the network attachment: their pods cannot use other addresses or "
        "multicast", "trust",
        lambda _card, vf, _all: vf["trust"] == "off" and vf.get("place") == "away",
    ),
    VfRule("host.vf_rights", "spoofchk", "off",
        "a right from the network attachment: the card drops frames from another address",
        "spoofchk", lambda _card, vf, _all: vf["spoofchk"] == "on" and vf.get("place") == "away"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SysctlRule:
    """A sysctl of the rails' devices; the greater of the value and that of `all` counts."""

    setting: str
    harms: Mapping[int, str]
    """Harmful value to its effect."""


_FLUX: Final = "the rails' addresses: any card answers for every address (ARP flux)"
SYSCTL_RULES: Final = (
    SysctlRule("rp_filter", {1: "traffic between rails: the kernel drops packets that arrive by "
                                "another card than the route back takes"}),
    SysctlRule("arp_ignore", {**dict.fromkeys((0, 3, 4, 5, 6, 7), _FLUX),
                              8: "the rails: the cards answer no ARP request"}),
    SysctlRule("arp_announce", {0: "the rails' addresses: ARP requests may name another rail's"}),
)  # fmt: skip


def find_foreign_settings(
    guarded: Guarded, desired: HostState, facts: HostState
) -> tuple[ForeignSetting, ...]:
    """Find all settings outside the plan that harm our traffic on a host."""
    owned = frozenset(desired.values)
    return (
        *_of_cards(guarded, owned, facts.values),
        *_of_vfs(guarded, owned, facts.values),
        *_of_sysctls(guarded, owned, facts.values),
    )


def _of_cards(
    guarded: Guarded, owned: frozenset[str], facts: Mapping[str, str]
) -> Iterator[ForeignSetting]:
    for plan in guarded.cards:
        begin = f"nic.{plan.pci}."
        seen = {key.removeprefix(begin): v for key, v in facts.items() if key.startswith(begin)}
        ours = frozenset(key.removeprefix(begin) for key in owned if key.startswith(begin))
        card = SeenCard(plan, guarded, seen, ours)
        for rule in CARD_RULES:
            for harm in rule.find(card):
                if harm.setting in ours:
                    continue
                fix = harm.fix or rule.fix.format(netdev=plan.netdev, harmless=harm.harmless)
                where = f"nic {plan.pci}"
                found = Difference(where, harm.setting, harm.actual, harm.harmless)
                yield ForeignSetting(rule.kind, found, harm.breaks, fix)


def _of_vfs(
    guarded: Guarded, owned: frozenset[str], facts: Mapping[str, str]
) -> Iterator[ForeignSetting]:
    for card in guarded.cards:
        vfs = {
            number: {
                key: facts.get(f"vf.{card.pci}.{number}.{key}", "")
                for key in (*(rule.setting for rule in VF_RULES), "place")
            }
            for number in range(card.vfs)
        }
        for rule in VF_RULES:
            of_all = {
                str(number): vf[rule.setting]
                for number, vf in vfs.items()
                if vf[rule.setting] not in UNKNOWN
            }
            harmed: dict[str, list[int]] = {}
            for number in map(int, of_all):
                key = f"vf.{card.pci}.{number}.{rule.setting}"
                if key not in owned and rule.harms(card, vfs[number], of_all):
                    harmed.setdefault(vfs[number][rule.setting], []).append(number)
            for value, numbers in harmed.items():
                yield _vf_beside(card, rule, value, numbers)


def _vf_beside(card: GuardedCard, rule: VfRule, value: str, numbers: list[int]) -> ForeignSetting:
    where = f"VF {', '.join(map(str, numbers))} of {card.pci}"
    fixes = (
        f"ip link set dev {card.netdev} vf {number} {rule.word} {rule.harmless}"
        for number in numbers
    )
    found = Difference(where, rule.setting, value, rule.harmless)
    return ForeignSetting(rule.kind, found, rule.breaks, "; ".join(fixes))


def _of_sysctls(
    guarded: Guarded, owned: frozenset[str], facts: Mapping[str, str]
) -> Iterator[ForeignSetting]:
    if not guarded.rails:
        return
    said: set[str] = set()
    for rule in SYSCTL_RULES:
        of_all = f"kernel.sysctl.{ALL}.{rule.setting}"
        for netdev in guarded.rails:
            own = f"kernel.sysctl.{conf_name(netdev)}.{rule.setting}"
            both = {key: int(facts[key]) for key in (own, of_all) if facts.get(key, "").isdigit()}
            if len(both) < 2 or _by_route(rule, netdev, facts):  # noqa: PLR2004 - device and all
                continue
            key = of_all if both[of_all] > both[own] else own
            breaks = rule.harms.get(both[key])
            if breaks is None or key in owned or key in said:
                continue
            said.add(key)
            harmless = CARD_SYSCTLS[rule.setting]
            name = key.removeprefix("kernel.sysctl.")
            found = Difference(*split_key(key), str(both[key]), harmless)
            yield ForeignSetting("host.ip", found, breaks, f"sysctl -w {name}={harmless}")


def _by_route(rule: SysctlRule, netdev: str, facts: Mapping[str, str]) -> bool:
    """Whether the route to the asking host decides ARP answers (`arp_filter`, device or all)."""
    keys = (f"kernel.sysctl.{name}.arp_filter" for name in (ALL, conf_name(netdev)))
    return rule.setting == "arp_ignore" and any(facts.get(key) == "1" for key in keys)
