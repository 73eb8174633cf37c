"""Pulumi resources of remote steps; only this module makes commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import pulumi
from pulumi_command import local, remote

from components.core.errors import Bug
from components.core.plain_text import fill, instances_in, parse_facts
from components.core.record import field, record
from components.remote.step import Endpoint, env_name, railyard_program

DIAL_ERROR_LIMIT = 10
"""About 11 s of refused connections (the provider's default); the preview has already connected."""
PER_DIAL_TIMEOUT_S = 15
Options: TypeAlias = pulumi.ResourceOptions
SEALED = pulumi.ResourceOptions(additional_secret_outputs=["stdout", "stderr"])
Texts: TypeAlias = Mapping[str, pulumi.Output[str]]


class SecretStore(Protocol):
    """Source of secrets: `pulumi.Config` in a program, a dictionary in a test."""

    def require_secret(self, key: str) -> pulumi.Output[str]:
        """Return the secret of that name, marked as secret."""
        ...


@record
class Remote:
    """Values that all remote resources of a run share."""

    secrets: SecretStore
    notes: Mapping[str, str]
    """Step name to repair note, only for steps with a note."""
    provenance: Literal["real", "lab"] = "real"
    """`lab`: devices and numbers are simulated, as every report states."""
    instances: Texts = field(default_factory=dict[str, pulumi.Output[str]])
    """Cloud instance to its facts as a JSON object of texts; empty on own machines."""
    machines: Mapping[str, pulumi.Resource] = field(default_factory=dict[str, pulumi.Resource])
    """Device to its cloud instance, whose deletion also deletes the device's steps."""
    stack: str = ""
    """The stack's name on devices; empty: its own. Pieces of a site use the name of the site."""

    kept: Mapping[str, str] = field(default_factory=dict[str, str])
    """Step to its recorded stdin, for steps outside of the scope of this run."""

    def note(self, step: str) -> str:
        """Return the repair note of a step, or an empty text."""
        return self.notes.get(step, "")

    def filled(self, text: str) -> pulumi.Input[str]:
        """Return the text with placeholders filled from the instances' facts."""
        names = instances_in(text)
        if not names:
            return text
        known = pulumi.Output.all(*(self.instances[name] for name in names))
        return known.apply(lambda facts: fill(text, parse_facts(names, facts)))

    def on_machine(self, endpoint: Endpoint, opts: Options) -> Options:
        """Return the options of a device's step, which its instance's deletion also deletes."""
        gone_with = pulumi.ResourceOptions(deleted_with=self.machines.get(endpoint.device))
        return pulumi.ResourceOptions.merge(opts, gone_with)

    def environment(self, endpoint: Endpoint) -> dict[str, pulumi.Input[str]]:
        """Return the secrets that a local `railyard` needs to reach a device."""
        names = endpoint.secret_names
        return {env_name(name): self.secrets.require_secret(name) for name in names}


def connection_of(shared: Remote, endpoint: Endpoint) -> remote.ConnectionArgs:
    """Return the provider's connection to a device, with a pinned key; Bug if it has none."""
    if endpoint.why_own_client:
        raise Bug(f"{endpoint.where}: {endpoint.why_own_client}, so the provider cannot reach it")
    own = _login_of(shared, endpoint)
    hops = [_login_of(shared, hop) for hop in endpoint.jump]
    return remote.ConnectionArgs(
        **own, proxy=remote.ProxyConnectionArgs(**hops[0]) if hops else None
    )


def _login_of(shared: Remote, endpoint: Endpoint) -> dict[str, Any]:
    """Leave an agent out of the inputs: its address SSH_AUTH_SOCK changes from day to day."""

    def secret(name: str | None) -> pulumi.Output[str] | None:
        return shared.secrets.require_secret(name) if name else None

    return {
        "host": shared.filled(endpoint.address), "port": endpoint.port, "user": endpoint.user,
        "host_key": shared.filled(endpoint.host_key),
        "private_key": secret(endpoint.private_key_secret),
        "private_key_password": secret(endpoint.passphrase_secret),
        "password": secret(endpoint.password_secret),
        "dial_error_limit": DIAL_ERROR_LIMIT, "per_dial_timeout": PER_DIAL_TIMEOUT_S,
    }  # fmt: skip


@record
class LocalCall:
    """One call of `railyard` on the machine that runs Pulumi."""

    name: str
    create: str
    """Arguments of `railyard`."""
    stdin: pulumi.Input[str]
    environment: Mapping[str, pulumi.Input[str]]
    delete: str | None = None
    secret_stdout: bool = False
    triggers: Sequence[pulumi.Input[str]] = ()
    """Values whose change replaces the resource; only for cloud objects."""
    previous_output: bool = False
    """Pass the previous output to the next run, so an update knows which settings to remove."""


def local_call(call: LocalCall, opts: pulumi.ResourceOptions) -> local.Command:
    """Run `railyard` on this machine: the same driver reads and changes."""
    program = railyard_program()
    return local.Command(
        call.name, create=f"{program} {call.create}",
        delete=f"{program} {call.delete}" if call.delete else None,
        stdin=call.stdin, environment=dict(call.environment), logging=local.Logging.NONE,
        add_previous_output_in_env=call.previous_output, triggers=list(call.triggers) or None,
        opts=Options.merge(opts, SEALED) if call.secret_stdout else opts,
    )  # fmt: skip


def join_text(output: pulumi.Output[str], join: Callable[[str], str]) -> pulumi.Output[str]:
    """Transform a step's printed text: None, for skipped steps of `--continue-on-error`, is ""."""
    return output.apply(lambda text: join(text) if text else "")
