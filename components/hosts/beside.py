"""Settings of a host that are not ours and harm our traffic: a look, judged by the rules. Pure.

A setting that the plan owns is not said here: a value that is not as planned is drift.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from components.core.difference import Beside, Difference
from components.core.key_values import HostState, split_key
from components.hosts.guards import ALL, Guarded, GuardedCard
from components.hosts.harms import (
    CARD_RULES,
    SYSCTL_RULES,
    UNKNOWN,
    VF_RULES,
    SeenCard,
    SysctlRule,
    VfRule,
)
from components.hosts.kernel import CARD_SYSCTLS, conf_name


def find_beside(guarded: Guarded, desired: HostState, facts: HostState) -> tuple[Beside, ...]:
    """All that harms our traffic on a host and is not ours."""
    owned = frozenset(desired.values)
    return (
        *_of_cards(guarded, owned, facts.values),
        *_of_vfs(guarded, owned, facts.values),
        *_of_sysctls(guarded, owned, facts.values),
    )


def _of_cards(
    guarded: Guarded, owned: frozenset[str], facts: Mapping[str, str]
) -> Iterator[Beside]:
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
                yield Beside(rule.kind, found, harm.breaks, fix)


def _of_vfs(guarded: Guarded, owned: frozenset[str], facts: Mapping[str, str]) -> Iterator[Beside]:
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


def _vf_beside(card: GuardedCard, rule: VfRule, value: str, numbers: list[int]) -> Beside:
    where = f"VF {', '.join(map(str, numbers))} of {card.pci}"
    fixes = (
        f"ip link set dev {card.netdev} vf {number} {rule.word} {rule.harmless}"
        for number in numbers
    )
    found = Difference(where, rule.setting, value, rule.harmless)
    return Beside(rule.kind, found, rule.breaks, "; ".join(fixes))


def _of_sysctls(
    guarded: Guarded, owned: frozenset[str], facts: Mapping[str, str]
) -> Iterator[Beside]:
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
            yield Beside("host.ip", found, breaks, f"sysctl -w {name}={harmless}")


def _by_route(rule: SysctlRule, netdev: str, facts: Mapping[str, str]) -> bool:
    """ARP is answered by the route to who asks (`arp_filter` of the device or of all)."""
    keys = (f"kernel.sysctl.{name}.arp_filter" for name in (ALL, conf_name(netdev)))
    return rule.setting == "arp_ignore" and any(facts.get(key) == "1" for key in keys)
