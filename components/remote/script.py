"""The text that one remote step sends: the script, as root, under a deadline of its own."""

from __future__ import annotations

from typing import Final

from components.core.errors import Bug
from components.remote.packing import needs_packing, packed_script
from components.remote.step import RemoteStep

RAILYARD: Final = ".venv/bin/railyard"
"""Relative to the program's directory, so that command text is the same on every machine."""
_FENCE: Final = "RAILYARD_SCRIPT"
KILL_AFTER_S: Final = 10
"""Seconds between SIGTERM and SIGKILL: a script that ignores SIGTERM still ends."""


def render_step_command(step: RemoteStep, script: str) -> str:
    """The text of one SSH exec on the target of a step, or of one call of `railyard` here.

    ESXi's root logs in directly, has no `sudo`, and not always a `timeout`: scripts for its `ash`
    end themselves, and are sent as they are.
    """
    match step.dialect:
        case "ash":
            return script
        case "device":
            return f"{RAILYARD} {script}"
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
