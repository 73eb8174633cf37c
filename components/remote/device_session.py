"""One session with a device of the fabric: a command line over SSH, or an API over HTTPS."""

from __future__ import annotations

from collections.abc import Mapping

from components.remote.https_session import HttpsSession, open_https
from components.remote.session_profile import SessionProfile
from components.remote.step import Endpoint
from components.remote.switch_session import SwitchSession
from components.remote.switch_session import open_session as open_command_line


def open_session(
    endpoint: Endpoint, profile: SessionProfile, secrets: Mapping[str, str], deadline_s: float
) -> SwitchSession | HttpsSession:
    """Reach a device by what its system has; arguments and errors are those of both modules."""
    if profile.https:
        return open_https(endpoint, secrets, deadline_s)
    return open_command_line(endpoint, profile, secrets, deadline_s)
