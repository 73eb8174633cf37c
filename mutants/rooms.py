"""The rooms that are judged: their modules, and the folders of tests that may notice a change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Room:
    """Pure modules that belong together, and who tests them."""

    modules: tuple[str, ...]
    """Patterns of files under components/."""
    tests: tuple[str, ...]
    """Patterns of files and folders under tests/; of these the tests that need no lab.

    Parsers are judged by the tests on recorded and documented answers alone: those through an
    emulator read what the emulator writes.
    """


ROOMS: Final[dict[str, Room]] = {
    "fabric-plan": Room(
        ("fabric/fabric_plan.py", "core/settings.py", "fabric/links.py", "fabric/targets.py"),
        ("fabric", "golden", "plan"),
    ),
    "fabric-parsers": Room(
        (
            *("fabric/systems/*/read.py", "fabric/systems/eos/__init__.py"),
            *("fabric/systems/onyx/__init__.py", "fabric/systems/ranges.py"),
        ),
        (
            *("fabric/test_*_parse*.py", "fabric/test_eos_forms.py", "fabric/test_mellanox.py"),
            *(
                "fabric/test_cabling.py",
                "fabric/test_models.py",
                "fabric/test_evidence.py",
                "fabric/test_unread_counters.py",
            ),
        ),
    ),
    "hosts": Room(("hosts/settings.py",), ("hosts", "golden", "plan")),
    "judge": Room(
        ("acceptance/judge/*.py", "acceptance/logs/*.py"),
        ("acceptance", "cli"),
    ),
    "repair": Room(
        ("update/decide.py", "drift/*.py", "core/difference.py"),
        (
            *("drift", "update/test_decide*.py", "update/test_scope.py", "update/test_guards.py"),
            *("update/test_cluster.py", "update/test_exec_runs.py", "update/test_host_beside.py"),
        ),
    ),
    "checks": Room(
        ("checks/packets.py",),
        ("checks", "cases"),
    ),
}
"""Rooms by name. The goal is that nine of ten changes are noticed (mutants/README.md)."""
