"""The text that one remote step sends: one line that names a tool, run as root under a deadline."""

from __future__ import annotations

import base64
import gzip
import shlex
import textwrap
from functools import cache
from pathlib import Path
from typing import Final

from components.core.errors import Bug
from components.remote.step import RemoteStep
from components.remote.tools import ESXI_TOOLS, TOOLS_FOLDER, Tool, ToolCall

_ENVIRONMENTS: Final = (".venv", "venv")
"""Virtual environments in the program's folder: ours, and the name that `pulumi new` gives."""
_FENCE: Final = "RAILYARD_SCRIPT"
_COLUMNS: Final = 100
KILL_AFTER_S: Final = 10
"""Seconds between SIGTERM and SIGKILL: a script that ignores SIGTERM still ends."""
TOOL_MISSING: Final = 78
"""Exit status where a tool is missing or altered and nothing was run (EX_CONFIG of sysexits.h)."""
_RUN: Final = (
    't=$(cat "$f" 2>&1); case $(printf "%s\\n" "$t"|sha256sum) in "$0 "*) eval "$t"; exit; esac'
)
"""What is hashed is what was read, and what was read is what is run: nothing can be put between."""
_REFUSE: Final = (
    '[ -e "$f" ] && t=altered || t=missing;'
    ' echo "railyard: $f is $t, nothing was run:'
    f' pulumi up sends it" >&2; exit {TOOL_MISSING}'
)
_LOADER: Final = f"f={TOOLS_FOLDER}/$0/tool; {_RUN}; {_REFUSE}"
"""Short, since the state has it four times a step."""
_ASH_LOADER: Final = f"for f in {ESXI_TOOLS}/$0/tool; do {_RUN}; done; {_REFUSE}"


def railyard_program(folder: Path | None = None) -> str:
    """How a step calls `railyard` here: a text that is the same on every machine.

    The engine runs a step in the program's folder, without the virtual environment on PATH. So the
    environment of that folder is named by its relative path; where there is none, `railyard` is
    looked up on the PATH of the engine.

    Args:
        folder: The program's folder; the working directory by default, as it is in a program.
    """
    beside = folder or Path()
    found = (f"{name}/bin/railyard" for name in _ENVIRONMENTS)
    return next((text for text in found if (beside / text).exists()), "railyard")


def render_step_command(step: RemoteStep, call: ToolCall | str) -> str:
    """The text of one SSH exec on the target of a step, or of one call of `railyard` here.

    The step keeps its tool on the target until its undo ran with it; one without an undo needs it
    only while it runs.

    Args:
        step: Whose target, deadline and name count.
        call: `step.apply`, `step.undo`, or another verb of its tool.

    Raises:
        Bug: The call does not fit the dialect.
    """
    if isinstance(call, str):
        if step.dialect != "device":
            raise Bug(f"step {step.name}: a host runs a verb of a tool, never a text")
        return f"{railyard_program()} {call}"
    mark = ()
    if step.undo is not None and call in (step.apply, step.undo):
        mark = (f"{'keep' if call == step.apply else 'drop'}={step.name}",)
    return render_call(call, step.deadline_s, ash=step.dialect == "ash", more=mark)


OWN_CLIENT: Final = " device run "
"""In the text of a step that goes by our own client, and in no other."""


def create_text(step: RemoteStep, call: ToolCall | str) -> str:
    """What the resource of a step has as `create` or `delete`.

    That is the line itself, for the command provider, or a call of `railyard` here that sends the
    same line, for a host that the provider cannot reach.
    """
    line = render_step_command(step, call)
    if isinstance(call, str) or not step.endpoint.why_own_client:
        return line
    return f"{railyard_program()}{OWN_CLIENT}--deadline {step.deadline_s:g} {shlex.quote(line)}"


def render_call(
    call: ToolCall, deadline_s: float, *, ash: bool = False, more: tuple[str, ...] = ()
) -> str:
    """One line that runs a verb of a tool that lies on the host, or ends with TOOL_MISSING.

    `timeout` runs as root, because a user's `timeout` cannot signal what sudo started. ESXi's root
    logs in directly, has no `sudo`, and not always a `timeout`: tools for its `ash` end themselves.

    Args:
        call: Which tool and verb.
        deadline_s: Seconds after which it is ended on the host.
        ash: The host is an ESXi host.
        more: Arguments after those of the call.
    """
    loader = shlex.quote(_ASH_LOADER if ash else _LOADER)
    words = _words(call, deadline_s, more, ash=ash)
    return f"{_shell(deadline_s, ash=ash)} {loader} {words}"


def render_sent_call(call: ToolCall, deadline_s: float, *, ash: bool = False) -> str:
    """The same with the text of the tool in it, for one run: it writes no tool on the host.

    Linux takes at most 128 KiB in one argument of a program, so that a text travels packed; stdin
    stays free for the state. ESXi's busybox has no base64, and its tool is short.
    """
    words = _words(call, deadline_s, (), ash=ash)
    if ash:
        text = f't={shlex.quote(call.tool.text)}; eval "$t"'
        return f"{_shell(deadline_s, ash=True)} {shlex.quote(text)} {words}"
    return render_remote_command(_packed(call.tool), deadline_s).rstrip("\n") + f" {words}\n"


def render_remote_command(script: str, deadline_s: float) -> str:
    """Wrap a script for one SSH exec: root by `sudo -n`, ended after its deadline.

    For what is read once and is no step. The script is in a quoted here-document, so that it
    arrives byte for byte; stdin stays free. Where the shell has no room for the document there is
    no script, and that is no success.

    Args:
        script: POSIX shell text.
        deadline_s: Seconds after which the script is ended on the host.

    Raises:
        Bug: The script holds the fence line itself.
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
    """A script that unpacks a tool into its own shell; as `t`, which the tool itself may read."""
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
