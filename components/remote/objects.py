"""Resources beside a step: the tools of a host, and plain execs on switches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pulumi
from pulumi_command import remote

from components.remote.component import LocalCall, Remote, connection_of, local_call
from components.remote.sending import with_repair
from components.remote.step import Endpoint, RemoteStep
from components.remote.tool_files import keep_tools

Sent: TypeAlias = remote.Command


def tools_step(shared: Remote, step: RemoteStep, opts: pulumi.ResourceOptions) -> pulumi.Resource:
    """Put the tools of a host on it; every other step there depends on this one.

    Raises:
        UsageError: The texts cannot be laid beside the program, for the process that sends them.
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
    """Send it, and keep what it printed: it may be an error although the step is a success."""
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
    """All that an exec printed; nothing, where it was skipped behind a failed step."""

    def join(texts: Sequence[str | None]) -> str:
        return "\n".join(text for text in texts if text)

    return pulumi.Output.all(sent.stdout, sent.stderr).apply(join)
