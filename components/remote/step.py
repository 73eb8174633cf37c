"""`RemoteStep`: the one unit of remote work, as a plain value.

A step says where it runs, what it wants, how it applies that, how it takes it back, and how it
proves it. It knows no Pulumi and opens no connection: `component.py` makes the resource.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Final, Literal

from pydantic import Field

from components.core.errors import Bug, UsageError
from components.core.plain_text import Facts, fill_known, has_placeholder
from components.core.to_json import OMIT_EMPTY, to_json
from components.remote.lines import render_lines
from components.remote.tools import Tool, ToolCall, distinct

TargetKind = Literal["host", "switch", "jump"]
RSA: Final = "ssh-rsa "
"""Begins an RSA public key line, whatever signatures it is used with."""
REPAIR_LINE = "repair="
"""Begins the last line of a host's stdin where there is a repair note: no key of a host's state."""
OBSERVE_DEADLINE_S: Final = 60.0
"""Seconds for one read-only look at a host: connect, script, answer. A look takes about a second;
a host whose cores are all busy with training may take ten times as long."""


Unset = Annotated[float, Field(exclude_if=lambda seconds: not seconds)]
"""Seconds that pydantic leaves out while they are 0, as OMIT_EMPTY does elsewhere."""
COMMAND_S: Final = 0.75
"""Seconds by which each command to a switch moves its deadline. Onyx and EOS answer in some 0.1 s;
SONiC starts a Python program for each line of `config`, which takes 0.5 to 2 s on the processor of
a switch (assumed, not measured on one)."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How one device is reached: addresses and the names of secrets, never their values."""

    device: str
    kind: TargetKind
    address: str
    port: int
    user: str
    host_key: str
    """Pinned public key line, for example `ssh-ed25519 AAAA…`."""
    password_secret: str | None = None
    private_key_secret: str | None = None
    passphrase_secret: str | None = field(default=None, metadata=OMIT_EMPTY)
    """Of the private key."""
    agent: bool = field(default=False, metadata=OMIT_EMPTY)
    """The SSH agent of who runs Railyard has the key."""
    sudo_secret: str | None = field(default=None, metadata=OMIT_EMPTY)
    """The password that `sudo` asks for."""
    enable_secret: str | None = field(default=None, metadata=OMIT_EMPTY)
    """The password of a switch's `enable`."""
    legacy_algorithms: bool = field(default=False, metadata=OMIT_EMPTY)
    """SHA-1 is let pass, for an old switch."""
    read_s: Unset = field(default=0.0, metadata=OMIT_EMPTY)
    """`deadlines` of the file: seconds for a look; 0: the default of its kind."""
    write_s: Unset = field(default=0.0, metadata=OMIT_EMPTY)
    """The same for a change of a switch."""
    command_s: Unset = field(default=0.0, metadata=OMIT_EMPTY)
    """The same for each command to a switch, on top."""
    jump: tuple[Endpoint, ...] = field(default=(), metadata=OMIT_EMPTY)
    """The jump hosts on the way, the one that is reached first at the beginning."""

    @property
    def where(self) -> str:
        """The device and its address, as errors name them."""
        by = f" by {', '.join(each.device for each in self.jump)}" if self.jump else ""
        return f"{self.device} ({self.user}@{self.place}{by})"

    @property
    def place(self) -> str:
        """Address and port, an IPv6 address in brackets."""
        return f"{bracketed(self.address)}:{self.port}"

    @property
    def secret_names(self) -> tuple[str, ...]:
        """The names of all secrets that reaching it takes, those of its jump hosts too."""
        own = (self.password_secret, self.private_key_secret, self.passphrase_secret)
        more = (self.sudo_secret, self.enable_secret)
        behind = (name for hop in self.jump for name in hop.secret_names)
        return tuple(dict.fromkeys((*(name for name in (*own, *more) if name), *behind)))

    @property
    def why_own_client(self) -> str:
        """What the command provider cannot do on the way to this device; empty: nothing.

        It takes one proxy, has no channel for a password of sudo, and offers SHA-1 alone for an RSA
        host key (docs/decisions/0019).
        """
        if self.sudo_secret is not None:
            return "sudo asks for a password"
        if len(self.jump) > 1:
            return f"{len(self.jump)} jump hosts are on the way"
        rsa = [each.device for each in (self, *self.jump) if each.host_key.startswith(RSA)]
        return f"{rsa[0]} has an RSA host key" if rsa else ""

    def known(self, facts: Facts) -> Endpoint:
        """The same with what is known of the instance in its holes."""
        address, host_key = (fill_known(text, facts) for text in (self.address, self.host_key))
        return replace(self, address=address, host_key=host_key)

    @property
    def reachable(self) -> bool:
        """It is known where it is."""
        return not has_placeholder(self.address)


@dataclass(frozen=True, slots=True)
class RemoteStep:
    """One piece of remote work, safe to run twice and safe to run after half a run."""

    name: str
    """`<target>-<work>`: it becomes the resource name, so it is an API."""
    endpoint: Endpoint
    dialect: Literal["sh", "ash", "device"]
    """`sh`: a tool on a Linux host over one SSH exec; `ash`: on ESXi. `device`: `railyard
    device …` here."""
    desired: str
    """Desired state on stdin: sorted `key=value` lines (`sh`), or `path = value` (`device`)."""
    apply: ToolCall | str
    """A verb of a tool (`sh`, `ash`), or arguments of `railyard` (`device`)."""
    deadline_s: float
    """The step ends itself after this long; the engine has no deadline of its own."""
    undo: ToolCall | str | None = None
    """What `destroy` runs, with the same stdin."""
    why_no_undo: str | None = None
    reboots: bool = False
    secret_stdin: str | None = None
    """Name of the secret that is the stdin of this step instead of `desired`."""
    secret_stdout: bool = False
    reads: tuple[Tool, ...] = field(default=(), metadata=OMIT_EMPTY)
    """Lists on the target that its desired state names by their digests."""

    def known(self, facts: Facts) -> RemoteStep:
        """The same with what is known of the instances in its holes."""
        endpoint = self.endpoint.known(facts)
        return replace(self, endpoint=endpoint, desired=fill_known(self.desired, facts))

    @property
    def tools(self) -> tuple[Tool, ...]:
        """What must lie on the target before the step runs, and until its undo ran."""
        calls = (self.apply, self.undo)
        return distinct((*(call.tool for call in calls if isinstance(call, ToolCall)), *self.reads))

    def __post_init__(self) -> None:
        """Refuse a step that neither undoes nor says why not.

        Raises:
            Bug: Both or neither of `undo` and `why_no_undo` are set.
        """
        if (self.undo is None) == (self.why_no_undo is None):
            raise Bug(f"step {self.name}: exactly one of undo and why_no_undo must be set")


def bracketed(address: str) -> str:
    """The address as it is written before a port: IPv6 in brackets."""
    return f"[{address}]" if ":" in address else address


_SECRET_PREFIX: Final = "RAILYARD_SECRET_"  # noqa: S105 - the beginning of a name, not a secret


def env_name(secret: str) -> str:
    """The environment variable that hands one secret to a local `railyard`."""
    return f"{_SECRET_PREFIX}{secret.upper()}"


def secrets_from(environ: Mapping[str, str]) -> dict[str, str]:
    """The secrets that the calling resource put into the environment, by name."""
    return {
        name.removeprefix(_SECRET_PREFIX).lower(): value
        for name, value in environ.items()
        if name.startswith(_SECRET_PREFIX)
    }


def secrets_for(endpoint: Endpoint, environ: Mapping[str, str]) -> dict[str, str]:
    """The secrets that reaching one device takes, from the environment of a step.

    Raises:
        UsageError: One is not there, or the file names none.
    """
    known = secrets_from(environ)
    missing = [name for name in endpoint.secret_names if name not in known]
    if missing:
        names = ", ".join(map(env_name, missing))
        raise UsageError(f"{endpoint.where}: set {names} in the environment: logging in takes it")
    for name in {endpoint.password_secret, endpoint.sudo_secret, endpoint.enable_secret} - {None}:
        if name is not None and len(known[name].splitlines()) > 1:
            raise UsageError(f"{endpoint.where}: the secret {name} has several lines, not one")
    if not (endpoint.password_secret or endpoint.private_key_secret or endpoint.agent):
        raise UsageError(
            f"{endpoint.where}: no password, private key or agent: name one in the site file's ssh"
        )
    return {name: known[name] for name in endpoint.secret_names}


ENDPOINT_VARIABLE: Final = "RAILYARD_ENDPOINT"
"""Where `railyard device run` finds the endpoint: its stdin is the state, and nothing else."""


def render_endpoint(endpoint: Endpoint) -> str:
    """An endpoint as the environment has it."""
    return json.dumps(to_json(endpoint), sort_keys=True)


def render_request(endpoint: Endpoint, **parts: object) -> str:
    """The request of `railyard device …`, a line a value: a preview shows the changed ones."""
    return render_lines({"endpoint": to_json(endpoint)} | parts)
