"""`RemoteStep`: one unit of remote work as a plain value, and the text to send for it.

A step has a target, a wanted state, a call that applies it, and one that undoes it. It does not use
Pulumi or open a connection: `component.py` makes the resource. It sends one line that calls a tool,
as root with a deadline.
"""

from __future__ import annotations

import base64
import gzip
import json
import shlex
import textwrap
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from components.core.errors import Bug, UsageError
from components.core.plain_text import Facts, fill_known, has_placeholder
from components.core.record import field, record, replace
from components.core.to_json import OMIT_EMPTY, to_json
from components.remote.lines import render_lines
from components.remote.tools import ESXI_TOOLS, TOOLS_FOLDER, Tool, ToolCall, distinct

TargetKind = Literal["host", "switch", "jump"]
RSA: Final = "ssh-rsa "
"""Start of an RSA public key line, for any signature algorithm."""
REPAIR_LINE = "repair="
"""Start of the last stdin line of a host step with a repair note; not a key of its state."""
OBSERVE_DEADLINE_S: Final = 60.0
"""Seconds to read a host: connect, script, answer. Reading takes about a second, but up to ten
times as long if training keeps all cores busy."""
Unset = Annotated[float, Field(exclude_if=lambda seconds: not seconds)]
"""Seconds that pydantic omits if they are 0, as OMIT_EMPTY does elsewhere."""
COMMAND_S: Final = 0.75
"""Seconds that each command to a switch adds to its deadline. Onyx and EOS answer in some 0.1 s;
SONiC starts a Python program for each line of `config`, which takes 0.5 to 2 s on the processor of
a switch (assumed, not measured on one)."""
_SECRET_PREFIX: Final = "RAILYARD_SECRET_"  # noqa: S105 - the beginning of a name, not a secret
_ENVIRONMENTS: Final = (".venv", "venv")
"""Virtual environments in the project folder: our name, and that of `pulumi new`."""
_FENCE: Final = "RAILYARD_SCRIPT"
_COLUMNS: Final = 100
KILL_AFTER_S: Final = 10
"""Seconds between SIGTERM and SIGKILL: a script that ignores SIGTERM still ends."""
TOOL_MISSING: Final = 78
"""Exit status if a tool is missing or altered, so nothing ran (EX_CONFIG of sysexits.h)."""
_RUN: Final = (
    't=$(cat "$f" 2>&1); case $(printf "%s\\n" "$t"|sha256sum) in "$0 "*) eval "$t"; exit; esac'
)
"""Hash and run the same text in memory, so it cannot be replaced in between."""
_REFUSE: Final = (
    '[ -e "$f" ] && t=altered || t=missing;'
    ' echo "railyard: $f is $t, nothing was run:'
    f' pulumi up sends it" >&2; exit {TOOL_MISSING}'
)
_LOADER: Final = f"f={TOOLS_FOLDER}/$0/tool; {_RUN}; {_REFUSE}"
"""Short, since the state has it four times per step."""
_ASH_LOADER: Final = f"for f in {ESXI_TOOLS}/$0/tool; do {_RUN}; done; {_REFUSE}"


@record
class Endpoint:
    """Connection to one device: addresses and names of secrets, but no secret values."""

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
    agent: bool = field(default=False, metadata=OMIT_EMPTY)
    """The user's SSH agent has the key."""
    sudo_secret: str | None = field(default=None, metadata=OMIT_EMPTY)
    enable_secret: str | None = field(default=None, metadata=OMIT_EMPTY)
    legacy_algorithms: bool = field(default=False, metadata=OMIT_EMPTY)
    """Accept SHA-1, for an old switch."""
    read_s: Unset = field(default=0.0, metadata=OMIT_EMPTY)
    """The file's `deadlines`: seconds for reading; 0 for the default."""
    write_s: Unset = field(default=0.0, metadata=OMIT_EMPTY)
    """Seconds for a change of a switch; 0 for the default."""
    command_s: Unset = field(default=0.0, metadata=OMIT_EMPTY)
    """More seconds for each command to a switch; 0 for the default."""
    jump: tuple[Endpoint, ...] = field(default=(), metadata=OMIT_EMPTY)
    """The jump hosts, in connection order."""

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
        """The names of all secrets for the connection, including its jump hosts."""
        own = (self.password_secret, self.private_key_secret, self.passphrase_secret)
        more = (self.sudo_secret, self.enable_secret)
        behind = (name for hop in self.jump for name in hop.secret_names)
        return tuple(dict.fromkeys((*(name for name in (*own, *more) if name), *behind)))

    @property
    def why_own_client(self) -> str:
        """Why the command provider cannot send a plain exec to this device; empty if it can.

        It supports only one proxy, cannot pass a sudo password, and offers only SHA-1 for an RSA
        host key (decision 19 in docs/decisions.md).
        """
        if self.sudo_secret is not None:
            return "sudo asks for a password"
        if len(self.jump) > 1:
            return f"{len(self.jump)} jump hosts are on the way"
        rsa = [each.device for each in (self, *self.jump) if each.host_key.startswith(RSA)]
        return f"{rsa[0]} has an RSA host key" if rsa else ""

    def known(self, facts: Facts) -> Endpoint:
        """Return the same endpoint with placeholders filled from known facts."""
        address, host_key = (fill_known(text, facts) for text in (self.address, self.host_key))
        return replace(self, address=address, host_key=host_key)

    @property
    def reachable(self) -> bool:
        """Whether its address is known."""
        return not has_placeholder(self.address)


@record
class RemoteStep:
    """One unit of remote work, safe to repeat, also after an incomplete run."""

    name: str
    """`<target>-<work>`; this becomes the resource name, so it is an API."""
    endpoint: Endpoint
    dialect: Literal["sh", "ash", "device"]
    """`sh`: a tool on Linux over one SSH exec; `ash`: on ESXi; `device`: `railyard device` here."""
    desired: str
    """Desired state on stdin: sorted `key=value` lines (`sh`), or `path = value` (`device`)."""
    apply: ToolCall | str
    """A verb of a tool (`sh`, `ash`), or arguments of `railyard` (`device`)."""
    deadline_s: float
    """The step ends itself after these seconds, because the engine has no deadline."""
    undo: ToolCall | str | None = None
    """The call for `destroy`, with the same stdin."""
    why_no_undo: str | None = None
    reboots: bool = False
    secret_stdin: str | None = None
    """Name of the secret to send on stdin instead of `desired`."""
    secret_stdout: bool = False
    reads: tuple[Tool, ...] = field(default=(), metadata=OMIT_EMPTY)
    """Lists on the target that its desired state refers to by digest."""

    def known(self, facts: Facts) -> RemoteStep:
        """Return the same step with placeholders filled from known facts."""
        endpoint = self.endpoint.known(facts)
        return replace(self, endpoint=endpoint, desired=fill_known(self.desired, facts))

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that must be on the target from before its run until after its undo."""
        calls = (self.apply, self.undo)
        return distinct((*(call.tool for call in calls if isinstance(call, ToolCall)), *self.reads))

    def __post_init__(self) -> None:
        """Refuse a step with neither an undo nor a reason for its absence, or with both."""
        if (self.undo is None) == (self.why_no_undo is None):
            raise Bug(f"step {self.name}: exactly one of undo and why_no_undo must be set")


def bracketed(address: str) -> str:
    """Return the address as written before a port: IPv6 in brackets."""
    return f"[{address}]" if ":" in address else address


def env_name(secret: str) -> str:
    """Return the environment variable for one secret of a local `railyard`."""
    return f"{_SECRET_PREFIX}{secret.upper()}"


def secrets_from(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets that the calling resource put into the environment, by name."""
    return {
        name.removeprefix(_SECRET_PREFIX).lower(): value
        for name, value in environ.items()
        if name.startswith(_SECRET_PREFIX)
    }


def secrets_for(endpoint: Endpoint, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets for one device's connection; UsageError if one is missing."""
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


def render_endpoint(endpoint: Endpoint) -> str:
    """Render an endpoint on one line."""
    return json.dumps(to_json(endpoint), sort_keys=True)


def render_request(endpoint: Endpoint, **parts: object) -> str:
    """Render a `railyard device …` request, one value per line: a preview shows changed ones."""
    return render_lines({"endpoint": to_json(endpoint)} | parts)


def railyard_program() -> str:
    """Return the command for `railyard`, run in the project folder: the same on every machine.

    The environment is not on PATH there. So its relative path is taken; without one, PATH decides.
    """
    found = (f"{name}/bin/railyard" for name in _ENVIRONMENTS)
    return next((text for text in found if Path(text).exists()), "railyard")


def render_step_command(step: RemoteStep, call: ToolCall | str) -> str:
    """Return the line that a step runs; its tool stays on the target until its undo has run."""
    if isinstance(call, str):
        if step.dialect != "device":
            raise Bug(f"step {step.name}: a host runs a verb of a tool, never a text")
        return f"{railyard_program()} {call}"
    mark = ()
    if step.undo is not None and call in (step.apply, step.undo):
        mark = (f"{'keep' if call == step.apply else 'drop'}={step.name}",)
    return render_call(call, step.deadline_s, ash=step.dialect == "ash", more=mark)


def render_call(
    call: ToolCall, deadline_s: float, *, ash: bool = False, more: tuple[str, ...] = ()
) -> str:
    """Return a line that runs a verb of a tool on the host, or ends with TOOL_MISSING.

    `timeout` runs as root, because a user's `timeout` cannot signal processes of sudo. On ESXi,
    root logs in directly, `sudo` is missing, and `timeout` may be missing: tools for its `ash` end
    themselves.
    """
    loader = shlex.quote(_ASH_LOADER if ash else _LOADER)
    words = _words(call, deadline_s, more, ash=ash)
    return f"{_shell(deadline_s, ash=ash)} {loader} {words}"


def render_sent_call(call: ToolCall, deadline_s: float, *, ash: bool = False) -> str:
    """Return a line with the tool's text for one run, without storing it on the host.

    Linux takes at most 128 KiB in one argument of a program, so the text is compressed; stdin stays
    free for the state. ESXi's busybox lacks base64, but its tool is short.
    """
    words = _words(call, deadline_s, (), ash=ash)
    if ash:
        text = f't={shlex.quote(call.tool.text)}; eval "$t"'
        return f"{_shell(deadline_s, ash=True)} {shlex.quote(text)} {words}"
    return render_remote_command(_packed(call.tool), deadline_s).rstrip("\n") + f" {words}\n"


def render_remote_command(script: str, deadline_s: float) -> str:
    """Wrap a script for one SSH exec: root by `sudo -n`, with a deadline.

    This is for single readings outside steps. The script is in a quoted here-document and arrives
    byte for byte; stdin stays free. If the shell cannot store the document, the command fails.
    """
    if _FENCE in script:
        raise Bug(f"a remote script must not hold the line {_FENCE}")
    body = script if script.endswith("\n") else script + "\n"
    return (
        f'{_shell(deadline_s, ash=False)} "$('
        f"cat <<'{_FENCE}' || echo exit 1\n"
        f'{body}{_FENCE}\n)"\n'
    )


def _shell(deadline_s: float, *, ash: bool) -> str:
    return "sh -c" if ash else f"sudo -n timeout -k {KILL_AFTER_S} {deadline_s:g} sh -c"


def _words(call: ToolCall, deadline_s: float, more: tuple[str, ...], *, ash: bool) -> str:
    own = (f"deadline_s={int(deadline_s)}",) if ash else ()
    words = (call.tool.digest, call.verb, *call.arguments, *own, *more)
    return " ".join(shlex.quote(word) for word in words)


@cache
def _packed(tool: Tool) -> str:
    """Return a script that unpacks a tool and runs it, as `t`, which the tool itself may read."""
    packed = base64.b64encode(gzip.compress(tool.text.encode(), 9, mtime=0)).decode()
    lines = "".join(f"{line}\n" for line in textwrap.wrap(packed, _COLUMNS))
    return (
        f"t=$(base64 -d <<'RAILYARD_PACKED' | gzip -dc\n{lines}RAILYARD_PACKED\n)\n"
        '[ -n "$t" ] || {\n'
        "  echo 'railyard: base64 (coreutils) or gzip is missing on this host' >&2\n"
        "  exit 127\n"
        "}\n"
        'eval "$t"\n'
    )
