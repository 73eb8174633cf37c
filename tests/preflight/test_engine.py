"""The machine that runs updates, with programs on PATH that are there, old, or missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from components.core.problem import Finding
from components.project.engine import (
    judge_engine,
    judge_lab_parts,
    look_at_engine,
    wanted_versions,
)
from tests.preflight.played import PLAYED

VERSIONS = wanted_versions()


class Machine:
    """A home and a folder of programs that lack nothing, until a test takes something away."""

    def __init__(self, folder: Path) -> None:
        self.programs, self.home = folder / "bin", folder / "home"
        self.programs.mkdir()
        self.environ = {
            "PATH": f"{self.programs}:/usr/bin:/bin",
            "PULUMI_HOME": str(self.home),
            "PULUMI_BACKEND_URL": "s3://states-of-ours",
        }
        self.put("pulumi", f"echo v{VERSIONS['pulumi']}")
        self.put("pulumi-language-python", "")
        for name in ("command", "kubernetes"):
            self.plugin(name, VERSIONS[name])

    def put(self, name: str, line: str) -> None:
        program = self.programs / name
        program.write_text(f"#!/bin/sh\n{line}\n")
        program.chmod(0o755)

    def plugin(self, name: str, version: str) -> None:
        folder = self.home / "plugins" / f"resource-{name}-v{version}"
        folder.mkdir(parents=True)
        (folder / f"pulumi-resource-{name}").write_bytes(b"\x7fELF")

    def take(self, name: str) -> None:
        (self.programs / name).unlink()

    def forget_plugin(self, name: str) -> None:
        folder = self.home / "plugins" / f"resource-{name}-v{VERSIONS[name]}"
        folder.rename(folder.with_name(f"resource-{name}-v0.0.1"))

    def judge(self, project: Path) -> tuple[Finding, ...]:
        engine = look_at_engine(self.environ, project)
        return (*judge_engine(engine), *judge_lab_parts(engine, self.environ))


BROKEN: dict[str, Callable[[Machine], object]] = {
    "pulumi": lambda machine: machine.put("pulumi", "echo v3.100.0"),
    "language": lambda machine: machine.take("pulumi-language-python"),
    "plugin-command": lambda machine: machine.forget_plugin("command"),
    "backend": lambda machine: machine.environ.pop("PULUMI_BACKEND_URL"),
    "lab-passphrase": lambda machine: machine.environ.update(
        PULUMI_CONFIG_PASSPHRASE="railyard-lab"
    ),
}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_machine_that_has_all_of_it_lacks_nothing(machine: Machine, tmp_path: Path) -> None:
    assert machine.judge(tmp_path) == ()


@pytest.mark.parametrize("cause", BROKEN)
def test_what_this_machine_lacks_is_named_alone(
    machine: Machine, tmp_path: Path, cause: str
) -> None:
    BROKEN[cause](machine)
    (found,) = machine.judge(tmp_path)
    assert (found.device, found.rule) == ("this machine", cause)
    assert found.fix


def test_a_machine_without_pulumi_is_named_too(machine: Machine, tmp_path: Path) -> None:
    machine.take("pulumi")
    assert [each.rule for each in machine.judge(tmp_path)] == ["pulumi"]


def test_these_are_the_causes_that_are_played_here() -> None:
    assert BROKEN.keys() == PLAYED["tests/preflight/test_engine.py"]
