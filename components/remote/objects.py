"""Resources for steps on a host, for its tools, and for plain execs on switches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pulumi
from pulumi_command import local, remote

from components.core.plain_text import one_line
from components.remote.component import (
    SEALED,
    LocalCall,
    Remote,
    SecretStore,
    connection_of,
    local_call,
)
from components.remote.sending import with_repair
from components.remote.step import (
    ENDPOINT_VARIABLE,
    REPAIR_LINE,
    Endpoint,
    RemoteStep,
    create_text,
    render_endpoint,
)
from components.remote.tools import keep_tools

Sent: TypeAlias = remote.Command
Step: TypeAlias = remote.Command | local.Command
"""A step on a host, by the provider's SSH client or by Railyard's."""


@dataclass(frozen=True, slots=True)
class WithMade:
    """The secrets of the stack, and secrets from elsewhere or from this run."""

    given: SecretStore
    made: Mapping[str, pulumi.Output[str]]

    def require_secret(self, key: str) -> pulumi.Output[str]:
        """Return the secret of that name, marked as secret."""
        return self.made[key] if key in self.made else self.given.require_secret(key)


def host_step(shared: Remote, step: RemoteStep, opts: pulumi.ResourceOptions) -> Step:
    """Run one step on a host: one SSH connection, one line that calls a tool, the state on stdin.

    If the provider's client cannot reach it (`Endpoint.why_own_client`), a local process sends the
    same line and stdin.
    """
    note = shared.note(step.name)
    stdin = shared.filled(step.desired + (f"{REPAIR_LINE}{one_line(note)}\n" if note else ""))
    opts = shared.on_machine(step.endpoint, opts)
    if step.secret_stdin:
        stdin = shared.secrets.require_secret(step.secret_stdin)
    create = create_text(step, step.apply)
    delete = create_text(step, step.undo) if step.undo else None
    if step.endpoint.why_own_client:
        endpoint = shared.filled(render_endpoint(step.endpoint))
        environment = {ENDPOINT_VARIABLE: endpoint, **shared.environment(step.endpoint)}
        call = LocalCall(step.name, create, stdin, environment, delete, step.secret_stdout)
        return local_call(call, opts)
    return remote.Command(
        step.name,
        connection=connection_of(shared, step.endpoint),
        create=create,
        delete=delete,
        stdin=stdin,
        logging=remote.Logging.NONE,
        add_previous_output_in_env=False,
        opts=pulumi.ResourceOptions.merge(opts, SEALED) if step.secret_stdout else opts,
    )


def tools_step(shared: Remote, step: RemoteStep, opts: pulumi.ResourceOptions) -> pulumi.Resource:
    """Send the tools of a host; every other step there depends on this one.

    Raises:
        UsageError: The texts cannot be stored for the process that sends them.
    """
    if not pulumi.runtime.is_dry_run():
        keep_tools(step.reads)
    desired = with_repair(step.desired, shared.note(step.name))
    call = LocalCall(
        step.name,
        str(step.apply),
        shared.filled(desired),
        shared.environment(step.endpoint),
        delete=str(step.undo),
    )
    return local_call(call, shared.on_machine(step.endpoint, opts))


@dataclass(frozen=True, slots=True)
class SwitchExec:
    """One exec request on a switch."""

    name: str
    endpoint: Endpoint
    create: str
    delete: str | None = None


def switch_exec(shared: Remote, call: SwitchExec, opts: pulumi.ResourceOptions) -> Sent:
    """Send it and keep its output, which may be an error although the step succeeds."""
    return remote.Command(
        call.name,
        connection=connection_of(shared, call.endpoint),
        create=call.create,
        delete=call.delete,
        logging=remote.Logging.NONE,
        add_previous_output_in_env=False,
        opts=opts,
    )


def printed(sent: Sent) -> pulumi.Output[str]:
    """Return the output of an exec; empty if a failed step skipped it."""

    def join(texts: Sequence[str | None]) -> str:
        return "\n".join(text for text in texts if text)

    return pulumi.Output.all(sent.stdout, sent.stderr).apply(join)
