"""`sudo` that asks for a password: the one channel by which it travels.

The password goes to the standard input of `sudo -S`, when sudo's own prompt has come and not
before, and the state follows once the command has begun. So it is in no argument, no environment
and no file of the host, and a sudo that does not ask never gets it (decision 19 in
docs/decisions.md).
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Final

from components.core.errors import DeviceError
from components.core.limits import TooLongError
from components.remote.ssh_library import asyncssh
from components.remote.step import Endpoint

AS_ROOT: Final = "sudo -n "
"""How every command that runs as root begins: sudo never asks."""
CHUNK: Final = 4096
LONGEST_TALK: Final = 1 << 20
"""Characters before the command begins: the lecture of sudo has some 500."""


@dataclass(frozen=True, slots=True)
class Asking:
    """One command under a sudo that may ask; the marks are new for each."""

    prompt: str
    ready: str

    def command(self, text: str) -> str:
        """The same command, with a sudo that asks on stderr and a mark when the command begins.

        `-k` lets no earlier login of sudo count, so that it is always asked the same way.
        """
        begin = f'echo {self.ready} >&2; exec "$@"'
        return f"sudo -k -S -p {self.prompt} sh -c '{begin}' sh {text.removeprefix(AS_ROOT)}"


def new_asking() -> Asking:
    """Marks that nothing on the host can know before."""
    mark = secrets.token_hex(8)
    return Asking(f"railyard-asks-{mark}:", f"railyard-begins-{mark}")


async def start(
    connection: asyncssh.SSHClientConnection, endpoint: Endpoint, command: str, password: str
) -> tuple[asyncssh.SSHClientProcess[str], str]:
    """Start a command as root; its standard input is its own from here on.

    Args:
        connection: To the host.
        endpoint: Which host, for errors.
        command: Begins with AS_ROOT.
        password: What sudo asks for.

    Returns:
        The process, and what it wrote to stderr so far, without sudo's talk.

    Raises:
        DeviceError: sudo refuses the password.
    """
    asking = new_asking()
    process = await connection.create_process(asking.command(command))
    heard, asked = "", False
    while f"{asking.ready}\n" not in heard:
        chunk = await process.stderr.read(CHUNK)
        heard += chunk
        if len(heard) > LONGEST_TALK:
            process.close()
            raise TooLongError(LONGEST_TALK)
        if asking.prompt in heard:
            before, _, heard = heard.rpartition(asking.prompt)
            if asked:
                process.close()
                raise _refused(endpoint, before)
            asked = True
            process.stdin.write(f"{password}\n")
        if not chunk:
            return process, heard
    return process, heard.partition(f"{asking.ready}\n")[2]


def _refused(endpoint: Endpoint, said: str) -> DeviceError:
    last = (said.strip().splitlines() or ["it asks again"])[-1]
    return DeviceError(
        f"{endpoint.where}: sudo refuses the password of {endpoint.user} (secret"
        f" {endpoint.sudo_secret}): {last}. Nothing was run.\n"
        "  fix        correct the secret; or take sudo_password out of the file, and add as root,"
        f" with visudo:\n             {endpoint.user} ALL=(root) NOPASSWD: ALL"
    )
