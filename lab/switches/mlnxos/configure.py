"""The configuration commands of MLNX-OS: what each line does to the running configuration.

Forms: the vendor's manual, Stacki's driver and a report of an SX6036 (docs/explanation/
sources.md#mlnx-os). Refusal texts that no capture shows are marked `guess`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, cast

from lab.switches.mlnxos.config import DEFAULT, Config, MemberKind, Partition
from lab.switches.onyx.grammar import CliError, Command

Change = Callable[[Config, list[str]], None]

_GUID: Final = re.compile(r"([0-9a-f]{2}:){7}[0-9a-f]{2}", re.IGNORECASE)
_MAX_PRIORITY: Final = 15
_QUESTION: Final = "% Changing the Default partition needs an answer that nobody gives here"
"""`no ib partition Default …` asks for a `yes` (Stacki; of mtu and rate a guess). Never sent."""


def _partition(config: Config, name: str) -> Partition:
    if name not in config.partitions:
        raise CliError(f"% Partition {name} does not exist")  # guess
    return config.partitions[name]


def _set_pkey(config: Config, values: list[str]) -> None:
    name = values[0]
    if not re.fullmatch(r"0x[0-9a-fA-F]{1,4}", values[1]) or not 1 <= int(values[1], 16) <= 0x7FFF:  # noqa: PLR2004 - 15 bits
        raise CliError("% Invalid pkey")  # guess
    pkey = int(values[1], 16)
    if any(other.pkey == pkey for key, other in config.partitions.items() if key != name):
        raise CliError(f"% PKey {values[1]} is in use by another partition")  # guess
    if name in config.partitions:
        config.partitions[name].pkey = pkey
    else:
        config.partitions = {**config.partitions, name: Partition(pkey=pkey)}


def _remove(config: Config, values: list[str]) -> None:
    _partition(config, values[0])
    _ask_default(values[0])
    config.partitions = {n: p for n, p in config.partitions.items() if n != values[0]}


def _ask_default(name: str) -> None:
    if name == DEFAULT:
        raise CliError(_QUESTION)


def _checked(pattern: str, refusal: str) -> Callable[[str], str]:
    """A word of this form, or the refusal."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise CliError(refusal)
        return text

    return check


_NO_KIND: Final = "% Invalid membership type"  # guess, as the next two
_MTU: Final = _checked("256|512|1K|2K|4K", "% Invalid mtu")
_ENGINE: Final = _checked("minhop|updn|ftree|dor|lash", "% Invalid routing engine")


def _of_partition(
    field: str, convert: Callable[[str], object] = str, *, value: object = None, ask: bool = False
) -> Change:
    """A field of a partition gets the value of the line, or else this one."""

    def change(config: Config, values: list[str]) -> None:
        if ask:
            _ask_default(values[0])
        partition = _partition(config, values[0])
        setattr(partition, field, convert(values[1]) if values[1:] else value)

    return change


def _port(text: str) -> str:
    if text.upper() == "ALL":
        return "ALL"
    if not _GUID.fullmatch(text):
        raise CliError("% Invalid port GUID")  # captured on 3.6.8012
    return text.replace(":", "").lower()


def _add_member(config: Config, values: list[str]) -> None:
    partition, port = _partition(config, values[0]), _port(values[1])
    kind = cast("MemberKind", _checked("full|limited|both", _NO_KIND)(values[2]))
    partition.members = {**partition.members, port: kind}


def _drop_member(config: Config, values: list[str]) -> None:
    partition, port = _partition(config, values[0]), _port(values[1])
    _ask_default(values[0])
    if port not in partition.members:
        raise CliError("% Member does not exist")  # guess
    partition.members = {each: kind for each, kind in partition.members.items() if each != port}


def _to(field: str, convert: Callable[[str], object] = str, *, value: object = None) -> Change:
    """A field of the switch gets the value of the line, or else this one."""
    return lambda config, values: setattr(config, field, convert(values[0]) if values else value)


def _node(*, on: bool) -> Change:
    def change(config: Config, values: list[str]) -> None:
        config.nodes = {**config.nodes, values[0]: on}

    return change


def _priority(text: str) -> int:
    if int(text) > _MAX_PRIORITY:
        raise CliError("% Please enter an integer between 0 and 15.")  # guess, as Onyx words it
    return int(text)


def _node_priority(config: Config, values: list[str]) -> None:
    if values[0] != config.hostname:
        raise CliError(f"% SM node {values[0]} does not exist")  # guess
    config.sm_priority = _priority(values[1])


def _shut(*, on: bool) -> Change:
    def change(config: Config, values: list[str]) -> None:
        ports = {*config.shut} | {values[0]} if on else {*config.shut} - {values[0]}
        config.shut = sorted(ports)

    return change


def _forced(forms: dict[str, Change]) -> dict[str, Change]:
    """Each line with and without `force`, which answers a question (Stacki; the report)."""
    return forms | {f"{pattern} force": change for pattern, change in forms.items()}


_FORMS: Final[dict[str, Change]] = _forced(
    {
        "ib partition <word> pkey <word>": _set_pkey,
        "ib partition <word> ipoib": _of_partition("ipoib", value=True),
        "ib partition <word> mtu <word>": _of_partition("mtu", lambda word: _MTU(word.upper())),
        "ib partition <word> rate <int>": _of_partition("rate", int),
        "ib partition <word> defmember <word>": _of_partition(
            "defmember", _checked("full|limited", _NO_KIND)
        ),
        "ib partition <word> member <word> type <word>": _add_member,
    }
) | {
    "no ib partition <word>": _remove,
    "no ib partition <word> ipoib": _of_partition("ipoib", value=False, ask=True),
    "no ib partition <word> mtu": _of_partition("mtu", ask=True),
    "no ib partition <word> rate": _of_partition("rate", ask=True),
    "no ib partition <word> defmember": _of_partition("defmember", ask=True),
    "no ib partition <word> member <word>": _drop_member,
    "ib sm": _to("sm", value=True),
    "no ib sm": _to("sm", value=False),
    "ib sm sm-priority <int>": _to("sm_priority", _priority),
    "ib smnode <word> sm-priority <int>": _node_priority,
    "ib sm routing-engines <word>": _to("routing_engine", _ENGINE),
    "no ib sm routing-engines": _to("routing_engine"),
    "ib smnode <word> enable": _node(on=True),
    "ib smnode <word> disable": _node(on=False),
    "interface ib <ports> shutdown": _shut(on=True),
    "interface ib <ports> no shutdown": _shut(on=False),
}
COMMANDS: Final = tuple(
    Command(tuple(pattern.split()), change) for pattern, change in _FORMS.items()
)
