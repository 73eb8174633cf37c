"""The parts of a Cumulus switch outside the rows: bridge membership, splits, and RoCE.

Splits: NVUE reference, `link breakout`, from 5.4 on; page "Switch Port Attributes". RoCE is one
profile for the switch; ports name profiles of marking or of shares. The name of ours gives its
content, `railyard-300-3000-20`, and we never change one. For a port that names one, the RoCE
profile no longer applies in that section, so ours holds every class (page "Quality of Service").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from components.core.templates import fault_text
from components.fabric.parts import WRITTEN, read_fields, write_text
from components.fabric.state import EcnState, PortState, SwitchState
from components.fabric.systems import cumulus as nvue
from components.fabric.systems.base import Unsettable
from components.fabric.systems.cumulus import Line, rows
from components.fabric.systems.ranges import collapse_vlans, fill_membership

_HELD: Final = "split_held"
"""Key of a switch's `native`: whole ports with settings that parts do not have."""
_NAMED: Final = "split_named"
"""Key of `native`: whole ports with settings in the configuration besides their split."""
_SPLIT: Final = "link breakout"
# The RoCE profile, by the table of defaults and the transcripts of the vendor's page on it.
ROCE_PRIORITY: Final = 3
CNP_PRIORITY: Final = 6
"""Served strictly, from DSCP 48 to 55."""
ECN_MIN_BYTES: Final = 150_000
ECN_MAX_BYTES: Final = 1_500_000
GIVEN: Final = EcnState(min_kib=146, max_kib=1464)
"""The profile's thresholds in KiB; `nv show qos roce` prints 146.48 KB and 1.43 MB."""
MARKED_CLASSES: Final = frozenset({0, ROCE_PRIORITY})
"""`enabled-tc 0,3`."""
_GIVEN_SHARES: Final = ({0: 50, ROCE_PRIORITY: 50}, (CNP_PRIORITY,))
OURS: Final = "railyard-"
"""Prefix of our profiles' names."""
_MARKING: Final = "congestion-control"
_SHARES: Final = "egress-scheduler"
_SECTIONS: Final = {_MARKING: f"ecn_{ROCE_PRIORITY}", _SHARES: f"schedule_{ROCE_PRIORITY}"}
"""Section of QoS to the key of a port's `native` that holds the profile that it names there."""
_PROFILES: Final = "profiles"
"""Key of a switch's `native`: our profiles, and who names them."""
_Wish = tuple[str, Mapping[str, Mapping[str, str | int]]]
"""The profile that a port needs, blank for none; and in it classes, such as `0,3`, to words."""
_Move = tuple[str, str, str, _Wish]
"""A port, the section, the profile it names there, and the one it should name."""


def read_member(entry: nvue.Tree) -> dict[str, object]:
    """Mode and VLANs of a port in the bridge."""
    member = nvue.child(entry, *rows.DOMAIN.split())
    if nvue.value_at(entry, rows.DOMAIN) is None:
        return {}
    access = nvue.number_at(member, "access", nvue.VLANS)
    if access is not None:
        return {"mode": "access", "access_vlan": access}
    # Without its own list a member carries every VLAN of the bridge.
    vlans = nvue.vlans_of(nvue.spelled(member, "vlan")) if "vlan" in member else "all"
    if "untagged" not in member:
        return {"mode": "trunk", "trunk_vlans": vlans}
    vlan = 0 if member["untagged"] == "none" else nvue.number_at(member, "untagged", nvue.VLANS)
    return {"mode": "hybrid", "trunk_vlans": vlans, "access_vlan": vlan}


def _member(port: PortState) -> dict[str, str] | None:
    """The keys below the bridge to their words, blank in the list of VLANs; None: outside it."""
    if port.mode in {None, "routed"}:
        return None
    if port.mode == "access":
        return {} if port.access_vlan is None else {"access": str(port.access_vlan)}
    words = {"untagged": str(port.access_vlan or "none")} if port.mode == "hybrid" else {}
    if port.trunk_vlans in {None, "all"}:
        return words
    return {**words, "vlan": "", **{f"vlan {vlan}": "" for vlan in sorted(port.trunk_vlans or ())}}


def member_lines(was: PortState, port: PortState, _release: object) -> list[rows.Tail]:
    """Access, untagged and tagged VLANs exclude each other, so the old ones are unset first."""
    old, new = _member(was), _member(fill_membership(was, port))
    if old == new:
        return []
    if new is None or (old is None and not new):
        return [("unset" if new is None else "set", rows.DOMAIN, None)]
    held = old or {}
    lines: list[rows.Tail] = [
        ("unset", f"{rows.DOMAIN} {key}", None)
        for key in held
        if key not in new and ("vlan" in new or not key.startswith("vlan "))
    ]
    for key, word in new.items():
        if word and held.get(key) != word:
            lines.append(("set", f"{rows.DOMAIN} {key}", word))
    added = [int(key[5:]) for key in new if key.startswith("vlan ") and key not in held]
    more: rows.Tail = ("set", f"{rows.DOMAIN} vlan {collapse_vlans(added)}", None)
    return [*lines, more] if added else lines


def _count_parts(entry: nvue.Tree) -> int:
    """Read `4x: {}`, also with lanes below it; `disabled` marks the port next to a split."""
    split = nvue.value_at(entry, _SPLIT)
    word = next(iter(split), "") if isinstance(split, dict) else str(split or "")
    found = re.fullmatch(r"([1248])x\S*|disabled|loopback|", word)
    if found is None:
        raise ValueError(f"`{_SPLIT}` is {split!r}, which it cannot be")
    return int(found[1] or 1)


def is_only_split(entry: nvue.Tree) -> bool:
    """Whether the split is the only setting of an interface."""
    only = {*entry} <= {"link", "type"} and {*nvue.child(entry, "link")} == {"breakout"}
    return only and _count_parts(entry) > 1


def read_splits(
    entries: Mapping[str, nvue.Tree], ports: Mapping[str, PortState], wanted: SwitchState
) -> tuple[dict[str, object], dict[str, str]]:
    """Every split port, the requested ones, and notes about whole ports."""
    splits: dict[str, tuple[str, ...]] = {name: (name,) for name in wanted.splits or {}}
    for name, count in ((name, _count_parts(entry)) for name, entry in entries.items()):
        if count > 1:
            splits[name] = tuple(f"{name}s{part}" for part in range(count))
    swps = [name for name in entries if name.startswith("swp")]
    parts = tuple(name for name in swps if not name[3:].isdecimal())
    wholes = sorted({*swps} - {*parts})
    held = (name for name in wholes if _has_more(entries[name], ports[name]))
    named = (name for name in wholes if ports[name].native.get("admin_up") == WRITTEN)
    words = {_HELD: write_text(held), _NAMED: write_text(named)}
    return {"splits": splits, "configured_parts": parts}, words


def _has_more(entry: nvue.Tree, port: PortState) -> bool:
    """Whether a port has settings besides its state and its link, which a split takes along."""
    keys = ("rest", *(row.setting for row in rows.PORT))
    noted = any(port.native.get(key) == WRITTEN for key in keys)
    routed = nvue.child(entry, "ip", "address") or nvue.child(entry, "ipv4", "address")
    return noted or bool(routed) or port.mode != "routed" or bool(named_of(entry))


def split_lines(states: rows.States) -> Iterator[Line]:
    """Lines that join ports, after the lines of their parts; then lines that split ports."""
    coming: dict[int, list[str]] = {}
    for whole, parts in (states[1].splits or {}).items():
        held = (states[0].splits or {}).get(whole, (whole,))
        if len(parts) > 1 and held != parts:
            if len(held) > 1:
                words = {"count": len(held), "wants": len(parts), "parts": ",".join(held)}
                text = fault_text(__file__, "other-split", whole=whole, path=_SPLIT, **words)
                raise Unsettable(text)
            if whole in states[0].noted(_HELD) and whole not in states[1].ports:
                raise Unsettable(fault_text(__file__, "more-settings", whole=whole))
            coming.setdefault(len(parts), []).append(whole)
        elif len(held) > len(parts):
            # An entry from before our change stays, as a blank one; an entry that we made goes.
            bare = all(whole not in state.noted(_NAMED) for state in states)
            yield Line("unset", f"interface {whole}" if bare else f"interface {whole} {_SPLIT}")
    for count, wholes in coming.items():
        yield from (Line("set", f"interface {whole} {_SPLIT} {count}x") for whole in wholes)


def named_of(entry: nvue.Tree) -> dict[str, str]:
    """Section to the profile that a port names in it."""
    found = {section: nvue.value_at(entry, f"qos {section} profile") for section in _SECTIONS}
    return {section: name for section, name in found.items() if isinstance(name, str)}


def read_holders(tree: nvue.Tree, entries: Mapping[str, nvue.Tree]) -> dict[str, str]:
    """Our profiles, each with the ports that name it, as a switch's `native` holds them."""
    users: dict[str, list[str]] = {}
    for section in _SECTIONS:
        users |= {f"{section} {name}": [] for name in nvue.child(tree, "qos", section)}
    for port, entry in entries.items():
        for section, name in named_of(entry).items():
            users.setdefault(f"{section} {name}", []).append(port)
    ours = {name: ports for name, ports in sorted(users.items()) if f" {OURS}" in name}
    found = {profile: ",".join(names) for profile, names in ours.items()}
    return {_PROFILES: write_text(found)} if found else {}


def native_of(entry: nvue.Tree, wanted: PortState) -> dict[str, str]:
    """The profiles to put back on a port, for the requested settings."""
    asked = {_MARKING: bool(wanted.ecn), _SHARES: wanted.strict_classes is not None}
    return {_SECTIONS[key]: name for key, name in named_of(entry).items() if asked[key]}


def read_qos(
    tree: nvue.Tree, entry: nvue.Tree, given: SwitchState | None, wanted: PortState
) -> dict[str, object]:
    """The settings that the RoCE profile gives to a port, with the port's own over them."""

    def own(section: str) -> nvue.Tree:
        name = nvue.value_at(entry, f"qos {section} profile")
        return nvue.child(tree, "qos", section, str("default-global" if name is None else name))

    usual = given.ports[""] if given else PortState()
    paused, mapping = own("pfc"), nvue.value_at(entry, "qos mapping profile")
    trust = own("mapping").get("trust", "l2") if isinstance(mapping, str) else ""
    classes = _numbered(own(_SHARES), "traffic-class")
    marks = {tc: _ecn(row) for tc, row in _numbered(own(_MARKING), "traffic-class").items()}
    strict = tuple(sorted(tc for tc, row in classes.items() if row.get("mode") == "strict"))
    has_strict = classes and given and given.roce != "none"
    found: dict[str, object] = {
        "trust": nvue.TRUST.get(str(trust)) or usual.trust,
        "ecn": {**usual.ecn, **marks} if given else {},
        "pfc_priorities": tuple(sorted(_numbered(paused, "switch-priority"))) if paused else None,
        "strict_classes": strict if has_strict else usual.strict_classes,
    }
    if wanted.class_shares:
        shares = {tc: row.get("bw-percent") for tc, row in classes.items()}
        set_here = {tc: share for tc, share in shares.items() if isinstance(share, int)}
        found["class_shares"] = set_here if classes else usual.class_shares
    if wanted.class_shares and wanted.rewrite_dscp is not None:
        # Its own table: DSCP 24 to 31 are priority 3.
        dscps = {dscp: dscp // 8 for dscp in range(64)}
        for dscp, row in _numbered(own("mapping"), "dscp").items():
            dscps[dscp] = int(str(row.get("switch-priority", dscps[dscp])))
        rewrites = own("remark").get("rewrite") in {"l3", "both"}
        found |= {"rewrite_dscp": rewrites, "dscp_priorities": dscps}
    return found


def _numbered(profile: nvue.Tree, key: str) -> dict[int, nvue.Tree]:
    return {int(name): row for name, row in nvue.spelled(profile, key).items() if name.isdecimal()}


def _ecn(row: nvue.Tree) -> EcnState | None:
    """Both spellings of the thresholds are published, and both are bytes."""
    marks, drops = (str(row.get(key, "")) in nvue.ON for key in ("ecn", "red"))
    if not (marks or drops):
        return None
    ends = (row.get(f"{e}-threshold-bytes", row.get(f"{e}-threshold", 0)) for e in ("min", "max"))
    low, high = (int(str(end)) // nvue.BYTES_PER_KIB for end in ends)
    kind = "both" if marks and drops else "ecn" if marks else "red"
    percent = int(str(row.get("probability", 100)))
    return EcnState(min_kib=low, max_kib=high, percent=percent, kind=kind)


def profile_lines(states: rows.States) -> Iterator[Line]:
    """Lines for profiles that ports need, for ports that name them, and for unused profiles."""
    moves = tuple(_moves(states))
    recorded = read_fields(states[0].native.get(_PROFILES))
    users = {profile: {*filter(None, names.split(","))} for profile, names in recorded.items()}
    named: dict[tuple[str, str], list[str]] = {}
    for port, section, was, (name, _) in moves:
        users.setdefault(f"{section} {was}", set()).discard(port)
        named.setdefault((section, name), []).append(port)
    made = {f"{section} {name}": words for _, section, _, (name, words) in moves}
    for profile in (profile for profile in made if profile not in users):
        for classes, words in made[profile].items():
            head = f"qos {profile} traffic-class {classes}"
            yield from (Line("set", f"{head} {key}", word) for key, word in words.items())
    for (section, name), ports in named.items():
        path = f"interface {nvue.collapse_ports(ports)} qos {section}"
        yield Line("set", f"{path} profile", name) if name else Line("unset", path)
    for profile, left in sorted(users.items()):
        if not left and profile not in made and f" {OURS}" in profile:
            yield Line("unset", f"qos {profile}")


def _moves(states: rows.States) -> Iterator[_Move]:
    """The ports that need another profile; a foreign profile stays unless it must go."""
    for name, port in states[1].ports.items():
        was = states[0].ports.get(name, PortState())
        for section, wish_of in ((_MARKING, _wish_marking), (_SHARES, _wish_shares)):
            key = _SECTIONS[section]
            held = was.native.get(key, "")
            wish: _Wish | None = wish_of(was, port)
            if key in port.native:
                wish = port.native[key], {}
            elif wish and not wish[0] and not held.startswith(OURS):
                wish = None
            if wish and wish[0] != held:
                yield name, section, held, wish


def _wish_marking(was: PortState, port: PortState) -> _Wish | None:
    wanted = port.ecn.get(ROCE_PRIORITY)
    if ROCE_PRIORITY not in port.ecn or wanted == was.ecn.get(ROCE_PRIORITY) != GIVEN:
        return None
    if wanted is None or wanted == GIVEN:
        return "", {}
    low, high, percent = wanted.min_kib, wanted.max_kib, wanted.percent
    thresholds = {
        "min-threshold": low * nvue.BYTES_PER_KIB,
        "max-threshold": high * nvue.BYTES_PER_KIB,
    }
    words = {"ecn": "enable", **thresholds, "probability": percent}
    return f"{OURS}{low}-{high}-{percent}", {collapse_vlans(MARKED_CLASSES): words}


def _wish_shares(was: PortState, port: PortState) -> _Wish | None:
    strict, held = port.strict_classes or (), was.native.get(_SECTIONS[_SHARES], "")
    if not port.class_shares:
        return None
    if not any(port.class_shares.values()):
        return "", {}
    same = was.class_shares == port.class_shares and was.strict_classes == strict
    if same and not held.startswith(OURS):
        return None
    shares = {tc: n for tc, n in sorted(port.class_shares.items()) if n and tc not in strict}
    words = [f"{tc}x{share}" for tc, share in shares.items()]
    name = OURS + "-".join([*words, "s" + "".join(map(str, sorted(strict)))])
    needs_none = not held or (
        held.startswith(OURS) and held != name
    )  # a profile that replaced a foreign one stays
    if (port.class_shares, strict) == _GIVEN_SHARES and needs_none:
        return "", {}
    served = {str(tc): {"mode": "dwrr", "bw-percent": share} for tc, share in shares.items()}
    return name, {**served, **{str(tc): {"mode": "strict"} for tc in sorted(strict)}}


def mode_lines(states: rows.States) -> Iterator[Line]:
    """The profile of the whole switch."""
    actual, target = states
    if target.roce == "none" != actual.roce:
        yield Line("unset", "qos roce")
    elif target.roce not in {None, actual.roce}:
        yield Line("set", "qos roce mode", target.roce, rows.switched_on(actual, "qos roce"))
    elif target.roce not in {None, "none"}:
        _require_profile(states)


def _require_profile(states: rows.States) -> None:
    """Check the settings that only the profile can give, and that every port keeps."""
    actual, target = states
    moved = {(port, section) for port, section, *_ in _moves(states)}
    found: list[str] = []
    culprit = ""
    if target.pfc_priorities not in {None, actual.pfc_priorities}:
        found.append(f"pfc_priorities are {actual.pfc_priorities}, want {target.pfc_priorities}")
    for name, port in target.ports.items():
        was = actual.ports.get(name, PortState())
        if port.trust not in {None, was.trust}:
            found.append(f"trust of {name} is {was.trust}, want {port.trust}")
        for tc, ecn in port.ecn.items() if (name, _MARKING) not in moved else ():
            if ecn is not None and ecn != was.ecn.get(tc):
                found.append(f"ECN of class {tc} is {was.ecn.get(tc)}, want {ecn}")
        strict = {*(port.strict_classes or ())} - {*(was.strict_classes or ())}
        if strict and (name, _SHARES) not in moved:
            found.append(f"strict classes are {was.strict_classes}, want {port.strict_classes}")
        culprit = culprit or (name if found else "")
    if found:
        words = {"found": "; ".join(dict.fromkeys(found)), "port": culprit or "swp1"}
        raise Unsettable(fault_text(__file__, "overridden", target=target, **words))
