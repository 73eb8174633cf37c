"""`nv set` and `nv unset`: the paths of NVUE's tree that this emulator knows, and their effect.

Paths: lab/sources.md#cumulus, the vendor's NVUE reference and public clients. NVUE refuses an
unknown word with `Error: Invalid parameter`; the rest of that line is a guess. It is also a guess
that empty branches vanish after an `unset`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final, cast

import yaml
from pydantic import JsonValue

from components.core.record import record
from lab.switches.cumulus.config import Tree
from lab.switches.cumulus.values import NvueError, bad, read_value
from lab.switches.text import numbers

QOS_PROFILES: Final = ("mapping", "remark", "egress-scheduler", "congestion-control", "pfc")
"""Kinds of profile that a port may name; default: `default-global` (page "Quality of Service")."""
_PORT: Final = "interface <ports>"
_MEMBER: Final = f"{_PORT} bridge domain <name>"
_BGP: Final = "vrf <name> router bgp"
_PEER: Final = f"{_BGP} neighbor <peer>"
_FAMILY: Final = f"{_BGP} address-family ipv4-unicast"
_CLASS: Final = "traffic-class <classes>"
_MARKED: Final = f"qos congestion-control <name> {_CLASS}"
_TIMES: Final = "detect-multiplier =number|min-rx-interval =number|min-tx-interval =number"
_ON: Final = "enable =switch|state =state-word"
_BELOW: Final = {
    "bridge domain <name>": "|vlan <vlans>|stp priority =number",
    "interface <any>": "|ip address <prefix>|ipv4 address <prefix>|type =type|vlan =number",
    _PORT: "description =text|qos pfc-watchdog state =toggle",
    f"{_PORT} link": "mtu =mtu|state <state>|speed =speed|fec =fec|auto-negotiate =autoneg",
    "interface <wholes> link breakout <mode>": "|lanes-per-port =number",
    _MEMBER: "|access =vlan|untagged =native|vlan <vlans>",
    f"{_MEMBER} stp": "admin-edge =autoneg|bpdu-guard =autoneg",
    f"{_PORT} qos": "|".join(f"{each} profile =name" for each in QOS_PROFILES),
    f"{_PORT} router adaptive-routing": _ON,
    "router adaptive-routing": _ON,
    "router bgp": f"{_ON}|autonomous-system =number|router-id =text|graceful-shutdown =shutdown",
    "router bfd": "state =state-word",
    "router bfd profile <name>": _TIMES,
    _BGP: _ON,
    _PEER: "type =text|remote-as =text|description =text",
    f"{_PEER} bfd": f"enable =switch|{_TIMES}|profile =name",
    _FAMILY: f"{_ON}|network <prefix>|multipaths ebgp =number",
    "qos mapping <name>": "trust =trust|dscp <dscps> switch-priority =class",
    "qos remark <name>": "rewrite =layer|switch-priority <classes> dscp =dscp",
    f"qos egress-scheduler <name> {_CLASS}": "mode =schedule|bw-percent =percent",
    _MARKED: "ecn =toggle|red =toggle|min-threshold =number|max-threshold =number"
    "|min-threshold-bytes =number|max-threshold-bytes =number|probability =percent",
    "qos pfc <name>": "switch-priority <classes>|rx =toggle|tx =toggle",
    "qos roce": f"|mode =roce|{_ON}|cable-length =length",
    "system config auto-save": _ON,
}
"""First words of paths to their ends; `<…>` is a key and `=…` a value (values.py)."""
SET_PATHS: Final = tuple(
    tuple(f"{head} {end}".split()) for head, ends in _BELOW.items() for end in ends.split("|")
)


@record
class _Step:
    """One level of a path: its keys, or the value at its end."""

    keys: tuple[str, ...] = ()
    value: JsonValue = None


SINCE: Final = {"breakout": (5, 4, 0), "pfc-watchdog": (5, 6, 0), "adaptive-routing": (5, 1, 0)}
"""Word of a path to the first release with it (NVUE reference)."""


def change_tree(
    tree: Tree,
    verb: str,
    words: list[str],
    ports: Collection[str],
    release: str = "",
    *,
    typed: bool = True,
) -> None:
    """Apply `nv set …` or `nv unset …` to a tree.

    Args:
        tree: Changed in place.
        verb: `set` or `unset`.
        words: The path, and the value.
        ports: The front panel.
        release: The running release; empty for one that has every path.
        typed: Whether it is a typed line; NVUE then adds further settings.

    Raises:
        NvueError: The path or a value is not known.
    """
    if release:
        _check_release(words, numbers(release))
    steps = _match(words, ports, whole=verb == "set")
    if verb == "set":
        _set(tree, steps)
        if typed:
            new = bool(release) and numbers(release) >= _STATE_WORDS
            _settle(tree, steps, ("state", "enabled") if new else ("enable", "on"))
    else:
        _unset(tree, steps)


_STATE_WORDS: Final = (5, 15)
_ON_OFF: Final = ({"on", "off"}, {"enabled", "disabled"})
_ENABLE: Final = ({"enable"}, {"state"})
_FORMS: Final = (
    (r"interface \S+ (ip|ipv4)\b", ({"ip"}, {"ipv4"}), _STATE_WORDS),
    (r"(?:interface \S+ )?router adaptive-routing (\S+)", _ENABLE, _STATE_WORDS),
    (r"router bgp graceful-shutdown (\S+)", _ON_OFF, _STATE_WORDS),
    (r"(?:vrf \S+ )?router bgp(?: address-family \S+)? (\S+)", _ENABLE, _STATE_WORDS),
    (r"qos roce (\S+)", _ENABLE, _STATE_WORDS),
    (
        r"vrf \S+ router bgp neighbor \S+ bfd (\S+)",
        ({"enable", "detect-multiplier", "min-rx-interval", "min-tx-interval"}, {"profile"}),
        _STATE_WORDS,
    ),
    (r"router (bfd)\b", (set[str](), {"bfd"}), _STATE_WORDS),
    (r"interface \S+ link auto-negotiate (\S+)", _ON_OFF, (5, 16)),
    (r"interface \S+ bridge domain \S+ stp \S+ (\S+)", _ON_OFF, _STATE_WORDS),
)
"""Place of a word, its words before and after a change, and the release of the change.

Page "New and Changed NVUE Commands" of 5.15; release notes of 5.16 for the last.
"""


def _check_release(words: list[str], now: tuple[int, ...]) -> None:
    text = " ".join(words)
    for word in words:
        if now < SINCE.get(word, ()):
            raise bad(word, f"a part of {text}")
    for place, (before, after), first in _FORMS:
        found = re.match(place, text)
        if found is not None and found[1] in (before if now >= first else after):
            raise bad(found[1], f"a part of {text}")


def read_patch(text: str) -> list[tuple[str, list[str]]]:
    """The paths of a document for `nv config patch`, each with its verb; `unset` comes first.

    Raises:
        NvueError: The text is not a list of operations, or it unsets and sets the same object. A
            patch does not support that (page "NVUE CLI"; the words of the refusal are a guess).
    """
    try:
        parts = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise NvueError(f"Error: Failed to parse YAML: {error}") from error
    held = cast("list[object]", parts) if isinstance(parts, list) else [parts]
    if not all(isinstance(part, dict) for part in held):
        raise NvueError("Error: NVUE file must contain a list of operation objects")
    lines = [
        (verb, words)
        for part in cast("list[dict[str, Tree]]", parts)
        for verb in ("unset", "set")
        for words in _leaves(part.get(verb, {}))
    ]
    gone = {tuple(words[:3]) for verb, words in lines if verb == "unset"}
    both = gone & {tuple(words[:3]) for verb, words in lines if verb == "set"}
    if both:
        raise NvueError(f"Error: set and unset of the same object: {' '.join(min(both))}")
    return lines


def _leaves(tree: Tree, *above: str) -> Iterator[list[str]]:
    """Each path to a leaf; a key with an empty value ends its path."""
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, *above, str(key))
        else:
            yield [*above, str(key), *([] if value in (None, {}) else [str(value)])]


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
    values = read_value(kind, word, ports)
    return _Step(tuple(map(str, values))) if part[0] == "<" else _Step(value=values[0])


def _set(tree: Tree, steps: list[_Step]) -> None:
    paths: list[tuple[Tree, str, Tree]] = [({}, "", tree)]
    for step in steps:
        if step.value is not None:
            for parent, key, _ in paths:
                parent[key] = step.value
            break
        paths = [_enter(here, key) for _, _, here in paths for key in step.keys]


_EITHER: Final = frozenset({"up", "down", "1x", "2x", "4x", "8x"})


def _enter(here: Tree, key: str) -> tuple[Tree, str, Tree]:
    if key in _EITHER:
        here.clear()  # a link is one or the other
    held = here.get(key)
    below: Tree = held if isinstance(held, dict) else {}
    here[key] = below
    return here, key, below


def _settle(tree: Tree, steps: list[_Step], on: tuple[str, str]) -> None:
    """Add the settings that NVUE writes after a typed line; for a document they are not known.

    `nv set qos roce` switches it on. The vendor's page on BGP shows the additions for BGP and
    routed interfaces, and every public configuration has `type: swp`.
    """
    words = [step.keys[0] for step in steps if step.keys]
    key, word = on
    if words[:2] in (["qos", "roce"], ["router", "bgp"]) and "cable-length" not in words:
        _below(tree, *words[:2]).setdefault(key, word)
    elif words[:1] == ["interface"]:
        for name in steps[1].keys:
            _type_interface(tree, name)
    elif words[:1] == ["vrf"]:
        _switch_on_bgp(tree, words, on)


def _type_interface(tree: Tree, name: str) -> None:
    entry = _below(tree, "interface", name)
    kinds = {"lo": "loopback", "swp": "swp", "vlan": "svi"}
    kind = kinds.get(name.rstrip("0123456789s") if name != "lo" else name)
    if kind is not None:
        entry.setdefault("type", kind)
    if kind == "svi":
        entry.setdefault("vlan", int(name[4:]))


def _switch_on_bgp(tree: Tree, words: list[str], on: tuple[str, str]) -> None:
    bgp = _below(tree, *words[:4])
    bgp.setdefault(*on)
    if words[4] == "neighbor":
        # `numbered` is a guess: the driver reads no type.
        kind = "unnumbered" if words[5].startswith("swp") else "numbered"
        _below(bgp, "neighbor", words[5]).setdefault("type", kind)
    if words[4] == "address-family":
        _below(bgp, *words[4:6]).setdefault(*on)


def _below(tree: Tree, *path: str) -> Tree:
    here = tree
    for key in path:
        here = cast("Tree", here[key])
    return here


def _unset(tree: Tree, steps: list[_Step]) -> None:
    """Remove everything at the path, and then empty branches above it."""
    keyed = steps[:-1] if steps and steps[-1].value is not None else steps
    _remove(tree, [step.keys for step in keyed], depth=0)


_NAMED: Final = ([("interface",)], [("domain",)])
"""An entry under these keys stays even if it is empty: a named port is up (a guess)."""


def _remove(here: Tree, keys: list[tuple[str, ...]], depth: int) -> None:
    for key in keys[depth]:
        below = here.get(key)
        if depth == len(keys) - 1:
            here.pop(key, None)
        elif isinstance(below, dict) and below:
            _remove(below, keys, depth + 1)
            if not below and keys[depth - 1 : depth] not in _NAMED:
                del here[key]
