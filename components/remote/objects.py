"""Plain execs on switches, with nothing of ours between the switch and Pulumi."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pulumi
from pulumi_command import remote

from components.remote.component import Remote, connection_of
from components.remote.step import Endpoint

Sent: TypeAlias = remote.Command


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
