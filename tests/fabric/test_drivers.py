"""Every switch system has all of its parts, and its driver keeps the laws of one.

One check a part, so that a missing one is named; docs/howto/add-a-switch-os.md walks through the
same parts, in the same order.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Final, cast, get_args, get_type_hints

import pytest
from pydantic import TypeAdapter, ValidationError

from components.catalogue.switches import MODELS
from components.catalogue.switches.systems import SWITCH_SYSTEMS
from components.checks.registry import RULES
from components.core.errors import SpecError, UsageError
from components.fabric.fabric_plan import plan_fabric
from components.fabric.systems import UFM, system_of
from components.fabric.systems.switch_system import SwitchSystem
from components.model.fabric import Switch
from lab.switches.emulators import EMULATORS, make_switch
from lab.switches.sonic import config as sonic
from lab.views import SwitchConfig
from tests.fabric.eos_lab import Clock
from tests.fabric.lives import check_laws
from tests.fabric.switch_labs import LABS
from tests.golden.files import check_golden
from tests.over_ssh.test_switch_faults import TRAITS

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = Path("components/fabric/systems")
SOURCES: Final = Path("lab/sources.md")


def offered() -> frozenset[str]:
    """The systems that a file may name."""
    return frozenset(get_args(Switch.model_fields["os"].annotation))


def _has_folder(system: str, _root: Path) -> bool:
    """Its value is whole, and every rule runs on a sound site with it and finds no fault."""
    if system_of(system).name != system:
        return False
    spec = LABS[system].load_spec()
    found = [problem for rule in RULES for problem in rule.problems(spec)]
    return not [p for p in found if p.where and p.where[0].path[:1] == ("switches",)]


def _has_rows(system: str, root: Path) -> bool:
    """Three tables, and every word of every line of the golden is in them."""
    page = (root / FOLDERS / system / "WHY.md").read_text()
    sections = re.split(r"^## ", page, flags=re.MULTILINE)[1:4]
    if [each.split()[0].strip(",") for each in sections] != ["Reading", "The", "Writing"]:
        return False
    spans = " ".join(span for each in sections for span in re.findall(r"`([^`]+)`", each))
    told = set(spans.split())
    sent = {
        word
        for line in golden_of(system).splitlines()
        for word in line.split()
        if not line.startswith("#") and word.isalpha()
    }
    return sent <= told


def _has_page(system: str, root: Path) -> bool:
    page = (root / SOURCES).read_text()
    title = system_of(system).title
    return f"\n## {title}\n" in page and f"\n### {title} unknown\n" in page


def _has_golden(system: str, root: Path) -> bool:
    path = root / "tests" / "golden" / "switches" / f"{system}.txt"
    return path.exists() and path.read_text() == golden_of(system)


def golden_of(system: str) -> str:
    """The lines that an untouched switch gets, for each thing that its lab asks of it."""
    lab, parts = LABS[system], list[str]()
    for heading, words in lab.carried.asked.items():
        plan = plan_fabric(lab.load_spec(**words))[0]
        parts += [f"# {heading}", *plan.commands_from_factory]
    return "\n".join(parts) + "\n"


PARTS: Final[dict[str, Callable[[str, Path], bool]]] = {
    "folder": _has_folder,
    "reasons": _has_rows,
    "line": lambda system, _root: system in SWITCH_SYSTEMS,
    "hardware": lambda system, _root: any(system in model.ports for model in MODELS.values()),
    "emulator": lambda system, _root: system in EMULATORS,
    "lab": lambda system, _root: system in LABS,
    "faults": lambda system, _root: system in TRAITS,
    "sources": _has_page,
    "golden": _has_golden,
}
"""Name of a part to whether a system has it; the page of the how-to has the same names."""


def missing_parts(system: str, root: Path = ROOT) -> list[str]:
    """The parts that a system lacks."""
    missing: list[str] = []
    for name, has in PARTS.items():
        try:
            there = has(system, root)
        except (ImportError, KeyError, OSError, SpecError):
            there = False
        if not there:
            missing.append(name)
    return missing


HOWTO = ROOT / "docs" / "howto" / "add-a-switch-os.md"


def _config(system: str) -> SwitchConfig:
    played = sonic.PLATFORMS if system == "sonic" else MODELS
    fitting = (name for name, model in MODELS.items() if system in model.ports and name in played)
    return SwitchConfig(
        name="leaf-01",
        os=system,
        model=next(fitting),
        address="127.209.0.6",
        port=0,
        user="admin",
        password="admin",
        host_key_seed="test/leaf-01",
    )


def test_every_registry_has_the_same_systems() -> None:
    folders = {path.parent.name for path in (ROOT / FOLDERS).glob("*/system.py")}
    for registry in (offered(), folders - {UFM}, {*EMULATORS}, {*LABS}, {*TRAITS}):
        assert registry == {*SWITCH_SYSTEMS}


def test_one_switch_loads_one_driver_and_no_ssh_client() -> None:
    program = """
import sys
from components.fabric.systems import system_of
import components.checks.registry
system_of("eos")
named = [name for name in sys.modules if name.startswith("components.fabric.")]
folders = sorted(name for name in named if name.endswith(".system"))
print(folders, "asyncssh" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "['components.fabric.systems.eos.system'] False"


def test_a_step_of_a_switch_loads_one_ssh_client() -> None:
    """Each step is a process of its own: what it loads is paid once a switch."""
    program = (
        "import sys, components.fabric.device\n"
        "print(*{'asyncssh', 'netmiko', 'paramiko'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "asyncssh"


@pytest.mark.parametrize("system", SWITCH_SYSTEMS)
def test_the_lines_of_a_first_apply(system: str) -> None:
    check_golden(f"switches/{system}.txt", golden_of(system))


@pytest.mark.parametrize("system", SWITCH_SYSTEMS)
def test_a_system_is_whole(system: str, tmp_path: Path) -> None:
    assert missing_parts(system) == []
    emulator = make_switch(_config(system), tmp_path / "leaf-01.json")
    assert emulator.unmodelled == ()


def _mistyped(value: object, kind: Any) -> Iterator[str]:  # noqa: ANN401 - any annotation
    """Where a value, or a part of it, does not have its type."""
    if is_dataclass(value) and not isinstance(value, type):
        hints = get_type_hints(type(value))
        for each in fields(value):
            parts = _mistyped(getattr(value, each.name), hints[each.name])
            yield from (f"{each.name}.{part}" for part in parts)
        return
    try:
        TypeAdapter(kind, config={"arbitrary_types_allowed": True}).validate_python(
            value, strict=True
        )
    except ValidationError as error:
        yield str(error)


@pytest.mark.parametrize("system", SWITCH_SYSTEMS)
def test_the_facts_of_a_system_have_their_types(system: str) -> None:
    assert [*_mistyped(system_of(system), SwitchSystem)] == []


def test_a_fact_of_another_type_is_found() -> None:
    wrong = replace(system_of("eos"), a_release=cast("str", 4.32))
    assert [each.partition(".")[0] for each in _mistyped(wrong, SwitchSystem)] == ["a_release"]


@pytest.mark.parametrize("system", SWITCH_SYSTEMS)
def test_a_driver_keeps_the_laws(system: str, tmp_path: Path) -> None:
    check_laws(LABS[system], tmp_path)


PORTS: Final = {
    "onyx": (32, ["1/1", "1/2"], "1/32"),
    "cumulus": (32, ["swp1", "swp2"], "swp32"),
    "eos": (64, ["Ethernet1/1", "Ethernet2/1"], "Ethernet64/1"),
    "sonic": (32, ["Ethernet0", "Ethernet8"], "Ethernet248"),
}
"""Number of ports, the first two and the last one; the driver of MLNX-OS asks for none."""


@pytest.mark.parametrize("system", SWITCH_SYSTEMS)
def test_every_port_is_listed_in_order(system: str, tmp_path: Path) -> None:
    lab = LABS[system]
    ports = [*lab.talk(lab.make_switch(tmp_path, Clock())).list_ports()]
    assert (len(ports), ports[:2], ports[-1] if ports else "") == PORTS.get(system, (0, [], ""))


def test_the_page_walks_through_the_parts_that_are_checked() -> None:
    steps = re.findall(r"^\| `([a-z]+)` \|", HOWTO.read_text(), re.MULTILINE)
    assert steps == [*PARTS]


def test_a_system_that_nobody_plays_is_named(tmp_path: Path) -> None:
    config = replace(_config("sonic"), os="ios")
    with pytest.raises(UsageError, match="plays no switch with 'ios'"):
        make_switch(config, tmp_path / "leaf-01.json")
