"""Host settings outside the plan: which to read, which values harm our traffic, and repairs. Pure.

A rule compares the observed values with the host's plan (`Guarded`). It does not judge a value that
could not be read, for example without `mlnx_qos` and `dcb`: then our own settings show as drift. It
skips settings that the plan owns: a different value of those is drift. If `guards.host` of the file
says repair, the plan contains the setting, and the host's step sets, keeps and undoes it.

Sources of every harmless value: sources.md#host-guards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import ceil
from typing import Final, TypeAlias

from components.core.difference import Difference, ForeignSetting
from components.core.key_values import HostState, split_key
from components.core.record import record
from components.hosts.settings import CARD_SYSCTLS, below, conf_name, routed_cards
from components.model.cluster import ClusterSpec
from components.model.fabric import DSCP_PER_PRIORITY
from components.model.hosts import Host, Nic

OWN_CLASSES: Final = "1,0,2,3,4,5,6,7"
"""The driver's traffic class of each priority: 1 is the lowest (sources.md#host-guards)."""
OWN_ALGORITHMS: Final = ",".join(["vendor"] * 8)
"""The driver's default schedule: all classes take turns."""
_ANY_BUFFERS: Final = "/".join([",".join("0" * 8)] * 2)
_DSCPS: Final = 64
_VF_RATES: Final = {"min_rate_mbit_s": "0", "max_rate_mbit_s": "0"}
_SYSCTL: Final = "kernel.sysctl"
ALL: Final = "net.ipv4.conf.all"
_ARP_FILTER: Final = "arp_filter"
"""A second way to a single ARP answer: by the route to the asking host."""
UNKNOWN: Final = frozenset({"", "absent", "unsupported", "unknown"})
_LEAST_SHARE: Final = 100 // 8
"""Percent of the line for each class while all eight take turns, the driver's default."""
_CABLE_M: Final = 7
"""The length that the driver assumes for a cable if none is set."""
_LEAST_GBIT_S: Final = 40
_LEAST_MAX_MTU_BYTES: Final = 9216
"""The maximum MTU from which mlx5 computes a pause's headroom, if the real one is smaller."""
Harm: TypeAlias = tuple[str, str, str, str, str]
"""A setting, its harmful value, a harmless one, the traffic that suffers, and the repair."""
_FLUX: Final = "the rails' addresses: any card answers for every address (ARP flux)"
SYSCTL_HARMS: Final[Mapping[str, Mapping[int, str]]] = {
    "rp_filter": {1: "traffic between rails: the kernel drops packets that arrive by another card "
                     "than the route back takes"},
    "arp_ignore": {**dict.fromkeys((0, 3, 4, 5, 6, 7), _FLUX),
                   8: "the rails: the cards answer no ARP request"},
    "arp_announce": {0: "the rails' addresses: ARP requests may name another rail's"},
}  # fmt: skip
"""Sysctl of the rails' devices to its harmful values and their effects; the greater of the device's
value and that of `all` counts."""


@record
class GuardedCard:
    """The facts of a card's plan by which the rules judge other settings."""

    pci: str
    netdev: str
    gbit_s: int
    mtu_bytes: int
    vfs: int = 0
    """VFs whose settings the card has: 0 in switchdev mode."""


@record
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
        card = {"priority_classes": OWN_CLASSES, "ets": OWN_ALGORITHMS, "dscp_map": "any"}
        card |= {f"tc{number}_rate": "unlimited" for number in range(8)}
        card |= {"buffers": _ANY_BUFFERS, "cable_length_m": "7"} if self.pauses else {}
        vf = {**_VF_RATES, "link_state": "auto"}
        vf |= {"trust": "on", "spoofchk": "off", "place": "here"} if self.attached else {}
        values = _on_cards(((each.pci, each.vfs) for each in self.cards), card, vf)
        for name in (ALL, *map(conf_name, self.rails)) if self.rails else ():
            values |= below(f"{_SYSCTL}.{name}", {**CARD_SYSCTLS, _ARP_FILTER: "0"})
        return HostState(values)


def _on_cards(
    cards: Iterable[tuple[str, int]], of_card: Mapping[str, str], of_vf: Mapping[str, str]
) -> dict[str, str]:
    """The same settings on each card, given as address and number of VFs, and on each VF."""
    settings: dict[str, str] = {}
    for pci, vfs in cards:
        settings |= below(f"nic.{pci}", of_card)
        for number in range(vfs):
            settings |= below(f"vf.{pci}.{number}", of_vf)
    return settings


def plan_guards(spec: ClusterSpec, host: Host) -> Guarded:
    """Collect the facts of a host's plan that the rules need."""
    rdma, mtu_bytes = spec.rdma, spec.rdma.mtu_bytes
    cards = tuple(
        GuardedCard(
            each.pci, each.netdev, each.speed_gbit_s, each.mtu_bytes or mtu_bytes, _legacy_vfs(each)
        )
        for each in host.nics
    )
    rails = tuple(nic.netdev for _, _, nic in routed_cards(spec, host))
    attached = spec.kubernetes is not None and spec.pod_network.mode == "sriov"
    several = rails if len(rails) > 1 else ()
    return Guarded(cards, rdma.priority, rdma.cnp_priority, rdma.host_pfc, attached, several)


def _legacy_vfs(nic: Nic) -> int:
    return 0 if nic.sriov.eswitch == "switchdev" else nic.vfs


def repaired_settings(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """The settings that the file asks to repair; a value that the file sets itself wins."""

    def asked(by_kind: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
        found = (each for kind, each in by_kind.items() if spec.guards.way(kind) == "repair")
        return {key: value for each in found for key, value in each.items()}

    own_class = OWN_CLASSES.split(",")[spec.rdma.priority]
    others = {*range(_DSCPS)} - {spec.rdma.dscp, spec.rdma.cnp_dscp}
    card = {
        "host.priority_classes": {"priority_classes": OWN_CLASSES},
        "host.ets": {"ets": OWN_ALGORITHMS},
        "host.rate_limit": {f"tc{own_class}_rate": "unlimited"},
        "host.dscp_map": {f"dscp{d}_priority": str(d // DSCP_PER_PRIORITY) for d in others},
    }
    vf = {"host.rate_limit": _VF_RATES, "host.vf_rights": {"link_state": "auto"}}
    ports = ((nic.pci, _legacy_vfs(nic)) for nic in host.nics)
    settings = _on_cards(ports, asked(card), asked(vf))
    cards = routed_cards(spec, host)
    if spec.guards.way("host.ip") == "repair" and len(cards) > 1:  # one card cannot be confused
        # The values used with routes by source; `all.arp_ignore` is 0, since the greater counts.
        settings[f"{_SYSCTL}.{ALL}.arp_ignore"] = "0"
        for _, _, nic in cards:
            settings |= below(f"{_SYSCTL}.{conf_name(nic.netdev)}", CARD_SYSCTLS)
    return settings


@record
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
    def ours(self) -> tuple[tuple[int, str], tuple[int, str]]:
        """The priorities of RoCE and of CNPs, each as a number and in words."""
        roce, cnp = self.host.priority, self.host.cnp_priority
        return (roce, f"priority {roce} (RoCE)"), (cnp, f"priority {cnp} (CNPs)")

    @property
    def classes(self) -> tuple[int, ...]:
        """The traffic class of each priority; the driver's default if it is unknown."""
        return tuple(map(int, (self["priority_classes"] or OWN_CLASSES).split(",")))

    @property
    def command(self) -> str:
        """The beginning of a repair."""
        return f"mlnx_qos -i {self.plan.netdev}"


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _shared_class(card: SeenCard) -> Iterator[Harm]:
    """Check that RoCE and CNPs each have a class without other priorities."""
    seen, classes = card["priority_classes"], card.classes
    for priority, name in card.ours if seen else ():
        own = classes[priority]
        if others := [p for p, each in enumerate(classes) if each == own and p != priority]:
            breaks = f"the class of {name}: class {own} has priority {_list(others)} too"
            fix = f"{card.command} -p {OWN_CLASSES}"
            yield "priority_classes", seen, OWN_CLASSES, breaks, fix
            return


def _starved(card: SeenCard) -> Iterator[Harm]:
    """Check that only CNPs are served strictly before RoCE, which has its default share."""
    algorithms, classes = card["ets"].split(","), card.classes
    if len(algorithms) != len(classes):
        return
    # mlx5 serves vendor classes first, then strict ones backwards, then those with shares.
    strict, others = iter(range(2, 10)), {"vendor": 10, "ets:0": 0}
    groups = [next(strict) if each == "strict" else others.get(each, 1) for each in algorithms]
    used = sorted(set(classes))
    (priority, name), (cnp_priority, cnp_name) = card.ours
    roce, cnp = classes[priority], classes[cnp_priority]
    before_roce = [c for c in used if groups[c] > groups[roce] and c not in {roce, cnp}]
    before_cnp = [c for c in used if groups[c] > groups[cnp] and c != cnp]
    _, _, share = algorithms[roce].partition(":")
    if before_roce:
        breaks = f"the rate of {name}: its class {roce} comes after class {_list(before_roce)}"
    elif share and int(share) < _LEAST_SHARE:
        breaks = (
            f"the rate of {name}: its class {roce} has {share} % of the line, and "
            f"{_LEAST_SHARE} % while all take turns"
        )
    elif before_cnp:
        after = _list(before_cnp)
        breaks = f"congestion control, {cnp_name}: class {cnp} comes after class {after}"
    else:
        return
    yield "ets", card["ets"], OWN_ALGORITHMS, breaks, f"{card.command} -s {OWN_ALGORITHMS}"


def _limited(card: SeenCard) -> Iterator[Harm]:
    """Check that the class of RoCE may send at line rate."""
    priority, name = card.ours[0]
    own = card.classes[priority]
    rate = card[f"tc{own}_rate"]
    if rate and rate != "unlimited" and float(rate) < card.plan.gbit_s:
        kept = (card[f"tc{each}_rate"] or "unlimited" for each in range(8))
        rates = ["0" if each == "unlimited" else str(ceil(float(each))) for each in kept]
        rates[own] = "0"
        fix = f"{card.command} -r {','.join(rates)}"
        yield f"tc{own}_rate", f"{rate} Gbit/s", "unlimited", f"the rate of {name}", fix


def _sorted_in(card: SeenCard) -> Iterator[Harm]:
    """Check that foreign DSCPs enter our priorities only by the default map, or as planned."""
    rows = [row.partition(":") for row in card["dscp_map"].split()]
    for priority, name in card.ours:
        mapped = [each for own, _, row in rows if own == str(priority) for each in row.split(",")]
        foreign = [
            dscp
            for dscp in sorted(int(each) for each in mapped if each)
            if dscp // DSCP_PER_PRIORITY != priority and f"dscp{dscp}_priority" not in card.owned
        ]
        if foreign:
            own = {dscp: str(dscp // DSCP_PER_PRIORITY) for dscp in foreign}
            yield (
                f"priority of DSCP {_list(foreign)}",
                str(priority),
                ", ".join(dict.fromkeys(own.values())),
                f"{name}, in which others' packets are then",
                "; ".join(f"{card.command} --dscp2prio set,{d},{p}" for d, p in own.items()),
            )


def headroom_bytes(gbit_s: int, mtu_bytes: int, cable_m: int) -> int:
    """Bytes that mlx5 holds for a pause: two packets, and those in the cable and the cards."""
    under_way = (301 + 216 * cable_m // 100) * max(gbit_s, _LEAST_GBIT_S)
    return under_way + 272 * mtu_bytes // 100 + _LEAST_MAX_MTU_BYTES


def _too_small(card: SeenCard) -> Iterator[Harm]:
    """Check that RoCE's receive buffer holds the bytes that arrive before a pause takes effect."""
    sizes, _, of_priority = card["buffers"].partition("/")
    if not (card.host.pauses and of_priority):
        return
    number = int(of_priority.split(",")[card.host.priority])
    size, cable_m = int(sizes.split(",")[number]), card["cable_length_m"]
    length_m = int(cable_m) if cable_m.isdigit() else _CABLE_M
    needed = headroom_bytes(card.plan.gbit_s, card.plan.mtu_bytes, length_m)
    if size < needed:
        actual, breaks = f"{size} bytes in buffer {number}", f"losslessness of {card.ours[0][1]}"
        fix = "write host_defaults.qos.buffers in the file, or load the driver again"
        yield "buffers", actual, f"at least {needed}", f"{breaks}: a pause comes too late", fix


CARD_RULES: Final[Mapping[str, Callable[[SeenCard], Iterator[Harm]]]] = {
    "host.priority_classes": _shared_class,
    "host.ets": _starved,
    "host.rate_limit": _limited,
    "host.dscp_map": _sorted_in,
    "host.buffers": _too_small,
}
"""Kind of a card's settings outside the plan to the check of those that harm our traffic."""


@record
class VfRule:
    """A setting of VFs outside the plan: how to read it, and which values harm our traffic."""

    kind: str
    setting: str
    harmless: str
    breaks: str
    word: str
    """The name of the setting in `ip link set DEV vf N`."""
    harms: Callable[[GuardedCard, Mapping[str, str], Mapping[int, str]], bool]
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


def find_foreign_settings(
    guarded: Guarded, desired: HostState, facts: HostState
) -> tuple[ForeignSetting, ...]:
    """Find all settings outside the plan that harm our traffic on a host."""
    owned, seen = frozenset(desired.values), facts.values
    of_cards: list[ForeignSetting] = []
    for plan in guarded.cards:
        begin = f"nic.{plan.pci}."
        own = {key.removeprefix(begin): v for key, v in seen.items() if key.startswith(begin)}
        ours = frozenset(key.removeprefix(begin) for key in owned if key.startswith(begin))
        card = SeenCard(plan, guarded, own, ours)
        for kind, find in CARD_RULES.items():
            for setting, actual, harmless, breaks, fix in find(card):
                if setting not in ours:
                    found = Difference(f"nic {plan.pci}", setting, actual, harmless)
                    of_cards.append(ForeignSetting(kind, found, breaks, fix))
    of_vfs = (found for card in guarded.cards for found in _of_vfs(card, owned, seen))
    return (*of_cards, *of_vfs, *_of_sysctls(guarded, owned, seen))


def _of_vfs(
    card: GuardedCard, owned: frozenset[str], facts: Mapping[str, str]
) -> Iterator[ForeignSetting]:
    settings = (*(rule.setting for rule in VF_RULES), "place")
    vfs = [
        {key: facts.get(f"vf.{card.pci}.{number}.{key}", "") for key in settings}
        for number in range(card.vfs)
    ]
    for rule in VF_RULES:
        seen = {number: vf[rule.setting] for number, vf in enumerate(vfs)}
        of_all = {number: value for number, value in seen.items() if value not in UNKNOWN}
        harmed: dict[str, list[int]] = {}
        for number, value in of_all.items():
            key = f"vf.{card.pci}.{number}.{rule.setting}"
            if key not in owned and rule.harms(card, vfs[number], of_all):
                harmed.setdefault(value, []).append(number)
        for value, numbers in harmed.items():
            found = Difference(
                f"VF {_list(numbers)} of {card.pci}", rule.setting, value, rule.harmless
            )
            begin, end = f"ip link set dev {card.netdev} vf", f"{rule.word} {rule.harmless}"
            fix = "; ".join(f"{begin} {number} {end}" for number in numbers)
            yield ForeignSetting(rule.kind, found, rule.breaks, fix)


def _of_sysctls(
    guarded: Guarded, owned: frozenset[str], facts: Mapping[str, str]
) -> Iterator[ForeignSetting]:
    said = set[str](owned)
    for setting, harms in SYSCTL_HARMS.items():
        of_all = f"{_SYSCTL}.{ALL}.{setting}"
        for begin in (f"{_SYSCTL}.{conf_name(netdev)}" for netdev in guarded.rails):
            own = f"{begin}.{setting}"
            both = {key: int(facts[key]) for key in (own, of_all) if facts.get(key, "").isdigit()}
            # The route to the asking host may decide ARP answers, by the device's setting or all's.
            filters = (facts.get(f"{each}.{_ARP_FILTER}") for each in (f"{_SYSCTL}.{ALL}", begin))
            if len(both) < 2 or (setting == "arp_ignore" and "1" in filters):  # noqa: PLR2004 - device and all
                continue
            key = of_all if both[of_all] > both[own] else own
            breaks = harms.get(both[key])
            if breaks is None or key in said:
                continue
            said.add(key)
            harmless, name = CARD_SYSCTLS[setting], key.removeprefix(f"{_SYSCTL}.")
            found = Difference(*split_key(key), str(both[key]), harmless)
            yield ForeignSetting("host.ip", found, breaks, f"sysctl -w {name}={harmless}")
