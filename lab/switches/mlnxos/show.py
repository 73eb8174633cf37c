"""The show commands of MLNX-OS and its running configuration.

`show ib partition`, `show ib sm`, `show ib smnode NAME sm-state` and `show ib sm priority` are as
public sources print them; the rest is marked (docs/explanation/sources.md#mlnx-os).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lab.switches.mlnxos.config import FACTORY_ENGINE, PORTS_BY_MODEL, Config, Partition, Stored
from lab.switches.onyx.grammar import CliError, Command
from lab.switches.onyx.show import Answer, chassis_lines, inventory
from lab.switches.stored import FACTORY_CHASSIS, Chassis

RELEASE: Final = "3.11.2016"


@dataclass(frozen=True, slots=True)
class Device:
    """What a show command may look at."""

    stored: Stored
    model: str
    cabled: frozenset[str]
    """Ports with a cable to a host that has power."""
    release: str = RELEASE
    chassis: Chassis = FACTORY_CHASSIS

    @property
    def config(self) -> Config:
        """What is running."""
        return self.stored.running

    def link_up(self, port: str) -> bool:
        """Whether a port has a link."""
        down = {*self.stored.link_down, *self.config.shut}
        return port in self.cabled and port not in down


Show = Callable[[Device, list[str]], Answer]


def _word(*, on: bool) -> Answer:
    return Answer("enable\n" if on else "disable\n")


def show_guid(guid: str) -> str:
    """As the switch writes a port: eight pairs (Stacki), or ALL."""
    pairs = [guid[start : start + 2] for start in range(0, len(guid), 2)]
    return guid if guid == "ALL" else ":".join(pairs)


def _block(name: str, partition: Partition) -> list[str]:
    """Captured on 3.6.8012; `defmember` as Stacki reads it; mtu and rate are a guess."""
    more = [f"  mtu  : {partition.mtu}"] if partition.mtu else []
    more += [f"  rate : {partition.rate}"] if partition.rate else []
    more += [f"  defmember : {partition.defmember}"] if partition.defmember else []
    members = [
        f"    GUID='{show_guid(guid)}' member='{kind}'" for guid, kind in partition.members.items()
    ]
    yes = "yes" if partition.ipoib else "no"
    head = [f"{name}:", f"  PKey : 0x{partition.pkey:04X}", f"  ipoib: {yes}", *more]
    return [*head, "  members:", *members]


def _partitions(device: Device, _: list[str]) -> Answer:
    blocks = [_block(name, each) for name, each in device.config.partitions.items()]
    return Answer("\n".join(line for block in blocks for line in [*block, ""]))


def _node_state(device: Device, values: list[str]) -> Answer:
    if values[0] not in device.config.nodes:
        raise CliError(f"% SM node {values[0]} does not exist")  # guess
    return _word(on=device.config.nodes[values[0]])


def _node_running(device: Device, values: list[str]) -> Answer:
    own = values[0] == device.config.hostname
    return Answer("active\n" if own and device.config.sm_runs else "not active\n")


def _routing(device: Device, _: list[str]) -> Answer:
    """The text while no subnet manager runs is captured; the form of the answer is a guess."""
    if not device.config.sm_runs:
        raise CliError("% Connection to SM unavailable")
    return Answer(f"Routing engine: {device.config.routing_engine or FACTORY_ENGINE}\n")


def _interface(device: Device, values: list[str]) -> Answer:
    """A capture of a QM8700."""
    port = values[0]
    ports, rate, word = PORTS_BY_MODEL[device.model]
    if port not in ports:
        raise CliError(f"% Interface ib {port} does not exist")  # guess
    up = device.link_up(port)
    rows = (
        ("Logical port state", "Active" if up else "Down"),
        ("Physical port state", "LinkUp" if up else "Polling"),
        ("Current line rate", f"{rate}.0 Gbps" if up else "-"),
        ("Supported speeds", f"edr, {word}"),
        ("Speed", word if up else "-"),
        ("Supported widths", "1X, 2X, 4X"),
        ("Width", "4X" if up else "-"),
        ("Max supported MTUs", "4096"),
        ("MTU", "4096"),
        ("VL capabilities", "VL0 - VL7"),
        ("Operational VLs", "VL0 - VL3"),
        ("Description", ""),
        ("IB Subnet", "infiniband-default"),
    )
    body = "".join(f"        {key:<28}: {value}".rstrip() + "\n" for key, value in rows)
    return Answer(f"IB{port} state:\n{body}")


def _version(device: Device, _values: list[str]) -> Answer:
    """Some lines of Onyx' answer, with the product's own name."""
    table = {"Product name": "MLNX-OS", "Product release": device.release}
    table |= chassis_lines(device.chassis)
    return Answer("".join(f"{key + ':':<19}{value}\n" for key, value in table.items()))


def _partition_lines(name: str, partition: Partition) -> list[str]:
    head = f"ib partition {name}"
    lines = [f"{head} pkey 0x{partition.pkey:04x} force"]
    lines += [f"{head} ipoib force"] if partition.ipoib else []
    lines += [f"{head} mtu {partition.mtu} force"] if partition.mtu else []
    lines += [f"{head} rate {partition.rate} force"] if partition.rate else []
    lines += [f"{head} defmember {partition.defmember} force"] if partition.defmember else []
    return lines + [
        f"{head} member {show_guid(guid)} type {kind} force"
        for guid, kind in partition.members.items()
    ]


def render_running_config(config: Config) -> str:
    """The configuration as lines; a guess beyond that such lines are commands."""
    lines = [line for name, each in config.partitions.items() for line in (
        _partition_lines(name, each)
    )]  # fmt: skip
    lines += ["ib sm"] if config.sm else []
    lines += [f"ib smnode {name} enable" for name, on in config.nodes.items() if on]
    priority = f"ib smnode {config.hostname} sm-priority {config.sm_priority}"
    lines += [priority] if config.sm_priority else []
    engine = config.routing_engine
    lines += [f"ib sm routing-engines {engine}"] if engine else []
    lines += [f"interface ib {port} shutdown" for port in config.shut]
    return "".join(f"   {line}\n" for line in lines)


_FORMS: Final[tuple[tuple[str, Show], ...]] = (
    ("show version", _version),
    ("show inventory", lambda device, _: inventory(device.model, device.chassis)),
    ("show ib partition", _partitions),
    ("show ib sm", lambda device, _: _word(on=device.config.sm)),
    ("show ib sm priority", lambda device, _: Answer(f"{device.config.sm_priority}\n")),
    ("show ib sm routing-info", _routing),
    ("show ib smnode <word> sm-state", _node_state),
    ("show ib smnode <word> sm-running", _node_running),
    ("show interfaces ib <ports>", _interface),
    ("show running-config", lambda device, _: Answer(render_running_config(device.config))),
)
SHOW_COMMANDS: Final = tuple(Command(tuple(form.split()), handler) for form, handler in _FORMS)
