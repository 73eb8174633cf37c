"""The text that one remote step sends: the script, as root, under a deadline of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from components.core.errors import Bug
from components.remote.packing import needs_packing, packed_script
from components.remote.step import RemoteStep

_ENVIRONMENTS: Final = (".venv", "venv")
"""Virtual environments in the program's folder: ours, and the name that `pulumi new` gives."""
_FENCE: Final = "RAILYARD_SCRIPT"
KILL_AFTER_S: Final = 10
"""Seconds between SIGTERM and SIGKILL: a script that ignores SIGTERM still ends."""


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


def render_step_command(step: RemoteStep, script: str) -> str:
    """The text of one SSH exec on the target of a step, or of one call of `railyard` here.

    ESXi's root logs in directly, has no `sudo`, and not always a `timeout`: scripts for its `ash`
    end themselves, and are sent as they are.
    """
    match step.dialect:
        case "ash":
            return script
        case "device":
            return f"{railyard_program()} {script}"
        case "sh":
            return render_remote_command(script, step.deadline_s)


def render_remote_command(script: str, deadline_s: float) -> str:
    """Wrap a script for one SSH exec: root by `sudo -n`, ended after its deadline.

    The script stands in a quoted here-document, so that it arrives byte for byte and a preview
    shows it readably, unless it is too long for that and travels packed; stdin stays free for the
    desired state. Where the shell has no room for the document there is no script, and that is no
    success. `timeout` runs as root, because a user's `timeout` cannot signal what sudo started.

    Args:
        script: POSIX shell text.
        deadline_s: Seconds after which the script is ended on the host.

    Raises:
        Bug: The script holds the fence line itself.
    """
    if _FENCE in script:
        raise Bug(f"a remote script must not hold the line {_FENCE}")
    sent = packed_script(script) if needs_packing(script) else script
    body = sent if sent.endswith("\n") else sent + "\n"
    return (
        f'sudo -n timeout -k {KILL_AFTER_S} {deadline_s:g} sh -c "$('
        f"cat <<'{_FENCE}' || echo exit 1\n"
        f'{body}{_FENCE}\n)"\n'
    )
