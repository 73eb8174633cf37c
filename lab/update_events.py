"""Follow a running `pulumi up`: one line for each thing that changed, and what is still going."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from components.acceptance.collect.turn import PROGRESS
from components.acceptance.handover import EVIDENCE_STEP
from components.acceptance.report.archive import FOLDER as ARCHIVE

Event = Mapping[str, object]

QUIET_S: Final = 10.0
"""Seconds without a finished resource after which the running ones are named."""
POLL_S: Final = 0.1
UPDATE_DEADLINE_S: Final = 3600.0
STUCK_S: Final = 60.0
"""Seconds in which nothing runs and nothing is said, after a step has failed.

Before it deletes anything the engine then looks for what the failed step depends on. It walks every
path of the graph for that (pulumi 3.250, `markAsDependency`), which on a site never ends.
"""
_STUCK: Final = (
    "the engine did not come to its end after the failed step: that is a fault of its own, and it"
    " was ended. Nothing was running, what was done is recorded, and only deletions are left to do"
)
_STAGE: Final = re.compile(r"::railyard:([a-z_]+):|\$railyard:([a-z_]+):|railyard:([a-z_]+):")
_VERBS: Final = {
    "create": "created",
    "update": "updated",
    "delete": "deleted",
    "replace": "replaced",
    "create-replacement": "replaced",
    "delete-replaced": "removed",
}
_SEVERE: Final = {"error", "warning"}


@dataclass(slots=True)
class Update:
    """What one update did."""

    exit_code: int = 0
    changes: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    """Stage to what happened to how many of its resources (`same` included)."""
    messages: list[str] = field(default_factory=list[str])
    """Errors and warnings of the engine and of the steps, each once."""
    seconds: float = 0.0
    stopped: bool = False

    @property
    def succeeded(self) -> bool:
        """The engine ended well."""
        return self.exit_code == 0

    @property
    def changed(self) -> int:
        """How many resources were changed."""
        return sum(
            count
            for stage in self.changes.values()
            for verb, count in stage.items()
            if verb != "same"
        )


class _Screen:
    """Prints what finishes, and says what is running when nothing finishes for a while."""

    def __init__(self, stuck_s: float, archive: Path) -> None:
        self._archive = archive
        self.running: dict[str, float] = {}
        self.last_word = self.last_event = time.monotonic()
        self.failed = False
        self._stuck_s = stuck_s

    @property
    def is_stuck(self) -> bool:
        """A step failed, nothing runs, and the engine has been silent for too long."""
        works = any(not _is_component(urn) for urn in self.running)
        silent_s = time.monotonic() - self.last_event
        return self.failed and not works and silent_s > self._stuck_s

    def say(self, text: str) -> None:
        print(text, flush=True)
        self.last_word = time.monotonic()

    def tick(self) -> None:
        if self.running and time.monotonic() - self.last_word > QUIET_S:
            now = time.monotonic()
            names = ", ".join(
                f"{name_of(urn)} ({now - since:.0f} s)" for urn, since in self.running.items()
            )
            self.say(f"  ... working on {names}")
            words = progress_of(self._archive) if EVIDENCE_STEP in names else ""
            if words:
                self.say(f"      {words}")


def progress_of(archive: Path) -> str:
    """What acceptance does now, as it says in the folder of its run; empty where it says nothing.

    Args:
        archive: The folder of the stack's runs.
    """
    try:
        newest = max(archive.glob(f"run-*/{PROGRESS}"), key=lambda each: each.stat().st_mtime)
        return newest.read_text().strip()
    except (OSError, ValueError):  # the run has just ended, or there is none
        return ""


def name_of(urn: str) -> str:
    """The resource's own name."""
    return urn.rsplit("::", 1)[-1]


def _is_component(urn: str) -> bool:
    return urn.split("::")[2].rsplit("$", 1)[-1].startswith(("pulumi:", "railyard:"))


def stage_of(urn: str) -> str:
    """The room that a resource belongs to, or `stack`."""
    match = _STAGE.search(urn)
    return next((group for group in match.groups() if group), "stack") if match else "stack"


def follow_update(
    command: Sequence[str],
    project: Path,
    environment: Mapping[str, str],
    folder: Path,
    stuck_s: float = STUCK_S,
) -> Update:
    """Run an update and print its progress.

    Args:
        command: The whole command line of `pulumi up`.
        project: Where it runs.
        environment: Its environment.
        folder: Where the event log and the full output go; its name is the stack's.
        stuck_s: Seconds after which an engine that hangs behind a failed step is ended.
    """
    events = folder / "events.jsonl"
    events.unlink(missing_ok=True)
    update, screen = Update(), _Screen(stuck_s, project / ARCHIVE / folder.name)
    begun = time.monotonic()
    with (folder / "pulumi.log").open("w") as log:
        child = subprocess.Popen(
            [*command, "--event-log", str(events)],
            cwd=project,
            env={**environment, "PULUMI_DEBUG_COMMANDS": "true"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            _tail(child, events, update, screen)
        except KeyboardInterrupt:
            update.stopped = True
            child.wait(timeout=UPDATE_DEADLINE_S)
            raise
    update.exit_code = child.returncode
    update.seconds = time.monotonic() - begun
    if update.exit_code != 0 and not update.messages:
        update.messages.append((folder / "pulumi.log").read_text()[-3000:].strip())
    return update


def _tail(child: subprocess.Popen[bytes], path: Path, update: Update, screen: _Screen) -> None:
    position, rest = 0, ""
    deadline = time.monotonic() + UPDATE_DEADLINE_S
    while True:
        ended = child.poll() is not None
        if path.exists():
            with path.open() as file:
                file.seek(position)
                rest += file.read()
                position = file.tell()
            *lines, rest = rest.split("\n")
            for line in lines:
                screen.last_event = time.monotonic()
                _take(cast("Event", json.loads(line)), update, screen)
        if ended:
            return
        if screen.is_stuck and not ended:
            update.messages.append(_STUCK)
            child.kill()
            child.wait(timeout=UPDATE_DEADLINE_S)
        if time.monotonic() > deadline:
            child.terminate()
            child.wait(timeout=UPDATE_DEADLINE_S)
        screen.tick()
        time.sleep(POLL_S)


def _take(event: Event, update: Update, screen: _Screen) -> None:
    for key, handle in (
        ("resourcePreEvent", _started),
        ("resOutputsEvent", _finished),
        ("resOpFailedEvent", _failed),
        ("diagnosticEvent", _diagnosed),
    ):
        body = event.get(key)
        if isinstance(body, Mapping):
            handle(cast("Event", body), update, screen)


def _metadata(body: Event) -> tuple[str, str]:
    metadata = cast("Mapping[str, str]", body.get("metadata", {}))
    return metadata.get("urn", ""), metadata.get("op", "")


def _started(body: Event, update: Update, screen: _Screen) -> None:
    del update
    urn, operation = _metadata(body)
    if operation in _VERBS:
        screen.running[urn] = time.monotonic()


def _finished(body: Event, update: Update, screen: _Screen) -> None:
    urn, operation = _metadata(body)
    if operation == "refresh":
        return
    since = screen.running.pop(urn, None)
    stage = update.changes.setdefault(stage_of(urn), Counter())
    if _is_component(urn):
        return
    verb = _VERBS.get(operation, operation)
    stage[verb] += 1
    if verb != "same":
        took = f"{time.monotonic() - since:6.1f} s" if since else ""
        screen.say(f"  {stage_of(urn):<12} {name_of(urn):<40} {verb:<9} {took}")


def _failed(body: Event, update: Update, screen: _Screen) -> None:
    urn, _ = _metadata(body)
    screen.running.pop(urn, None)
    screen.failed = True
    update.changes.setdefault(stage_of(urn), Counter())["failed"] += 1
    screen.say(f"  {stage_of(urn):<12} {name_of(urn):<40} FAILED")


_COMMAND: Final = re.compile(r': running "(?:[^"\\]|\\.)*":\n', re.DOTALL)
"""The provider's echo of the whole command: hundreds of lines before the reason."""


def _readable(message: str) -> str:
    """The reason, without colour marks and without the command's text."""
    return _COMMAND.sub(":\n", re.sub(r"<\{%[^%]*%\}>", "", message)).strip()


def _diagnosed(body: Event, update: Update, screen: _Screen) -> None:
    severity = str(body.get("severity", ""))
    message = _readable(str(body.get("message", "")))
    if severity == "info" and ": drift: " in message:
        screen.say(f"  {message}")
    if severity.rstrip("0123456789#") in _SEVERE or severity.startswith("info#err"):
        urn = str(body.get("urn", ""))
        text = f"{name_of(urn)}: {message}" if urn else message
        # An unknown provider is the engine's word for one that it skipped after a failure.
        echo = message == "update failed" or (
            message.startswith("unknown provider") and update.messages
        )
        if text and not echo and text not in update.messages:
            update.messages.append(text)
