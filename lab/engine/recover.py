"""Bring a stack back to work after its engine was killed.

A killed engine leaves a lock, pending operations and, in the cluster, perhaps objects that no
state knows. Plain Pulumi then refuses, keeps pending creates for ever, and would create an object
again that exists. The order here: lift the lock of a dead process, take pending creates of
Kubernetes objects into the state by their known names, let a refresh find out which of them
exist, and clear the rest: commands are safe to run again.
"""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

import psutil

from components.core.errors import RailyardError
from components.core.record import record
from components.project.under_way import Lock, read_locks
from standins.values import Properties, Value, reveal

CLOCK_SLACK_S: Final = 2.0
"""A process start time has a resolution of a jiffy, a lock's stamp of a nanosecond."""
PULUMI_TIMEOUT_S: Final = 300
KUBERNETES_PREFIX: Final = "kubernetes:"


@record
class Pulumi:
    """How to call the engine on one stack."""

    project: Path
    name: str
    stack: str
    backend: Path
    environment: Mapping[str, str]
    config_file: Path | None = None
    """The stack's configuration, where it is not `Pulumi.<stack>.yaml` of the project."""

    def run(self, *arguments: str, stdin: str | None = None) -> str:
        """Run one `pulumi` command on the stack and return its standard output.

        Raises:
            RailyardError: It failed or took too long; the text holds its own words.

        """
        command = ["pulumi", *arguments, "--stack", self.stack, "--non-interactive"]
        try:
            done = subprocess.run(
                command,
                cwd=self.project,
                env=self.environment,
                input=stdin,
                capture_output=True,
                text=True,
                timeout=PULUMI_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise RailyardError(
                f"`{' '.join(command)}` did not end in {PULUMI_TIMEOUT_S} s"
            ) from None
        if done.returncode:
            raise RailyardError(
                f"`{' '.join(command)}` failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        return done.stdout


def recover(pulumi: Pulumi) -> tuple[str, ...]:
    """Lift a dead process's lock and settle what was pending.

    Returns:
        One line for each thing that was done; nothing when the stack is sound or new.

    Raises:
        RailyardError: A living process, or one on another machine, holds the stack.

    """
    if not state_file(pulumi).exists():
        return ()
    lines: list[str] = []
    locks = load_locks(pulumi)
    for lock in locks:
        check_lock(lock, socket.gethostname(), pulumi.stack)
    if locks:
        pulumi.run("cancel", "--yes")
        lines.append(f"lifted the lock of pulumi process {locks[0].pid}, which is gone")
    pending = load_pending(pulumi)
    if pending:
        lines += _settle(pulumi, pending)
    return tuple(lines)


def state_file(pulumi: Pulumi) -> Path:
    """Return where the file backend keeps the state of the stack."""
    return pulumi.backend / ".pulumi" / "stacks" / pulumi.name / f"{pulumi.stack}.json"


def load_locks(pulumi: Pulumi) -> tuple[Lock, ...]:
    """Return the locks on the stack."""
    return tuple(read_locks(pulumi.backend, pulumi.name, pulumi.stack))


def check_lock(lock: Lock, host: str, stack: str) -> None:
    """Return when the lock may be lifted, because its process is gone.

    Raises:
        RailyardError: It may not.

    """
    taken_at = datetime.fromisoformat(lock.stamp)
    who = f"{lock.user}@{lock.host} (pid {lock.pid}) since {taken_at:%Y-%m-%d %H:%M:%S}"
    if lock.host != host:
        raise RailyardError(
            f"stack {stack} is locked by {who}, on another machine: wait for it, or, if that"
            f" machine is gone, run `pulumi cancel --stack {stack}`"
        )
    if is_alive(lock.pid, taken_at):
        raise RailyardError(
            f"stack {stack} is in use by {who}: wait for it to end, or end it with"
            f" `kill -INT {lock.pid}`"
        )


def is_alive(pid: int, taken_at: datetime) -> bool:
    """Return whether the process that took a lock still runs; a later one has only its number."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return process.create_time() <= taken_at.timestamp() + CLOCK_SLACK_S
    except psutil.NoSuchProcess:
        return False


def load_pending(pulumi: Pulumi) -> list[Properties]:
    """Return the pending operations as the state file holds them."""
    checkpoint = _object(_object(json.loads(state_file(pulumi).read_text())).get("checkpoint"))
    return _objects(_object(checkpoint.get("latest")).get("pending_operations"))


def adopt_pending(exported: Properties) -> tuple[Properties, tuple[str, ...]]:
    """Move pending creates of named Kubernetes objects into the resources of an exported state.

    A refresh then reads each by its identity: one that exists is kept, one that does not is
    dropped.

    Returns:
        The edited export, and the URNs that were moved.

    """
    deployment = _object(exported.get("deployment"))
    resources = _objects(deployment.get("resources"))
    known = {str(resource.get("urn")) for resource in resources}
    kept: list[Value] = []
    adopted: list[str] = []
    for operation in _objects(deployment.get("pending_operations")):
        resource = _object(operation.get("resource"))
        urn, identity = str(resource.get("urn")), kubernetes_id(resource)
        if operation.get("type") != "creating" or identity is None or urn in known:
            kept.append(operation)
            continue
        resources.append({"outputs": resource.get("inputs"), **resource, "id": identity})
        adopted.append(urn)
    edited: Properties = {
        **deployment,
        "resources": list[Value](resources),
        "pending_operations": kept,
    }
    return {**exported, "deployment": edited}, tuple(adopted)


def kubernetes_id(resource: Properties) -> str | None:
    """Return the provider's identity of a Kubernetes object or release, `namespace/name`.

    None for everything else, and for an object whose name is not plain in its inputs.
    """
    if not str(resource.get("type")).startswith(KUBERNETES_PREFIX):
        return None
    inputs = _object(resource.get("inputs"))
    is_release = resource.get("type") == "kubernetes:helm.sh/v3:Release"
    names = inputs if is_release else _object(reveal(inputs.get("metadata")))
    name, namespace = names.get("name"), names.get("namespace")
    if not isinstance(name, str):
        return None
    return f"{namespace}/{name}" if isinstance(namespace, str) else name


def _settle(pulumi: Pulumi, pending: list[Properties]) -> list[str]:
    exported = _object(json.loads(pulumi.run("stack", "export")))
    edited, adopted = adopt_pending(exported)
    if adopted:
        pulumi.run("stack", "import", stdin=json.dumps(edited))
    config = ["--config-file", str(pulumi.config_file)] if pulumi.config_file else []
    pulumi.run("refresh", "--yes", "--skip-preview", "--clear-pending-creates", *config)
    names = ", ".join(_name(operation) for operation in pending)
    looked = f", of which {len(adopted)} were looked up in the cluster" if adopted else ""
    return [f"settled {len(pending)} interrupted operations{looked}: {names}"]


def _name(operation: Properties) -> str:
    urn = str(_object(operation.get("resource")).get("urn"))
    return f"{operation.get('type')} {urn.rsplit('::', 1)[-1]}"


def _object(value: Value) -> Properties:
    return value if isinstance(value, dict) else {}


def _objects(value: Value) -> list[Properties]:
    return [_object(item) for item in value] if isinstance(value, list) else []
