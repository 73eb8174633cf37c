"""One machine for the scripts: real /bin/sh and files, a fake docker, folders of its own."""

from __future__ import annotations

import json
import os
import pwd
import py_compile
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from components.cli.evidence import make_keys
from components.containers.container_plan import HostPayload, PayloadPlan
from components.core.key_values import parse_state
from components.remote.step import RemoteStep
from components.remote.tools import ToolCall
from tests.containers.fake_docker import PASSWORD, load, save

FAKE = Path(__file__).with_name("fake_docker.py")
USER = pwd.getpwuid(os.getuid()).pw_name


@dataclass
class Machine:
    """A worker whose /var/lib, /run and home are folders of the test."""

    root: Path
    plan: PayloadPlan

    def __post_init__(self) -> None:
        """Make its folders and its tools."""
        for folder in ("bin", "lib", "home", "tmp"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        for each in self.host.container.reads:
            place = self.root / "tools" / each.digest
            place.mkdir(parents=True, exist_ok=True)
            (place / "tool").write_text(each.text)
        compiled = self.root / "bin" / "docker.pyc"
        py_compile.compile(str(FAKE), cfile=str(compiled), doraise=True)
        self._tool("docker", f'#!/bin/sh\nexec {sys.executable} -IS {compiled} "$@"\n')
        self._tool("getent", f'#!/bin/sh\necho "$2:x:1:1::{self.home}:/bin/sh"\n')

    def _tool(self, name: str, text: str) -> None:
        (self.root / "bin" / name).write_text(text)
        (self.root / "bin" / name).chmod(0o755)

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def host(self) -> HostPayload:
        return self.plan.hosts[0]

    @property
    def docker(self) -> dict[str, Any]:
        return load(str(self.root / "docker.state"), {})

    def set_docker(self, state: dict[str, Any]) -> None:
        save(str(self.root / "docker.state"), state)

    def local(self, text: str) -> str:
        """A script or its stdin on this machine: its folders, and the test's own user as root."""
        text = text.replace("/var/lib/railyard/tools", str(self.root / "tools"))
        text = text.replace("/var/lib/railyard", str(self.root / "lib"))
        text = text.replace("/run/railyard.lock", str(self.root / "lock"))
        for owner in ("nvidia", "root"):
            for mode in ("600", "644", "700", "755"):
                text = text.replace(f"{mode} {owner}", f"{mode} {USER}")
        return text

    def run(self, call: ToolCall | str | None, stdin: str) -> subprocess.CompletedProcess[str]:
        assert isinstance(call, ToolCall)
        words = shlex.join((call.verb, *call.arguments)).replace("login=nvidia", f"login={USER}")
        script = f"set -- {words}\n{call.tool.text}"
        environ = {
            "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}",
            "FAKE_DOCKER": str(self.root / "docker.state"),
            "TMPDIR": str(self.root / "tmp"),
        }
        return subprocess.run(
            ["/bin/sh", "-c", self.local(script)],
            input=self.local(stdin),
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def apply(self, step: RemoteStep, stdin: str | None = None) -> list[str]:
        done = self.run(step.apply, step.desired if stdin is None else stdin)
        assert done.returncode == 0, f"{step.name}: {done.stderr}"
        return cast("list[str]", json.loads(done.stdout)["changed"])

    def store_secrets(self, keys: str) -> None:
        values = {"payload_keys": keys, "registry_password": PASSWORD}
        for step in self.host.stores:
            self.apply(step, values[step.secret_stdin or ""])

    def set_up(self) -> list[str]:
        """All steps of the first worker; what the last one changed."""
        if not (self.root / "lib").joinpath("lab", "payload", "keys").exists():
            self.store_secrets(make_keys("lab"))
        for step in self.plan.build:
            self.apply(step, PASSWORD if step.secret_stdin else None)
        return self.apply(self.host.container)

    def undo(self, step: RemoteStep) -> dict[str, list[str]]:
        assert step.undo is not None
        done = self.run(step.undo, step.desired)
        assert done.returncode == 0, f"{step.name}: {done.stderr}"
        return cast("dict[str, list[str]]", json.loads(done.stdout))

    def take_down(self) -> None:
        self.undo(self.host.container)
        for step in reversed(self.plan.build):
            self.undo(step)
        for step in self.host.stores:
            self.undo(step)

    def observe(self) -> dict[str, str]:
        watched = self.plan.watched[0]
        done = self.run(watched.observe, watched.desired.render())
        assert done.returncode == 0, done.stderr
        return dict(parse_state(done.stdout).values)

    def drift(self) -> set[str]:
        wanted = parse_state(self.local(self.plan.watched[0].desired.render())).values
        seen = self.observe()
        return {key for key, value in wanted.items() if seen[key] != value}

    def files(self) -> dict[str, tuple[str, bytes]]:
        """Every file and folder with its mode: what an undo must bring back."""
        found: dict[str, tuple[str, bytes]] = {}
        for path in sorted([*self.home.rglob("*"), *(self.root / "lib").rglob("*")]):
            content = path.read_bytes() if path.is_file() else b""
            found[str(path.relative_to(self.root))] = (oct(path.stat().st_mode), content)
        return found

    def forget(self) -> None:
        """A fresh machine in the same place."""
        shutil.rmtree(self.root)
        self.__post_init__()
