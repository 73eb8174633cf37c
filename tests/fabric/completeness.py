"""What a switch system consists of: one check a part, so that a missing one is named.

docs/howto/add-a-switch-os.md walks through the same parts, in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, get_args

from components.catalogue.switches import MODELS
from components.catalogue.switches.systems import SWITCH_SYSTEMS
from components.checks.registry import RULES
from components.core.errors import SpecError
from components.fabric.plan import plan_fabric
from components.fabric.systems import driver_of, system_of
from components.model.fabric import Switch
from lab.switches.emulators import EMULATORS
from tests.fabric.switch_labs import LABS
from tests.over_ssh.test_switch_faults import TRAITS

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = Path("components/fabric/systems")
SOURCES: Final = Path("docs/explanation/sources.md")


def offered() -> frozenset[str]:
    """The systems that a file may name."""
    return frozenset(get_args(Switch.model_fields["os"].annotation))


def _has_folder(system: str, _root: Path) -> bool:
    """Its value is whole, and every rule runs on a sound site with it and finds no fault."""
    if system_of(system).driver.system != system:
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
    title = driver_of(system).title
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
