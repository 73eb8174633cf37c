"""The Pulumi resources of remote steps: the only place that makes a command."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

import pulumi
from pulumi_command import local, remote

from components.core.errors import Bug
from components.core.plain_text import fill, instances_in, parse_facts
from components.remote.step import Endpoint, env_name, railyard_program

DIAL_ERROR_LIMIT = 10
"""About 11 s of refused connections (the provider's default); the preview already looked."""
PER_DIAL_TIMEOUT_S = 15
Options: TypeAlias = pulumi.ResourceOptions
SEALED = pulumi.ResourceOptions(additional_secret_outputs=["stdout", "stderr"])
"""What a step printed is a secret."""
Texts: TypeAlias = Mapping[str, pulumi.Output[str]]


class SecretStore(Protocol):
    """Where secrets come from: `pulumi.Config` in a program, a dictionary in a test."""

    def require_secret(self, key: str) -> pulumi.Output[str]:
        """The secret of that name, marked secret."""
        ...


@dataclass(frozen=True, slots=True)
class Remote:
    """What every remote resource of a run shares."""

    secrets: SecretStore
    notes: Mapping[str, str]
    """Step name to repair note; a step without an entry has none."""
    provenance: Literal["real", "lab"] = "real"
    """`lab`: devices and numbers are simulated, and every report says so."""
    instances: Texts = field(default_factory=dict[str, pulumi.Output[str]])
    """Cloud instance to its facts as a JSON object of texts; none on own machines."""
    machines: Mapping[str, pulumi.Resource] = field(default_factory=dict[str, pulumi.Resource])
    """Device to the instance that it is: what is on it goes with it."""

    def note(self, step: str) -> str:
        """The repair note of a step, or an empty text."""
        return self.notes.get(step, "")

    def filled(self, text: str) -> pulumi.Input[str]:
        """The text with the facts of the instances in its holes."""
        names = instances_in(text)
        if not names:
            return text
        known = pulumi.Output.all(*(self.instances[name] for name in names))
        return known.apply(lambda facts: fill(text, parse_facts(names, facts)))

    def on_machine(self, endpoint: Endpoint, opts: Options) -> Options:
        """The options of a step on a device: with the instance that it is, it is gone."""
        gone_with = pulumi.ResourceOptions(deleted_with=self.machines.get(endpoint.device))
        return pulumi.ResourceOptions.merge(opts, gone_with)

    def environment(self, endpoint: Endpoint) -> dict[str, pulumi.Input[str]]:
        """The secrets that a local `railyard` needs to reach a device."""
        names = endpoint.secret_names
        return {env_name(name): self.secrets.require_secret(name) for name in names}


def connection_of(shared: Remote, endpoint: Endpoint) -> remote.ConnectionArgs:
    """How the command provider reaches a device: the host key is always pinned.

    Raises:
        Bug: It cannot reach this one.
    """
    if endpoint.why_own_client:
        raise Bug(f"{endpoint.where}: {endpoint.why_own_client}, so the provider cannot reach it")
    own = _login_of(shared, endpoint)
    hops = [_login_of(shared, hop) for hop in endpoint.jump]
    return remote.ConnectionArgs(
        **own, proxy=remote.ProxyConnectionArgs(**hops[0]) if hops else None
    )


def _login_of(shared: Remote, endpoint: Endpoint) -> dict[str, Any]:
    """An agent is in no input: the provider finds it by SSH_AUTH_SOCK, which differs each day."""

    def secret(name: str | None) -> pulumi.Output[str] | None:
        return shared.secrets.require_secret(name) if name else None

    return {
        "host": shared.filled(endpoint.address),
        "port": endpoint.port,
        "user": endpoint.user,
        "host_key": shared.filled(endpoint.host_key),
        "private_key": secret(endpoint.private_key_secret),
        "private_key_password": secret(endpoint.passphrase_secret),
        "password": secret(endpoint.password_secret),
        "dial_error_limit": DIAL_ERROR_LIMIT,
        "per_dial_timeout": PER_DIAL_TIMEOUT_S,
    }


@dataclass(frozen=True, slots=True)
class LocalCall:
    """One call of `railyard` on the machine that runs Pulumi."""

    name: str
    create: str
    """Arguments of `railyard`, or a whole line that calls it."""
    stdin: pulumi.Input[str]
    environment: Mapping[str, pulumi.Input[str]]
    delete: str | None = None
    secret_stdout: bool = False
    triggers: Sequence[pulumi.Input[str]] = ()
    """What replaces the resource: for cloud objects alone."""
    previous_output: bool = False
    """Hand the evidence of the last run back: an update then knows what it no longer wants."""


def local_call(call: LocalCall, opts: pulumi.ResourceOptions) -> local.Command:
    """Run `railyard` here: one driver, in one language, for reading and for changing."""
    if call.secret_stdout:
        opts = Options.merge(opts, SEALED)
    return local.Command(
        call.name,
        create=_line(call.create),
        delete=_line(call.delete) if call.delete else None,
        stdin=call.stdin,
        environment=dict(call.environment),
        logging=local.Logging.NONE,
        add_previous_output_in_env=call.previous_output,
        triggers=list(call.triggers) or None,
        opts=opts,
    )


def _line(words: str) -> str:
    program = railyard_program()
    return words if words.startswith(f"{program} ") else f"{program} {words}"


def join_text(output: pulumi.Output[str], join: Callable[[str], str]) -> pulumi.Output[str]:
    """Join the text that a step printed into a finished text.

    With `--continue-on-error` a step behind a failed one is skipped and gives None; what hangs
    on it is skipped as well, so its text does not matter.
    """
    return output.apply(lambda text: join(text) if text else "")
