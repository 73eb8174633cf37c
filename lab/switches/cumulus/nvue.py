"""`nv set` and `nv unset`: which paths of NVUE's tree this emulator knows, and what they do.

Paths: docs/explanation/sources.md#cumulus, the vendor's NVUE reference and public clients. NVUE
names an unknown word by `Error: Invalid parameter`; the rest of that line is a guess. That empty
branches vanish after an `unset` is a guess as well.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, cast

from pydantic import JsonValue

from lab.switches.cumulus.config import Tree, child
from lab.switches.cumulus.values import VALUES, NvueError, bad
from lab.switches.release import numbers

QOS_PROFILES: Final = ("mapping", "remark", "egress-scheduler", "congestion-control", "pfc")
"""What a port names a profile of, else it has `default-global` (page "Quality of Service")."""
SET_PATHS: Final = tuple(
    tuple(path.split())
    for path in (
        "bridge domain <name>",
        "bridge domain <name> vlan <vlans>",
        "bridge domain <name> stp priority =number",
        "interface <any>",
        "interface <member> description =text",
        "interface <ports> link mtu =mtu",
        "interface <ports> link state <state>",
        "interface <ports> link speed =speed",
        "interface <ports> link fec =fec",
        "interface <ports> link auto-negotiate =autoneg",
        "interface <wholes> link breakout <mode>",
        "interface <wholes> link breakout <mode> lanes-per-port =number",
        "interface <any> ip address <prefix>",
        "interface <ports> qos pfc-watchdog state =toggle",
        "interface <member> bridge domain <name>",
        "interface <member> bridge domain <name> access =vlan",
        "interface <member> bridge domain <name> untagged =native",
        "interface <member> bridge domain <name> vlan <vlans>",
        *(f"interface <ports> qos {each} profile =name" for each in QOS_PROFILES),
        "qos mapping <name> trust =trust",
        "qos mapping <name> dscp <dscps> switch-priority =class",
        "qos remark <name> rewrite =layer",
        "qos remark <name> switch-priority <classes> dscp =dscp",
        "qos egress-scheduler <name> traffic-class <classes> mode =schedule",
        "qos egress-scheduler <name> traffic-class <classes> bw-percent =percent",
        "qos congestion-control <name> traffic-class <classes> ecn =toggle",
        "qos congestion-control <name> traffic-class <classes> red =toggle",
        "qos congestion-control <name> traffic-class <classes> min-threshold-bytes =number",
        "qos congestion-control <name> traffic-class <classes> max-threshold-bytes =number",
        "qos congestion-control <name> traffic-class <classes> min-threshold =number",
        "qos congestion-control <name> traffic-class <classes> max-threshold =number",
        "qos congestion-control <name> traffic-class <classes> probability =percent",
        "qos pfc <name> switch-priority <classes>",
        "qos pfc <name> rx =toggle",
        "qos pfc <name> tx =toggle",
        "qos roce",
        "qos roce mode =roce",
        "qos roce cable-length =length",
        "interface <ports> router adaptive-routing enable =switch",
        "interface <ports> router adaptive-routing state =state-word",
        "router adaptive-routing enable =switch",
        "router adaptive-routing state =state-word",
        "router bgp autonomous-system =number",
        "router bgp router-id =text",
        "router bgp graceful-shutdown =shutdown",
        "vrf <name> router bgp neighbor <peer> remote-as =text",
        "vrf <name> router bgp neighbor <peer> description =text",
        "vrf <name> router bgp neighbor <peer> bfd enable =switch",
        "vrf <name> router bgp neighbor <peer> bfd detect-multiplier =number",
        "vrf <name> router bgp neighbor <peer> bfd min-rx-interval =number",
        "vrf <name> router bgp neighbor <peer> bfd min-tx-interval =number",
        "vrf <name> router bgp neighbor <peer> bfd profile =name",
        "router bfd state =state-word",
        "system config auto-save enable =switch",
        "system config auto-save state =state-word",
        "interface <bond> bond member <ports>",
        "interface <bond> bond mlag id =number",
        "interface <bond> bond mode =bond-mode",
        "interface <bond> bond lacp-rate =lacp-rate",
        "mlag mac-address =mac",
        "mlag backup <peer>",
        "mlag peer-ip =peer-ip",
        "mlag init-delay =number",
        "router bfd profile <name> detect-multiplier =number",
        "router bfd profile <name> min-rx-interval =number",
        "router bfd profile <name> min-tx-interval =number",
        "vrf <name> router bgp address-family ipv4-unicast network <prefix>",
        "vrf <name> router bgp address-family ipv4-unicast multipaths ebgp =number",
    )
)


@dataclass(frozen=True, slots=True)
class _Step:
    """One level of a path: the keys it stands for, or the value that ends it."""

    keys: tuple[str, ...] = ()
    value: JsonValue = None


SINCE: Final = {"breakout": (5, 4, 0), "pfc-watchdog": (5, 6, 0), "adaptive-routing": (5, 1, 0)}
"""Word of a path to the release that brought it (NVUE reference)."""
_BFD_BY_PROFILE: Final = (5, 15)
"""From here on a neighbour names a profile of BFD, before it `enable on` (NVUE reference)."""


def change_tree(
    tree: Tree, verb: str, words: list[str], ports: Collection[str], release: str = ""
) -> None:
    """Do `nv set …` or `nv unset …` to a tree.

    Args:
        tree: Changed in place.
        verb: `set` or `unset`.
        words: The path, and the value.
        ports: The front panel.
        release: What the switch runs; empty for one that has every path.

    Raises:
        NvueError: The path or a value is not known.
    """
    for word in words if release else ():
        now = numbers(release)
        if now < SINCE.get(word, ()):
            raise bad(word, f"a part of {' '.join(words)}")
    if release and "bfd" in words:
        _check_bfd(words, new=numbers(release) >= _BFD_BY_PROFILE)
    if release and "adaptive-routing" in words:
        _check_words(words, numbers(release) >= _STATE_WORDS)
    if release and words[:3] == ["router", "bgp", "graceful-shutdown"] and words[3:]:
        new = numbers(release) >= _STATE_WORDS  # page "New and Changed NVUE Commands" of 5.15
        if words[3] not in (("enabled", "disabled") if new else ("on", "off")):
            raise bad(words[3], f"a part of {' '.join(words)}")
    steps = _match(words, ports, whole=verb == "set")
    if verb == "set":
        _set(tree, steps)
    else:
        _unset(tree, steps)


_STATE_WORDS: Final = (5, 15)
"""From here on adaptive routing has `state enabled`, before it `enable on` (NVUE reference)."""


def _check_words(words: list[str], new: bool) -> None:  # noqa: FBT001 - of the release
    other = "enable" if new else "state"
    if other in words:
        raise bad(other, f"a part of {' '.join(words)}")


def _check_bfd(words: list[str], *, new: bool) -> None:
    """One neighbour has times of its own, or the name of some, as the release has it."""
    is_profile = words[:2] == ["router", "bfd"] or "profile" in words
    if is_profile != new and (words[-1] != "bfd" or is_profile):
        raise bad("bfd", f"a part of {' '.join(words)}")


def _match(words: list[str], ports: Collection[str], *, whole: bool) -> list[_Step]:
    """Find the path that the words follow; `unset` may end anywhere on one."""
    longest = 0
    for path in SET_PATHS:
        fits = len(words) == len(path) if whole else len(words) <= len(path)
        agree = 0
        for word, part in zip(words, path, strict=False):
            if part[0] not in "<=" and part != word:
                break
            agree += 1
        longest = max(longest, agree)
        if fits and agree == len(words):
            return [_step(word, part, ports) for word, part in zip(words, path, strict=False)]
    at = words[longest] if longest < len(words) else "<cr>"
    raise NvueError(f"Error: Invalid parameter\n  '{at}' is not a part of {' '.join(words)}")


def _step(word: str, part: str, ports: Collection[str]) -> _Step:
    if part[0] not in "<=":
        return _Step((word,))
    kind = part.strip("<>=")
    values = VALUES[kind](word, ports)
    return _Step(tuple(map(str, values))) if part[0] == "<" else _Step(value=values[0])


def _set(tree: Tree, steps: list[_Step]) -> None:
    paths: list[tuple[Tree, str, Tree]] = [({}, "", tree)]
    for step in steps:
        if step.value is not None:
            for parent, key, _ in paths:
                parent[key] = step.value
            break
        paths = [_enter(here, key) for _, _, here in paths for key in step.keys]
    _settle(tree, steps)


_EITHER: Final = frozenset({"up", "down", "1x", "2x", "4x", "8x"})


def _enter(here: Tree, key: str) -> tuple[Tree, str, Tree]:
    if key in _EITHER:
        here.clear()  # a link is one or the other
    held = here.get(key)
    below: Tree = held if isinstance(held, dict) else {}
    here[key] = below
    return here, key, below


def _settle(tree: Tree, steps: list[_Step]) -> None:
    """What NVUE writes by itself beside what was set.

    `nv set qos roce` alone switches it on; what belongs to BGP and to routed interfaces stands in
    the file of the vendor's page on BGP.
    """
    words = [step.keys[0] for step in steps if step.keys]
    if words == ["qos", "roce"] and steps[-1].value is None:
        _below(tree, "qos", "roce")["enable"] = "on"
    elif words[:1] == ["interface"]:
        for name in steps[1].keys:
            _type_interface(tree, name)
    elif words[:2] == ["router", "bgp"]:
        _below(tree, "router", "bgp")["enable"] = "on"
    elif words[:1] == ["mlag"]:
        _below(tree, "mlag")["enable"] = "on"
    elif words[:1] == ["vrf"]:
        _switch_on_bgp(tree, words)


def _type_interface(tree: Tree, name: str) -> None:
    if name == "lo":
        _below(tree, "interface", "lo")["type"] = "loopback"
    elif name.startswith("bond"):
        held = _below(tree, "interface", name)
        held["type"] = "bond"
        mlag = child(held, "bond", "mlag")
        if mlag:
            mlag["enable"] = "on"
    elif name == "peerlink":
        _below(tree, "interface", name)["type"] = "peerlink"
        sub: Tree = {"base-interface": name, "type": "sub", "vlan": 4094}
        _below(tree, "interface").setdefault(f"{name}.4094", sub)
    elif name.startswith("vlan"):
        _below(tree, "interface", name).update({"type": "svi", "vlan": int(name[4:])})


def _switch_on_bgp(tree: Tree, words: list[str]) -> None:
    bgp = _below(tree, *words[:4])
    bgp["enable"] = "on"
    if words[4] == "neighbor":
        # `numbered` is a guess: the driver reads no type.
        kind = "unnumbered" if words[5].startswith("swp") else "numbered"
        _below(bgp, "neighbor", words[5])["type"] = kind
    if words[4] == "address-family":
        _below(bgp, *words[4:6])["enable"] = "on"


def _below(tree: Tree, *path: str) -> Tree:
    here = tree
    for key in path:
        here = cast("Tree", here[key])
    return here


def _unset(tree: Tree, steps: list[_Step]) -> None:
    """Remove what the path names, then the branches that this left empty."""
    keyed = steps[:-1] if steps and steps[-1].value is not None else steps
    _remove(tree, [step.keys for step in keyed], depth=0)


_NAMED: Final = ([("interface",)], [("domain",)])
"""What was named under these stays when it is empty: a port that stands there is up (a guess)."""


def _remove(here: Tree, keys: list[tuple[str, ...]], depth: int) -> None:
    for key in keys[depth]:
        below = here.get(key)
        if depth == len(keys) - 1:
            here.pop(key, None)
        elif isinstance(below, dict) and below:
            _remove(below, keys, depth + 1)
            if not below and keys[depth - 1 : depth] not in _NAMED:
                del here[key]
