"""What the labs of all systems have alike: a session without SSH, a site, and what is done."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import yaml

from components.fabric.edit import every_key, with_new_ports
from components.fabric.exchange import Exchange
from components.fabric.state import SwitchState
from components.fabric.systems.switch_system import SwitchSystem
from components.fabric.targets import (
    dropped,
    overlay,
    target_of_apply,
    target_of_restore,
    target_of_update,
)
from components.reading.yaml_text import parse_yaml
from lab.views import SwitchConfig


@dataclass
class DirectSession:
    """A session with an emulator in this process; bash's bad exit status is told as over SSH."""

    session: Any
    where: str = "leaf-01 (in process)"

    def run(self, command: str) -> str:
        output: str = self.session.run(command)
        status: int = getattr(self.session, "status", 0)
        return f"{output}[status {status}]\n" if status else output


ADDRESS: Final = "127.209.0.7"
PASSWORD: Final = "only-in-the-lab"


def leaf(system: str, model: str, cables: dict[str, tuple[str, str]], **more: Any) -> SwitchConfig:  # noqa: ANN401 - any field
    """`leaf-01` of a system, as the lab file has it."""
    named = SwitchConfig("leaf-01", system, model, ADDRESS, 0, "admin", PASSWORD, "test/leaf-01")
    return replace(named, cables=cables, **more)


def talk_to(driver: SwitchSystem, switch: Any, serial: int = 1) -> Exchange:  # noqa: ANN401 - any emulator
    """A session with an emulator, as far as configuration lines."""
    exchange = Exchange(DirectSession(switch.session()), driver, serial)
    exchange.enter(configure=True)
    return exchange


def load_table(name: str) -> Any:  # noqa: ANN401 - any YAML
    """A table of cases beside the tests."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return yaml.load(text, Loader=yaml.CSafeLoader)


def load_site(path: Path, **rdma: object) -> dict[str, Any]:
    """An example with some of its `rdma` changed."""
    data = copy.deepcopy(_read(path))
    data["rdma"].update(rdma)
    return data


@cache
def _read(path: Path) -> dict[str, Any]:
    return cast("dict[str, Any]", parse_yaml(path.read_text(), path.name).value)


def answer(
    exchange: Exchange, say: Callable[[str, int], str | None] = lambda _line, _number: None
) -> list[str]:
    """Answer in place of the switch; what `say` gives no answer to goes to the switch.

    Args:
        exchange: Whose session is changed.
        say: Gets each command and its number from 1 on; it may raise.

    Returns:
        The commands, as they are sent.
    """
    run, sent = exchange.session.run, list[str]()

    def asks(command: str) -> str:
        sent.append(command)
        said = say(command, len(sent))
        return run(command) if said is None else said

    exchange.session.run = asks
    return sent


def baseline_of(exchange: Exchange, desired: SwitchState) -> SwitchState:
    return exchange.record(every_key(exchange.list_ports(), desired))


def apply(exchange: Exchange, desired: SwitchState) -> tuple[str, ...]:
    return exchange.converge(desired, lambda r: target_of_apply(r.state, desired)).lines


def restore(exchange: Exchange, owned: SwitchState, baseline: SwitchState) -> tuple[str, ...]:
    baseline = with_new_ports(baseline, owned, exchange.driver.name)
    return exchange.converge(
        owned, lambda r: target_of_restore(r.state, owned, baseline, r.vlan_holders)
    ).lines


def edit(
    exchange: Exchange, previous: SwitchState, desired: SwitchState, baseline: SwitchState
) -> None:
    """Apply what the file says now; what it no longer says is given back."""
    gone = dropped(previous, desired)
    baseline = with_new_ports(baseline, previous, exchange.driver.name)
    exchange.converge(
        overlay(gone, desired),
        lambda r: target_of_update(
            r.state, desired, target_of_restore(r.state, gone, baseline, r.vlan_holders)
        ),
    )
