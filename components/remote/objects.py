"""Resources for steps on hosts, and for plain execs on switches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import pulumi
from pulumi_command import local, remote

from components.core.record import record
from components.remote.component import LocalCall, Remote, SecretStore, connection_of, local_call
from components.remote.sending import render_parts
from components.remote.step import Endpoint, RemoteStep, env_name
from components.remote.tools import keep_tools

Sent: TypeAlias = remote.Command


@record
class WithMade:
    """The secrets of the stack, and secrets from elsewhere or from this run."""

    given: SecretStore
    made: Mapping[str, pulumi.Output[str]]

    def require_secret(self, key: str) -> pulumi.Output[str]:
        """Return the secret of that name, marked as secret."""
        return self.made[key] if key in self.made else self.given.require_secret(key)


def host_steps(
    shared: Remote, steps: Sequence[RemoteStep], opts: pulumi.ResourceOptions, name: str = ""
) -> local.Command:
    """Run steps one after the other as one resource, with one SSH connection to each host.

    An undo runs them backwards. The resource is named after the step `name`, by default the last.
    """
    main, environment = name or steps[-1].name, dict[str, pulumi.Input[str]]()
    for step in steps:
        if step.dialect == "device" and not pulumi.runtime.is_dry_run():
            keep_tools(step.reads)
        environment |= shared.environment(step.endpoint)
        if secret := step.secret_stdin:
            environment[env_name(secret)] = shared.secrets.require_secret(secret)
    call = LocalCall(
        main,
        f"device steps {main}",
        shared.filled(render_parts((step, shared.note(step.name)) for step in steps)),
        environment,
        delete="device undo-steps" if any(step.undo for step in steps) else None,
        secret_stdout=steps[-1].secret_stdout,
        previous_output=len(steps) > 1,
    )
    return local_call(call, shared.on_machine(steps[0].endpoint, opts))


def host_step(shared: Remote, step: RemoteStep, opts: pulumi.ResourceOptions) -> local.Command:
    """Run one step on a host; the output of the resource is that of the step."""
    return host_steps(shared, [step], opts)


def switch_exec(
    shared: Remote,
    endpoint: Endpoint,
    name: str,
    opts: pulumi.ResourceOptions,
    create: str,
    delete: str | None = None,
) -> Sent:
    """Send an exec and keep its output, which may be an error although the step succeeds."""
    return remote.Command(
        name, connection=connection_of(shared, endpoint), create=create, delete=delete,
        logging=remote.Logging.NONE, add_previous_output_in_env=False, opts=opts,
    )  # fmt: skip


def printed(sent: Sent) -> pulumi.Output[str]:
    """Return the output of an exec; empty if a failed step skipped it."""
    both = pulumi.Output.all(sent.stdout, sent.stderr)
    return both.apply(lambda texts: "\n".join(filter(None, texts)))
