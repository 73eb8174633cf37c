"""How emulated switches let somebody in: a password, typed or sent, or a key."""

from __future__ import annotations

from collections.abc import Sequence

from components.remote.ssh_library import asyncssh
from lab.views import SwitchConfig


def has_key(config: SwitchConfig, username: str, key: asyncssh.SSHKey) -> bool:
    """Whether the lab's user may log in with this key."""
    offered = key.export_public_key().decode().split()[1]
    own = config.authorized_key.split()
    return username == config.user and own[1:2] == [offered]


class PasswordLogin(asyncssh.SSHServer):
    """OpenSSH of Cumulus and SONiC."""

    def __init__(self, config: SwitchConfig) -> None:
        self._config = config

    def begin_auth(self, username: str) -> bool:
        """A password is always needed."""
        del username
        return True

    def password_auth_supported(self) -> bool:
        """Yes."""
        return True

    def public_key_auth_supported(self) -> bool:
        """Where the lab's user has a key."""
        return bool(self._config.authorized_key)

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Compare with the lab's."""
        return has_key(self._config, username, key)

    def kbdint_auth_supported(self) -> bool:
        """No."""
        return False

    def validate_password(self, username: str, password: str) -> bool:
        """Compare with the lab's."""
        return (username, password) == (self._config.user, self._config.password)


class KeyboardLogin(asyncssh.SSHServer):
    """Keyboard-interactive: Onyx and MLNX-OS (capture C15), and EOS by default."""

    def __init__(self, config: SwitchConfig, banner: str = "") -> None:
        self._config = config
        self._banner = banner
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Keep the connection, for its banner."""
        self._connection = conn

    def begin_auth(self, username: str) -> bool:
        """Send the banner; a password is always needed."""
        del username
        if self._connection is not None and self._banner:
            self._connection.send_auth_banner(self._banner)
        return True

    def password_auth_supported(self) -> bool:
        """No."""
        return False

    def public_key_auth_supported(self) -> bool:
        """Where the lab's user has a key."""
        return bool(self._config.authorized_key)

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Compare with the lab's."""
        return has_key(self._config, username, key)

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
