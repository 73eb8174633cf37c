"""Why there was no SSH session, or no answer, in words."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from typing import Final, Literal

from components.core.errors import DeviceError, HostKeyError, UnreachableError
from components.core.limits import TooLongError
from components.core.plain_text import one_line
from components.remote.login import SSH_RSA, Client
from components.remote.session_profile import last_line
from components.remote.ssh_library import asyncssh
from components.remote.step import RSA, Endpoint

SHOWN: Final = 200
"""Characters of a line of a device that a message shows."""
LINES: Final = 6
"""Lines at the end of a login that are searched for a known question: an expired password of
Debian takes four (sonic-mgmt#6628)."""


@dataclass(frozen=True, slots=True)
class Doing:
    """How far a session is, and the deadline of that part."""

    part: Literal["connect", "run"]
    deadline_s: float

    def failed(self, error: BaseException) -> str:
        """What ended it: a host that is down, or one that is there and too slow."""
        timed_out = isinstance(error, TimeoutError)
        words = one_line(str(error)) or type(error).__name__
        within = f"within {self.deadline_s:g} s"
        if self.part == "connect":
            return f"is not reachable {within}: {'no answer' if timed_out else words}"
        if timed_out:
            return f"accepted the login, but did not finish {within}: check its load and its disks"
        if isinstance(error, TooLongError):
            return f"accepted the login, but its answer was not taken: {words}"
        return f"accepted the login, but the connection was lost: {words}"


def explain(endpoint: Endpoint, error: BaseException, doing: Doing, client: Client) -> DeviceError:
    """Say in words why there was no answer.

    Args:
        endpoint: Whose.
        error: What the SSH client raised.
        doing: How far it was.
        client: What it saw of the server.
    """
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return HostKeyError(_changed_key(endpoint, client.presented))
    if isinstance(error, asyncssh.PermissionDenied):
        return DeviceError(_refused_login(endpoint, error.reason, client.asked))
    if isinstance(error, asyncssh.KeyExchangeFailed):
        return _no_common_algorithm(endpoint, str(error))
    if isinstance(error, asyncssh.ChannelOpenError) and endpoint.jump:
        return UnreachableError(
            f"{endpoint.where}: the jump host {endpoint.jump[-1].where} does not open the way to"
            f" {endpoint.place}: {one_line(error.reason)}\n"
            "  fix        see its AllowTcpForwarding and PermitOpen, and its route to that address"
        )
    if endpoint.kind == "switch":
        return _no_way(endpoint, error, doing.deadline_s)
    return UnreachableError(f"{endpoint.where} {doing.failed(error)}")


def _no_way(endpoint: Endpoint, error: BaseException, within_s: float) -> UnreachableError:
    if isinstance(error, ConnectionRefusedError):
        return UnreachableError(f"{endpoint.where}: connection refused; nothing listens there")
    why = "no answer" if isinstance(error, TimeoutError) else one_line(str(error))
    if isinstance(error, (ConnectionResetError, asyncssh.ConnectionLost)):
        why += (
            "\n  fix    see the log of its SSH server; an old one ends a connection like this if it"
            " has no algorithm in common with us, and legacy_algorithms: true takes old ones"
        )
    return no_session(endpoint, why or type(error).__name__, within_s)


def no_session(endpoint: Endpoint, why: str, within_s: float | None) -> UnreachableError:
    """A switch that is there, and with which no session could be had; None: not for the time."""
    within = "" if within_s is None else f" within {within_s:g} s"
    return UnreachableError(f"{endpoint.where}: no session{within}: {why}")


def _refused_login(endpoint: Endpoint, reason: str, asked: str) -> str:
    more = f"; it asks `{one_line(asked)[:SHOWN]}`{_meaning(endpoint, asked)}" if asked else ""
    if endpoint.kind == "host":
        return f"{endpoint.where} refused our {_credential(endpoint)}: {one_line(reason)}{more}"
    who = "switch" if endpoint.kind == "switch" else "jump host"
    if asked:
        return (
            f"{endpoint.where}: the {who} takes the password, and the login goes no further{more}"
        )
    what = "key" if endpoint.private_key_secret else "password"
    advice = f"check the secret {endpoint.private_key_secret or endpoint.password_secret}"
    if endpoint.agent:
        what = "keys of the SSH agent"
        advice = "`ssh-add -l` lists them; a server takes no more than six tries"
    return (
        f"{endpoint.where}: the {who} refuses the {what} of user {endpoint.user}; {advice}."
        " Nothing was changed."
    )


def _credential(endpoint: Endpoint) -> str:
    if endpoint.agent:
        return "SSH keys (those of the agent)"
    if endpoint.private_key_secret:
        return f"SSH key (secret {endpoint.private_key_secret})"
    return f"password (secret {endpoint.password_secret})"


def _changed_key(endpoint: Endpoint, presented: str) -> str:
    lead = f"{endpoint.where}: the host key is not the pinned one; nothing was sent.\n"
    if endpoint.kind != "switch":
        return (
            f"{lead}  pinned     {endpoint.host_key}\n"
            f"  presented  {presented or 'none of the pinned type'}\n"
            f"  fix        if the host was reinstalled, pin the key that its console shows:"
            f" ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub"
        )
    return (
        f"{lead}  pinned   {_fingerprint(endpoint.host_key)}\n"
        f"  offered  {_fingerprint(presented) if presented else 'none of the pinned type'}\n"
        "  fix      compare the offered key with what the switch's own console shows first:"
        " another device may answer at this address. Pin it only if the two are the same;"
        f" `ssh-keyscan -p {endpoint.port} {endpoint.address}` prints the line for the file"
    )


def _fingerprint(key_line: str) -> str:
    kind, _, rest = key_line.strip().partition(" ")
    digest = hashlib.sha256(base64.b64decode(rest.split()[0])).digest()
    return f"{kind} SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def _no_common_algorithm(endpoint: Endpoint, said: str) -> DeviceError:
    """Nothing in common: another kind of host key, or algorithms that are too old."""
    offered = re.split(r"[\s,]+", said.partition(" and received ")[2])
    is_rsa = endpoint.host_key.startswith(RSA)
    about_key = "host key" in said.lower()
    if about_key and not (is_rsa and SSH_RSA in offered and endpoint.kind != "host"):
        kind = endpoint.host_key.partition(" ")[0]
        signed = " by SHA-2 signatures" if is_rsa else ""
        return HostKeyError(
            f"{endpoint.where}: it offers no {kind} host key{signed}, and that one is pinned;"
            " nothing was sent.\n"
            "  fix        log in at its console, where `ls /etc/ssh/ssh_host_*_key.pub` lists its"
            " keys, and pin one of those"
        )
    fix = "update the switch; legacy_algorithms: true takes old algorithms as well"
    return UnreachableError(
        f"{endpoint.where}: it has no algorithm in common with us: {one_line(said)}\n"
        f"  fix      {'update its SSH server' if endpoint.kind == 'host' else fix}"
    )


_BY_HAND: Final = "log in by hand (`ssh -p {port} {user}@{address}`)"
_NEW_PASSWORD: Final = (
    "it wants a new password before it runs any command: this one has expired, or is the factory's",
    f"{_BY_HAND}, set a new one, and put that into the secret {{secret}}",
)
_MEANINGS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), *texts)
    for pattern, *texts in (
        # Debian's PAM, on Cumulus (vrnetlab#462) and SONiC (buildimage#12678, sonic-mgmt#6628); the
        # second form: netmiko#2083. No public form of EOS is known: its words are unproven.
        (r"(current|old|new)\b.*password|(must|required to) change your password", *_NEW_PASSWORD),
        (r"password (has )?expired", *_NEW_PASSWORD),
        # Onyx and MLNX-OS (xCAT, "Mellanox Switch Management"), which begin it at the first login;
        # "hardening": HPE's Cray documents, of a wizard that was answered `no`, and public
        # transcripts of its step 13. No public transcript has a question about a licence.
        (r"configuration wizard|use the wizard|answer '?yes'? or '?no|enable password hardening",
         "its wizard for the first configuration waits for an answer",
         f"{_BY_HAND} and answer `no`; `configuration jump-start` starts it again later"),
        # less, and the pagers of EOS and of Onyx 3.9 (oxidized#3014).
        (r"--\s*more\s*--|^lines \d+-\d+|\(END\)|press any key",
         "a pager waits for a key",
         "switch it off for this user, or shorten what is shown at the login"),
        # pam_limits; Onyx' own words are a guess of the lab.
        (r"too many (open )?(logins|sessions|users)|maximum number of (sessions|logins|users)",
         "it has no session left for this user",
         "end old sessions on the switch, or raise its limit; then run again"),
        # A freshly booted CCS-710P-16P (a newsletter of Arista's, January 2026); it refuses a save:
        # "cannot copy to startup-config when ZeroTouch is enabled".
        (r"zero ?touch provisioning",
         "it waits for its first configuration from the network, and saves none that is typed",
         f"{_BY_HAND}, type `zerotouch cancel`, which reloads it, and run again"),
        (r"^\x1b[]PX^_]",
         "a title for the window began there and never ended, so that no prompt can be seen",
         f"{_BY_HAND} and take that out of the prompt or the message of the day"),
        (r"password: ?$", "it asks for a password in the session",
         f"{_BY_HAND} and see which one; Railyard gives one for the login, `enable` and `sudo`"),
    )
)  # fmt: skip
_UNKNOWN: Final = (
    "it has not the form of a prompt that Railyard knows",
    f"{_BY_HAND}; give this user the prompt of the factory, and no program of its own at the login",
)


def _meaning(endpoint: Endpoint, text: str, default: tuple[str, str] | None = None) -> str:
    """What a question means and how to mend it, as further lines of a message."""
    found = next(
        (texts for pattern, *texts in _MEANINGS if pattern.search(text)), default and [*default]
    )
    if not found:
        return ""
    where = {"port": endpoint.port, "user": endpoint.user, "address": endpoint.address}
    means, fix = found
    fix = fix.format(**where, secret=endpoint.password_secret or "of its password")
    return f"\n  means  {means}\n  fix    {fix}"


def is_question(text: str) -> bool:
    """Whether a text ends with a question that the table knows: no more will come by itself."""
    return any(pattern.search(last_line(text)) for pattern, *_ in _MEANINGS)


def printed_last(endpoint: Endpoint, text: str, *, waits: bool) -> str:
    """The last line that a switch printed and what it means, for the end of a message.

    Args:
        endpoint: The switch.
        text: What it printed, escapes taken away.
        waits: It waits for an answer, so a line that is no prompt needs an explanation.
    """
    lines = [line for line in re.split(r"[\r\n]+", text) if line.strip()][-LINES:]
    if not lines:
        return "it printed nothing"
    last = f"the last line that it printed is `{one_line(lines[-1].strip())[:SHOWN]}`"
    own = _meaning(endpoint, lines[-1]) or _meaning(endpoint, "\n".join(lines))
    return last + (own or (_meaning(endpoint, "", _UNKNOWN) if waits else ""))
