"""The state of an MLNX-OS switch, and the effect and printed form of each line.

Factory: the subnet manager is off (the vendor's manual), its priority is 0 (public notes), and the
only partition, Default, has every port in it (a capture).

Forms: the vendor's manual, Stacki's driver and a report of an SX6036 (docs/explanation/
sources.md#mlnx-os). If no capture shows the text of a refusal, it is marked `guess`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, Literal, cast

from components.core.errors import UsageError
from lab.switches import command_line
from lab.switches.onyx.config import CliConfig, SavedAndRunning
from lab.switches.stored import Part

MemberKind = Literal["full", "limited", "both"]
DEFAULT = "Default"
DEFAULT_PKEY = 0x7FFF
FACTORY_ENGINE = "minhop"
PORTS_BY_MODEL = {
    "QM8700": (tuple(f"1/{port}" for port in range(1, 41)), 200, "hdr"),
    "QM9700": (tuple(f"1/{cage}/{part}" for cage in range(1, 33) for part in (1, 2)), 400, "ndr"),
}
"""Model to its ports, their rate in Gbit/s and the word for it (NVIDIA's data sheets)."""


class Partition(Part):
    """One partition, as configured."""

    pkey: int
    ipoib: bool = False
    mtu: str | None = None
    rate: int | None = None
    defmember: Literal["full", "limited"] | None = None
    """Membership of ports that are added without naming one."""
    members: dict[str, MemberKind] = {}
    """GUID of 16 digits or `ALL` to membership."""


class Config(CliConfig):
    """A whole configuration: the running one, or the one that the next boot will load."""

    sm: bool = False
    """`ib sm`: whether the function is on at all."""
    nodes: dict[str, bool] = {}
    """`ib smnode NAME enable`: node to whether its subnet manager is enabled."""
    sm_priority: int = 0
    routing_engine: str | None = None
    partitions: dict[str, Partition] = {
        DEFAULT: Partition(pkey=DEFAULT_PKEY, ipoib=True, members={"ALL": "full"})
    }
    shut: list[str] = []
    """Shut ports."""

    @property
    def sm_runs(self) -> bool:
        """Both settings must be on (a report of an SX6036 whose `ib sm` alone started nothing)."""
        return self.sm and self.nodes.get(self.hostname, False)


Stored = SavedAndRunning[Config]


def factory_config(hostname: str, model: str) -> Config:
    """The configuration in factory state; a UsageError if the lab does not know the model."""
    if model not in PORTS_BY_MODEL:
        known = sorted(PORTS_BY_MODEL)
        raise UsageError(f"the lab has no InfiniBand switch model {model!r}; it has {known}")
    return Config(hostname=hostname, nodes={hostname: False})


_GUID: Final = re.compile(r"([0-9a-f]{2}:){7}[0-9a-f]{2}", re.IGNORECASE)
_MAX_PRIORITY: Final = 15
_MAX_PKEY: Final = 0x7FFF
"""15 bits."""
_QUESTION: Final = "% Changing the Default partition needs an answer that nobody gives here"
"""`no ib partition Default …` asks for a `yes` (Stacki; of mtu and rate a guess). Never sent."""
_NO_KIND: Final = "% Invalid membership type"  # guess


def show_guid(guid: str) -> str:
    """A port's GUID as the switch writes it: eight pairs (Stacki), or ALL."""
    return guid if guid == "ALL" else ":".join(re.findall("..", guid))


def _partition(config: Config, name: str, *, on: bool = True) -> Partition:
    """An existing partition; settings of the default one cannot be removed."""
    if name not in config.partitions:
        raise command_line.CliError(f"% Partition {name} does not exist")  # guess
    if not on and name == DEFAULT:
        raise command_line.CliError(_QUESTION)
    return config.partitions[name]


def _set_pkey(config: Config, name: str, text: str) -> None:
    known = re.fullmatch(r"0x[0-9a-fA-F]{1,4}", text)
    if not known or not 1 <= int(text, 16) <= _MAX_PKEY:
        raise command_line.CliError("% Invalid pkey")  # guess
    pkey = int(text, 16)
    if any(other.pkey == pkey for key, other in config.partitions.items() if key != name):
        raise command_line.CliError(f"% PKey {text} is in use by another partition")  # guess
    if name in config.partitions:
        config.partitions[name].pkey = pkey
    else:
        config.partitions = {**config.partitions, name: Partition(pkey=pkey)}


def _remove(config: Config, name: str) -> None:
    _partition(config, name, on=False)
    config.partitions = {n: p for n, p in config.partitions.items() if n != name}


def _checked(pattern: str, refusal: str) -> Callable[[Config, str], str]:
    def check(_config: Config, text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise command_line.CliError(refusal)
        return text

    return check


def _mtu(config: Config, text: str) -> str:
    return _checked("256|512|1K|2K|4K", "% Invalid mtu")(config, text.upper())  # guess


def _rate(_config: Config, text: str) -> int:
    return int(text)


def _port(text: str) -> str:
    if text.upper() == "ALL":
        return "ALL"
    if not _GUID.fullmatch(text):
        raise command_line.CliError("% Invalid port GUID")  # captured on 3.6.8012
    return text.replace(":", "").lower()


def _add_member(config: Config, name: str, text: str, kind: str) -> None:
    partition, port = _partition(config, name), _port(text)
    _checked("full|limited|both", _NO_KIND)(config, kind)
    partition.members = {**partition.members, port: cast("MemberKind", kind)}


def _drop_member(config: Config, name: str, text: str) -> None:
    _partition(config, name)
    port, partition = _port(text), _partition(config, name, on=False)
    if port not in partition.members:
        raise command_line.CliError("% Member does not exist")  # guess
    partition.members = {each: kind for each, kind in partition.members.items() if each != port}


def _node(*, on: bool) -> command_line.Handler:
    def change(config: Config, name: str) -> None:
        config.nodes = {**config.nodes, name: on}

    return change


def _priority(config: Config, text: str) -> None:
    if int(text) > _MAX_PRIORITY:
        raise command_line.CliError(
            "% Please enter an integer between 0 and 15."
        )  # guess, as Onyx words it
    config.sm_priority = int(text)


def _node_priority(config: Config, name: str, text: str) -> None:
    if name != config.hostname:
        raise command_line.CliError(f"% SM node {name} does not exist")  # guess
    _priority(config, text)


_HEAD: Final = "ib partition <word> "
_MEMBERSHIP: Final = _checked("full|limited", _NO_KIND)
_OF_PARTITION: Final = (
    command_line.flag("ipoib", "ipoib"),
    command_line.Row("mtu <word>", "mtu", read=_mtu),
    command_line.Row("rate <int>", "rate", read=_rate),
    command_line.Row("defmember <word>", "defmember", read=_MEMBERSHIP),
)
_SM: Final = command_line.flag("ib sm", "sm")
_ENGINES: Final = "minhop|updn|ftree|dor|lash"
_ENGINE: Final = command_line.Row(
    "ib sm routing-engines <word>",
    "routing_engine",
    read=_checked(_ENGINES, "% Invalid routing engine"),  # guess
)
_PARTITIONS: Final = command_line.keyed_commands(_OF_PARTITION, _partition, _HEAD)
_FORCED: Final = (
    (f"{_HEAD}pkey <word>", _set_pkey),
    (f"{_HEAD}member <word> type <word>", _add_member),
    *(line for line in _PARTITIONS if not line[0].startswith("no ")),
)
COMMANDS: Final = command_line.table(
    (
        *_FORCED,
        # `force` answers a question (Stacki; the report).
        *((f"{pattern} force", change) for pattern, change in _FORCED),
        *(line for line in _PARTITIONS if line[0].startswith("no ")),
        ("no ib partition <word>", _remove),
        ("no ib partition <word> member <word>", _drop_member),
        *command_line.commands_of((_SM, _ENGINE), lambda config: config),
        ("ib sm sm-priority <int>", _priority),
        ("ib smnode <word> sm-priority <int>", _node_priority),
        ("ib smnode <word> enable", _node(on=True)),
        ("ib smnode <word> disable", _node(on=False)),
        (
            "interface ib <ports> shutdown",
            command_line.listed(lambda config: config, "shut", on=True),
        ),
        (
            "interface ib <ports> no shutdown",
            command_line.listed(lambda config: config, "shut", on=False),
        ),
    )
)


def _lines(config: Config) -> Iterator[str]:
    for name, partition in config.partitions.items():
        yield f"ib partition {name} pkey 0x{partition.pkey:04x} force"
        for line in command_line.lines_of(_OF_PARTITION, partition):
            yield f"ib partition {name} {line} force"
        for guid, kind in partition.members.items():
            yield f"ib partition {name} member {show_guid(guid)} type {kind} force"
    yield from _SM.lines(config)
    yield from (f"ib smnode {name} enable" for name, on in config.nodes.items() if on)
    if config.sm_priority:
        yield f"ib smnode {config.hostname} sm-priority {config.sm_priority}"
    yield from _ENGINE.lines(config)
    yield from (f"interface ib {port} shutdown" for port in config.shut)


def render_running_config(config: Config) -> str:
    """The configuration as lines; only their form as commands is known, the rest is a guess."""
    return "".join(f"   {line}\n" for line in _lines(config))
