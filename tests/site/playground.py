"""A site as a person at a shell has it: `make up`, `pulumi`, `railyard`, and faults."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from components.core.problem import Json
from components.core.record import record
from lab import control
from lab.up import choose_site, load_spec
from tests.site.leftovers import family, marked_processes

PROJECT: Final = Path(__file__).parents[2]
STACK: Final = "dev"
KUBECONFIG: Final = "hosts/mgmt01/etc/rancher/k3s/k3s.yaml"
COMMAND_DEADLINE_S: Final = 900.0
"""Seconds: on an idle machine a first update takes one or two minutes."""
UP: Final = (sys.executable, "-m", "lab.up")
_QUIET_STEPS: Final = {"same", "refresh", "read"}
_MARKS: Final = re.compile(r"<\{%[^%]*%\}>")

Event = dict[str, object]


@record
class Done:
    """How a command ended, and all that it said."""

    code: int
    text: str

    def must(self, code: int = 0) -> str:
        """Its text, if it ended with this exit code."""
        assert self.code == code, f"exit {self.code}, not {code}:\n{self.text}"
        assert "Traceback" not in self.text, self.text
        return self.text

    def refused(self) -> str:
        """Its text, if it failed with a report."""
        assert self.code != 0, self.text
        return self.must(self.code)


@record
class Preview:
    """What `pulumi preview` would change, and what it said."""

    done: Done
    changes: Mapping[str, str]
    """Resource name to operation; what stays the same is left out."""
    messages: tuple[str, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """What it printed, without the dots by which a slow engine shows that it is alive."""
        said = self.done.text.splitlines()
        return tuple(line for line in said if not line.startswith("@ previewing"))

    @property
    def quiet(self) -> bool:
        """It succeeded and nothing is to do."""
        return self.done.code == 0 and not self.changes


@record
class EndState:
    """All that an update leads to; equal whichever way led there."""

    settings: Json
    resources: frozenset[str]
    objects: frozenset[str]


@record
class Playground:
    """One stack of this clone and its running lab."""

    mark: str
    before: str
    """The snapshot of all devices before the first update."""
    stack: str = STACK
    argument: str = ""
    """What `SITE=` names, where that is a file and not the folder of the stack's name."""

    @property
    def lab(self) -> Path:
        """The folder of its lab."""
        return lab_folder(self.stack)

    @property
    def state(self) -> Path:
        """The file of its state."""
        return PROJECT / ".pulumi/backend/.pulumi/stacks/railyard" / f"{self.stack}.json"

    @property
    def command(self) -> tuple[str, ...]:
        """What `make up` runs after its setup."""
        return UP if self.stack == STACK else (*UP, self.argument or f"examples/{self.stack}")

    @property
    def config(self) -> Path | None:
        """The configuration of an example's stack; None for the committed one."""
        path = self.lab / f"Pulumi.{self.stack}.yaml"
        return path if path.exists() else None

    def environment(self) -> dict[str, str]:
        """What a shell has that sourced the environment file which `make up` names."""
        shell = subprocess.run(
            ["/bin/sh", "-c", f". '{self.lab}/env.sh' && env -0"],
            capture_output=True,
            text=True,
            timeout=COMMAND_DEADLINE_S,
            check=True,
        )
        pairs = (line.partition("=") for line in shell.stdout.split("\0") if line)
        return {name: value for name, _, value in pairs}

    def up(self) -> Done:
        """What `make up` runs after its setup."""
        return run(self.command, dict(os.environ))

    def pulumi(self, *arguments: str, **variables: str) -> Done:
        """One `pulumi` command about the stack."""
        flags = ["--stack", self.stack, "--non-interactive"]
        takes_none = arguments[0] in {"cancel", "stack"}
        if self.config and "--config-file" not in arguments and not takes_none:
            flags += ["--config-file", str(self.config)]
        return run(["pulumi", *arguments, *flags], self.environment() | variables)

    def railyard(self, *arguments: str, **variables: str) -> Done:
        """One `railyard` command."""
        program = str(PROJECT / ".venv/bin/railyard")
        return run([program, *arguments], self.environment() | variables)

    def fault(self, device: str, *change: str) -> None:
        """Break a device behind Railyard's back."""
        control.request(
            self.lab / "control.sock", {"op": "fault", "device": device, "args": change}
        )

    def snapshot(self) -> str:
        """The whole state of all devices, canonical."""
        return take_snapshot(self.stack)

    def settings(self) -> Json:
        """The snapshot without what a running K3s writes all the time, and each new one again."""
        devices = json.loads(self.snapshot())["snapshot"]
        for host in devices["hosts"].values():
            host["files"] = {
                path: state for path, state in host["files"].items() if "rancher" not in path
            }
        return devices

    def preview(self, config: Path | None = None, *flags: str, **variables: str) -> Preview:
        """`pulumi preview`, of the committed file or of an edited copy."""
        events = self.lab / "preview.jsonl"
        events.unlink(missing_ok=True)
        edited = ["--config-file", str(config)] if config else []
        done = self.pulumi(
            "preview",
            "--event-log",
            str(events),
            *edited,
            *flags,
            PULUMI_DEBUG_COMMANDS="true",
            **variables,
        )
        return _preview(done, load_events(events))

    def exported(self) -> Any:  # noqa: ANN401 - a JSON document
        """What the engine keeps of the stack, secrets encrypted."""
        return json.loads(self.pulumi("stack", "export").must())

    def resources(self) -> frozenset[str]:
        """The URNs of the stack's state, from its file: it is asked for before every test."""
        latest: dict[str, Any] = json.loads(self.state.read_text())["checkpoint"]["latest"] or {}
        return frozenset(item["urn"] for item in latest.get("resources", []))

    def objects(self) -> frozenset[str]:
        """What the cluster holds of workloads: a killed acceptance may leave jobs behind."""
        kinds = "namespaces,jobs,mpijobs.kubeflow.org,daemonsets,deployments"
        listed = self.kubectl("get", kinds, "--all-namespaces", "--output", "name")
        return frozenset(listed.must().split())

    def kubectl(self, *arguments: str) -> Done:
        """One `kubectl` command as the administrator of the cluster."""
        spec = load_spec(choose_site(list(self.command[len(UP) :])))
        address = next(host.way.address for host in spec.hosts if host.role == "control_plane")
        # Inside of its host the file says 127.0.0.1, as K3s writes it.
        server = ["--kubeconfig", str(self.lab / KUBECONFIG), "--server", f"https://{address}:6443"]
        return run(["kubectl", *server, *arguments], self.environment())

    def end_state(self) -> EndState:
        """All that an update leads to."""
        return EndState(self.settings(), self.resources(), self.objects())

    def strays(self) -> list[str]:
        """Processes of an engine that is gone: started by these tests, outside of the lab."""
        lab = {process.pid for process in family(daemon_pid(self.stack))}
        own = {process.pid for process in family(os.getpid())}
        return [
            f"{process.pid} {process.name()}"
            for process in marked_processes(self.mark, PROJECT)
            if process.pid not in lab | own
        ]


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path = PROJECT,
) -> Done:
    """Run a command in a folder, default that of this clone, with nothing on standard input."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_DEADLINE_S,
        check=False,
    )
    return Done(done.returncode, done.stdout)


def lab_folder(stack: str) -> Path:
    """Where the lab of a stack keeps its files."""
    return PROJECT / ".lab" / stack


def take_snapshot(stack: str = STACK) -> str:
    """Ask the running lab for the state of all devices."""
    answer = control.request(lab_folder(stack) / "control.sock", {"op": "snapshot"})
    return json.dumps(answer, indent=1, sort_keys=True)


def daemon_pid(stack: str = STACK) -> int:
    """The lab's own process."""
    text = (lab_folder(stack) / control.PIDS_FILE).read_text()
    records = cast("list[dict[str, int]]", json.loads(text))
    return records[0]["pid"]


def load_events(path: Path) -> list[Event]:
    """The whole lines of an engine's event log."""
    if not path.exists():
        return []
    *lines, _ = path.read_text().split("\n")
    return [json.loads(line) for line in lines]


def operation_of(event: Event, kind: str) -> tuple[str, str]:
    """The resource's name and the operation of a resource event; empty for another event."""
    body = cast("dict[str, dict[str, str]]", event.get(kind, {}))
    metadata = body.get("metadata", {})
    return metadata.get("urn", "").rsplit("::", 1)[-1], metadata.get("op", "")


def _preview(done: Done, events: list[Event]) -> Preview:
    changes: dict[str, str] = {}
    messages: list[str] = []
    for event in events:
        name, operation = operation_of(event, "resourcePreEvent")
        if operation and operation not in _QUIET_STEPS:
            changes[name] = operation
        diagnostic = cast("dict[str, str]", event.get("diagnosticEvent", {}))
        if diagnostic:
            messages.append(_MARKS.sub("", diagnostic.get("message", "")).strip())
    return Preview(done, changes, tuple(messages))
