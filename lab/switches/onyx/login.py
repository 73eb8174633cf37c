"""How Onyx and MLNX-OS let somebody in: keyboard-interactive, one password."""

from __future__ import annotations

from collections.abc import Sequence

import asyncssh

from lab.views import SwitchConfig


class KeyboardLogin(asyncssh.SSHServer):
    """The authentication methods of capture C15, of which the lab's user has a password only."""

    def __init__(self, config: SwitchConfig, banner: str) -> None:
        self._config = config
        self._banner = banner
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Keep the connection, for its banner."""
        self._connection = conn

    def begin_auth(self, username: str) -> bool:
        """Send the banner; a password is always needed."""
        del username
        if self._connection is not None:
            self._connection.send_auth_banner(self._banner)
        return True

    def password_auth_supported(self) -> bool:
        """No: capture C15."""
        return False

    def public_key_auth_supported(self) -> bool:
        """No: the lab's user has no key."""
        return False

    def kbdint_auth_supported(self) -> bool:
        """Yes."""
        return True

    def get_kbdint_challenge(
        self, username: str, lang: str, submethods: str
    ) -> tuple[str, str, str, Sequence[tuple[str, bool]]]:
        """Ask for the password."""
        del username, lang, submethods
        return "", "", "", [("Password: ", False)]

    def validate_kbdint_response(self, username: str, responses: Sequence[str]) -> bool:
        """Compare with the lab's."""
        return username == self._config.user and list(responses) == [self._config.password]
