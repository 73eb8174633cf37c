"""The table of keys, a row a key, and queries on it, here and as shell functions for scripts.

A host has rows of its driver, Docker, names, kernel, routes and boot unit. A card has rows of each
PF (`nic.<pci>.`), of its firmware, and of its VFs (`vf.<vf>.`).

A key outside the table is not a host setting. Each shell function is one `case`, and rows with the
same answer share a branch. No function starts a process.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import BeforeValidator, TypeAdapter

from components.core.difference import Effect
from components.core.record import record
from components.core.templates import read_table

Part = Literal[
    "system", "driver", "docker", "kernel", "pci", "routing", "vfs",
    "card", "firmware", "sriov", "qos",
]  # fmt: skip
"""The script for a key; `system` and `card` are in `reading.sh` and `writing.sh`."""
Topic = Literal[
    "hosts", "driver", "docker_config", "sysctl", "boot", "acs", "address", "vf_mtu", "firmware"
]
"""Work of the scripts that costs processes, and is done only if stdin names one of its keys."""
Interrupts = Literal["always", "has_vfs", "holds_guid", "holds_macs", "lost_all_vfs", "takes_link"]
"""When a change interrupts running jobs: always, or if the function of this name in `service.sh`
succeeds. A preview cannot see `lost_all_vfs` (all VFs are in pods)."""
Undo = Literal["recorded", "if_taken", "stays", "looked"]
"""The action of an undo.

- `recorded`: puts the recorded value back, or fails.
- `if_taken`: the same, but if the machine no longer accepts the value, notes it and goes on.
- `stays`: does nothing. Packages stay in a running system.
- `looked`: does nothing, because the key is only compared, never set.
"""
Condition = Literal[
    "vf_is_gone", "vfs_are_gone", "is_unsupported", "went_with_module",
    "card_is_gone", "sysctl_is_gone", "pages_are_gone", "governor_is_gone", "balancing_is_gone",
]  # fmt: skip
"""A function of the scripts that gets the key and answers yes or no."""
_PCI: Final = r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]"
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]*"
SYSCTL_MODULES: Final = {
    "net.bridge.": "br_netfilter",
    "net.netfilter.nf_conntrack_": "nf_conntrack",
    "net.nf_conntrack_max": "nf_conntrack",
    "net.ipv4.vs.": "ip_vs",
    "sunrpc.rdma_": "rpcrdma",
    "sunrpc.svc_rdma.": "rpcrdma",
    "sunrpc.": "sunrpc",
}
"""Prefix of a kernel setting to its module; the first match counts (kernel documentation,
networking/nf_conntrack-sysctl, ipvs-sysctl, admin-guide/sysctl). At boot, before Kubernetes, these
modules are not loaded."""
_CACHED: Final = 1 << 16
"""Keys whose row is cached: a host of 8 cards with 16 VFs each has some 1,000."""
_YES: Final = ":"
_NO: Final = "return 1"
_LAST_RANK: Final = 71
"""Rank of a key that an older version recorded and the table no longer lists."""


class Number(NamedTuple):
    """A whole number of at most five digits."""

    lowest: int
    highest: int


class Text(NamedTuple):
    """A text; `valid_value` refuses characters that are never allowed."""

    words: tuple[str, ...] = ()
    """Values that are accepted unchanged."""
    characters: str = ""
    """Allowed characters, as in a bracket of a shell pattern; empty: any."""
    forms: tuple[str, ...] = ()
    """Shell patterns; a value must match one."""
    longest: int = 0
    """Greatest number of characters; 0: unlimited."""
    others: bool = True
    """Whether values outside `words` are valid."""


Values = Number | Text


class HostKey(NamedTuple):
    """The properties of one key, or of one family of keys."""

    pattern: str
    """The key. `<name>` is a variable part; `PLACES` defines its kind."""
    rank: int = 0
    """Place in the order in which settings are applied; undone in reverse. 0: never set."""
    values: Values = Text()
    """Values that a file may set. Recorded values come from the host, and may differ."""
    back_rank: int = 0
    """Place in the order of an undo, if it differs from `rank`; the greatest goes first."""
    lost: bool = False
    """A reboot loses it, so `railyard-nics.service` sets it again."""
    topic: Topic | None = None
    effect: Annotated[Effect, BeforeValidator(lambda word: Effect[word.upper()])] = Effect.LINK
    """The effect of a change on running traffic, if `interrupts` and `loads_at_start` do not
    determine it. `LINK` without them means that the row was never judged; a test refuses it."""
    interrupts: Interrupts | None = None
    loads_at_start: bool = False
    """It takes effect at the next start of host or card; `<key>_current` is the active value."""
    undo: Undo = "recorded"
    nothing_where: Condition | None = None
    """When an undo skips the key, although it is `recorded`."""
    gone_where: Condition | None = None
    """When the object with this setting no longer exists."""
    leaves: str = ""
    """The remains of an undo, in words; with `loads_at_start`, until the next start."""
    idle: str = ""
    """The value that changes, loads and leaves nothing."""
    parameter: str = ""
    """The mlxconfig name of a firmware setting."""
    part: Part = "system"


def effect_of(row: HostKey) -> Effect:
    """The effect of a change of a setting on running work."""
    if row.undo == "looked":
        return Effect.NONE
    if row.interrupts == "takes_link":
        return Effect.LINK
    return Effect.NODE if row.interrupts or row.loads_at_start else row.effect


@record
class Place:
    """A variable part of a key."""

    expression: str
    globs: tuple[str, ...] = ("*",)
    """Shell patterns; together they cover every valid part."""
    check: str = ""
    """The shell command that checks the part, if the patterns do not suffice."""


PLACES: Final = {
    "pci": Place(_PCI, check='pci_address "$key_place"'),
    "vf": Place(rf"{_PCI}\.\d{{1,3}}", check='vf_address "$key_place"'),
    "name": Place(_NAME, check='name "$key_place"'),
    "sysctl": Place(r"[A-Za-z0-9._/-]+", check='sysctl_name "$key_place"'),
    "table": Place(r"\d{1,5}", check='number "$key_place" 1 32000'),
    "node": Place(r"\d{1,4}", check='number "$key_place" 0 1023'),
    "dscp": Place(r"(?:[1-5]?\d|6[0-3])", ("[0-9]", "[1-5][0-9]", "6[0-3]")),
    "priority": Place("[0-7]", ("[0-7]",)),
    "class": Place("[0-7]", ("[0-7]",)),
}
"""Kind of a variable part to its valid forms: a PCI address, a PCI address with the number of a VF,
a name, the dotted name of a kernel setting, a routing table, a NUMA node, a DSCP, a priority, a
traffic class."""


@cache
def all_keys() -> tuple[HostKey, ...]:
    """The rows of `table.yaml`, read at first use; no key matches two."""
    rows: list[dict[str, object]] = []
    tables: dict[str, list[dict[str, Any]]] = read_table(__file__, "table")
    for group in (*tables["system"], *tables["card"]):
        shared = {key: value for key, value in group.items() if key not in {"begin", "rows"}}
        for key, row in group["rows"].items():
            rows.append({**shared, **row, "pattern": f"{group.get('begin', '')}{key}"})
    return TypeAdapter(tuple[HostKey, ...]).validate_python(rows)


def _split(row: HostKey) -> list[str]:
    """The fixed text of a pattern and the kinds of its variable parts, in turn."""
    return row.pattern.replace(">", "<").split("<")


def expression(row: HostKey) -> str:
    """A row's pattern as a regular expression."""
    return "".join(
        PLACES[part].expression if number % 2 else re.escape(part)
        for number, part in enumerate(_split(row))
    )


@cache
def _any_key() -> re.Pattern[str]:
    # At first use: `check` of most files asks for no key, and compiling takes 8 ms.
    return re.compile("|".join(f"({expression(row)})" for row in all_keys()))


@lru_cache(_CACHED)
def find_row(key: str) -> HostKey:
    """The row of a key; one with no properties if the key is not in the table."""
    match = _any_key().fullmatch(key)
    return all_keys()[match.lastindex - 1] if match and match.lastindex else HostKey("")


def needs_drain(key: str) -> bool:
    """Whether a change may interrupt running jobs, as far as a preview can see."""
    return find_row(key).interrupts not in {None, "lost_all_vfs"}


def is_idle(key: str, value: str) -> bool:
    """Whether a key with this value changes nothing."""
    return find_row(key).idle == value != ""


def module_of(sysctl: str) -> str | None:
    """The module with a kernel setting, or None if the kernel itself has it."""
    fitting = (module for begin, module in SYSCTL_MODULES.items() if sysctl.startswith(begin))
    return next(fitting, None)


@record
class Leftovers:
    """The things that an undo leaves on one host, in words."""

    stays: tuple[str, ...]
    """Left for good, if this stack made or installed it."""
    until_restart: tuple[str, ...]
    """Restored, but the old value stays active until the host or the card starts again."""


def leftovers(settings: Mapping[str, str]) -> Leftovers:
    """Determine the things that the undo of these settings leaves."""
    rows = (find_row(key) for key, value in settings.items() if not is_idle(key, value))
    found = {row.pattern for row in rows if row.leaves}
    left = [row for row in all_keys() if row.pattern in found]
    return Leftovers(
        tuple(dict.fromkeys(row.leaves for row in left if not row.loads_at_start)),
        tuple(dict.fromkeys(row.leaves for row in left if row.loads_at_start)),
    )


def keys_text() -> str:
    """All variables and functions, as shell text: with variables, scripts search many keys."""
    brings = {f"{begin}*": f"brings={module}" for begin, module in SYSCTL_MODULES.items()}
    names = {
        _split(row)[-1].removeprefix("."): row.parameter for row in all_keys() if row.parameter
    }
    parameters = {name: f"parameter={parameter}" for name, parameter in names.items()}
    carried = (row for row in all_keys() if row.part == "vfs" and row.undo != "looked")
    of_vfs = (_split(row)[-1].removeprefix(".") for row in carried)
    rows = (enumerate(_split(row)) for row in all_keys() if row.loads_at_start)
    # Extended regular expressions of grep.
    starts = "|".join(
        "".join("[^=]*" if at % 2 else part.replace(".", r"\.") for at, part in row) for row in rows
    )
    variables = (
        f"vf_settings='{' '.join(of_vfs)}'\n"
        f"firmware_settings='{'|'.join(names)}'\n"
        f"firmware_parameters='{'|'.join(names.values())}'\n"
        f"next_boot='^({starts})='\n"
    )
    ranks = _arms(lambda row: f"rank={row.rank}" if row.rank else "")
    back_ranks = _arms(lambda row: f"rank={row.back_rank}" if row.back_rank else "")
    functions = (
        _function("valid_key", _arms(_validity, whole=True), _NO),
        _function("check_value", _arms(lambda row: _check(row.values))),
        _function("rank", ranks, f"rank={_LAST_RANK}"),
        _function("rank_back", back_ranks, 'rank "$1"'),
        _function("find_part", _arms(lambda row: f"key_part={row.part}"), "key_part=''"),
        *(_function(name, _arms(answer), _NO) for name, answer in _YES_OR_NO.items()),
        _function("find_parameter_name", parameters, _NO, "${1%_current}"),
        _function("find_module", brings, _NO, "${1#kernel.sysctl.}"),
    )
    return variables + "".join(functions)


def _function(name: str, arms: Mapping[str, str], otherwise: str = _YES, word: str = "$1") -> str:
    """One `case` as a function: patterns to commands."""
    lines = (f"    {patterns}) {command} ;;\n" for patterns, command in arms.items())
    return f"{name}() {{\n  case {word} in\n{''.join(lines)}    *) {otherwise} ;;\n  esac\n}}\n"


def _arms(command: Callable[[HostKey], str], *, whole: bool = False) -> dict[str, str]:
    """Group rows that share a command; with `whole`, name each key of a complete kind too."""
    groups: dict[str, list[HostKey]] = {}
    for row in all_keys():
        groups.setdefault(command(row), []).append(row)
    arms: dict[str, str] = {}
    for text, rows in groups.items():
        # Shell patterns, each once; one for a whole kind of keys if all its rows are here.
        lacks = {_kind(row) for row in all_keys() if whole or row not in rows}
        patterns = (
            pattern if pattern == _kind(row) or _kind(row) in lacks else f"{_kind(row)}*"
            for row in rows
            for pattern in globs(row)
        )
        arms |= {" | ".join(dict.fromkeys(patterns)): text} if text else {}
    return arms


def _kind(row: HostKey) -> str:
    """The beginning of a key; a key of one word is a separate kind."""
    begin, dot, _ = row.pattern.partition(".")
    return f"{begin}." if dot else begin


def globs(row: HostKey) -> list[str]:
    """The shell patterns that match the keys of a row."""
    found = [""]
    for number, part in enumerate(_split(row)):
        ways = PLACES[part].globs if number % 2 else (part,)
        found = [f"{begin}{way}" for begin in found for way in ways]
    return found


def _ask(function: str | None) -> str:
    return f'{function} "$1"' if function else ""


def _validity(row: HostKey) -> str:
    """The check of the variable part of a key; a key without one is always valid."""
    begin, *kinds = _split(row)
    check = PLACES[kinds[0]].check if kinds else ""
    if not check:
        return _YES
    cut = " && key_place=${key_place%.*}" if row.pattern.count(">.") else ""
    return f"key_place=${{1#{begin}}}{cut} && {check}"


def _topic(row: HostKey) -> str:
    if row.topic is None:
        return ""
    return f'[ "$2" != {row.idle} ] && topic={row.topic}' if row.idle else f"topic={row.topic}"


def _interrupts(row: HostKey) -> str:
    if row.interrupts == "always":
        return f'[ "$2" != {row.idle} ]' if row.idle else _YES
    return _ask(row.interrupts)


_YES_OR_NO: Final[Mapping[str, Callable[[HostKey], str]]] = {
    "find_topic": _topic,
    "interrupts": _interrupts,
    "loads_at_start": lambda row: _YES if row.loads_at_start else "",
    "is_lost": lambda row: _YES if row.lost else "",
    "stays": lambda row: _YES if row.undo == "stays" else "",
    "goes_back_if_taken": lambda row: _YES if row.undo == "if_taken" else "",
    "nothing_to_undo": lambda row: _YES if row.undo == "looked" else _ask(row.nothing_where),
    "is_gone": lambda row: _ask(row.gone_where),
}


def _check(values: Values) -> str:
    """The command that succeeds if a file may set the value in `$2`."""
    if isinstance(values, Number):
        return f'number "$2" {values.lowest} {values.highest}'
    refused = [f"*[!{values.characters}]*"] if values.characters else []
    refused += ["?" * values.longest + "?*"] if values.longest else []
    accepted = values.forms or (("*",) if values.others else ())
    if accepted == ("*",) and not (values.words or refused):
        return ""
    arms = (
        (values.words, _YES),
        (refused, _NO),
        (accepted, _YES),
        (() if "*" in accepted else ("*",), _NO),
    )
    shown = [
        " | ".join(each.replace(" ", "\\ ") for each in patterns) + f") {done} ;;"
        for patterns, done in arms
        if patterns
    ]
    return " ".join(("case $2 in", *shown, "esac"))
