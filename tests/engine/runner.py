"""Run the real engine on small projects of a test, each with a backend of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from lab.engine.env import EnvSettings, plan_environment, write_env
from lab.engine.install import Engine
from lab.engine.recover import Pulumi

COMMAND_TIMEOUT_S: Final = 120
UNCHANGED: Final = frozenset({"same", "refresh"})
PROJECT_FILE: Final = "name: {name}\nruntime: python\n"


@dataclass(frozen=True)
class Result:
    """What one `pulumi` command did, read from its engine events."""

    rc: int
    stdout: str
    stderr: str
    changes: Mapping[str, int] = field(default_factory=dict[str, int])
    """Operation to number of resources, the stack itself and unchanged ones left out."""
    diagnostics: tuple[tuple[str, str], ...] = ()
    """Severity and text of every message but debug ones."""
    steps: tuple[tuple[str, str], ...] = ()
    """Operation and resource name of every planned or done step that is not `same`."""

    @property
    def errors(self) -> str:
        return "\n".join(text for severity, text in self.diagnostics if severity == "error")

    @property
    def warnings(self) -> str:
        return "\n".join(text for severity, text in self.diagnostics if severity == "warning")


@dataclass(frozen=True)
class EngineRunner:
    """One backend and one plugin cache; projects are folders of the caller."""

    engine: Engine
    home: Path
    deadline_s: float = COMMAND_TIMEOUT_S
    """Of each command."""

    def project(self, name: str, program: str) -> Path:
        """Write a project with one program and a stack `dev`, and return its folder."""
        folder = self.home / name
        folder.mkdir(parents=True)
        (folder / "Pulumi.yaml").write_text(PROJECT_FILE.format(name=name))
        (folder / "__main__.py").write_text(program)
        created = self.call(folder, "stack", "init", "dev")
        assert created.returncode == 0, created.stderr
        return folder

    def settings(self) -> EnvSettings:
        return EnvSettings(
            project=self.home, stack="lab", python=Path(sys.executable), engine=self.engine
        )

    def environment(self) -> dict[str, str]:
        # A coverage or xdist setting of the test process is no business of the engine.
        base = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
        return plan_environment(self.settings(), base)

    def pulumi(self, folder: Path, stack: str = "dev") -> Pulumi:
        return Pulumi(folder, folder.name, stack, self.settings().backend, self.environment())

    def call(
        self, folder: Path, *arguments: str, timeout_s: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run any `pulumi` command."""
        return subprocess.run(
            [str(self.settings().bin / "pulumi"), *arguments, "--non-interactive"],
            cwd=folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=timeout_s or self.deadline_s,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def start(self, folder: Path, *arguments: str) -> subprocess.Popen[str]:
        """Start a `pulumi` command that the test will interrupt."""
        return subprocess.Popen(
            [str(self.settings().bin / "pulumi"), *arguments, "--non-interactive"],
            cwd=folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    def up(
        self,
        folder: Path,
        stack: str = "dev",
        config: Mapping[str, str] | None = None,
        *more: str,
    ) -> Result:
        kept = _kept(config or {})
        return self._events(folder, "up", "--yes", "--skip-preview", "--stack", stack, *kept, *more)

    def preview(
        self,
        folder: Path,
        stack: str = "dev",
        config: Mapping[str, str] | None = None,
        *more: str,
    ) -> Result:
        kept = _kept(config or {})
        done = self.call(folder, "preview", "--json", "--stack", stack, *kept, *more)
        digest: Any = json.loads(done.stdout or "{}")
        steps = tuple(
            (step["op"], step["urn"].rsplit("::", 1)[-1])
            for step in digest.get("steps", [])
            if step["op"] not in UNCHANGED and not _is_stack(step["urn"])
        )
        messages = tuple(
            (note["severity"], note["message"]) for note in digest.get("diagnostics", [])
        )
        return Result(done.returncode, done.stdout, done.stderr, _count(steps), messages, steps)

    def destroy(self, folder: Path, stack: str = "dev", *more: str) -> Result:
        return self._events(folder, "destroy", "--yes", "--skip-preview", "--stack", stack, *more)

    def refresh(self, folder: Path, stack: str = "dev", *more: str) -> Result:
        return self._events(folder, "refresh", "--yes", "--skip-preview", "--stack", stack, *more)

    def export(self, folder: Path, stack: str = "dev") -> Any:  # noqa: ANN401 - the state as it is
        """Return the exported state, secrets still encrypted."""
        done = self.call(folder, "stack", "export", "--stack", stack)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def outputs(self, folder: Path, stack: str = "dev") -> Any:  # noqa: ANN401 - any JSON
        """Return the stack outputs, secrets in clear."""
        done = self.call(folder, "stack", "output", "--json", "--show-secrets", "--stack", stack)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def configure(
        self,
        folder: Path,
        stack: str,
        config: Mapping[str, str],
        secrets: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Write values into the stack's configuration; one call takes less than one for each."""
        values = [part for pair in config.items() for part in ("--plaintext", "=".join(pair))]
        values += [part for pair in secrets.items() for part in ("--secret", "=".join(pair))]
        done = self.call(folder, "config", "set-all", *values, "--stack", stack)
        assert done.returncode == 0, done.stderr

    def _events(self, folder: Path, *arguments: str) -> Result:
        done = self.call(folder, *arguments, "--json")
        events: list[Any] = [
            json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"sequence"')
        ]
        diagnostics = tuple(
            (event["diagnosticEvent"]["severity"], event["diagnosticEvent"]["message"])
            for event in events
            if "diagnosticEvent" in event and event["diagnosticEvent"]["severity"] != "debug"
        )
        metadata = [
            event["resOutputsEvent"]["metadata"] for event in events if "resOutputsEvent" in event
        ]
        steps = tuple(
            (step["op"], step["urn"].rsplit("::", 1)[-1])
            for step in metadata
            if step["op"] not in UNCHANGED and not _is_stack(step["urn"])
        )
        return Result(done.returncode, done.stdout, done.stderr, _count(steps), diagnostics, steps)


def make_runner(engine: Engine, home: Path, deadline_s: float = COMMAND_TIMEOUT_S) -> EngineRunner:
    """Prepare a backend and a plugin cache in an empty folder."""
    runner = EngineRunner(engine, home, deadline_s)
    write_env(runner.settings())
    return runner


def _kept(config: Mapping[str, str]) -> list[str]:
    """Arguments that write values into the stack's configuration, in the same call."""
    return [part for pair in config.items() for part in ("--config", "=".join(pair))]


def _count(steps: tuple[tuple[str, str], ...]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for operation, _name in steps:
        counts[operation] = counts.get(operation, 0) + 1
    return counts


def _is_stack(urn: str) -> bool:
    return "::pulumi:pulumi:Stack::" in urn or "::pulumi:providers:" in urn
