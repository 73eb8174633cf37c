"""Convert the `ssh` block of the file to an `Endpoint`."""

from __future__ import annotations

from dataclasses import replace

from components.core.errors import Bug
from components.model.cluster import SwitchDeadlines
from components.model.hosts import Host
from components.model.sources import ReachedSsh
from components.model.units import SecretRef, Ssh
from components.remote.step import Endpoint, TargetKind


def endpoint_of(device: str, kind: TargetKind, ssh: Ssh) -> Endpoint:
    """Return address, pinned key (empty is refused later), secret names and jump hosts."""
    hops = ssh.hops if isinstance(ssh, ReachedSsh) else ()
    if ssh.jump and not hops:
        raise Bug(f"{device}: the jump hosts {', '.join(ssh.jump)} were not looked up")
    logins = {each.name: each.ssh.model_copy(update={"jump": None}) for each in hops}
    return Endpoint(
        device, kind, ssh.address, ssh.port, ssh.user, ssh.host_key or "",
        password_secret=_name(ssh.password), private_key_secret=_name(ssh.private_key),
        passphrase_secret=_name(ssh.passphrase), agent=ssh.agent,
        sudo_secret=_name(ssh.sudo_password), enable_secret=_name(ssh.enable_password),
        legacy_algorithms=ssh.legacy_algorithms,
        jump=tuple(endpoint_of(name, "jump", each) for name, each in logins.items()),
    )  # fmt: skip


def _name(secret: SecretRef | None) -> str | None:
    return secret.name if secret else None


def host_endpoint(host: Host) -> Endpoint:
    """Return the endpoint of a host with a login."""
    return endpoint_of(host.name, "host", host.way)


def with_deadlines(endpoint: Endpoint, asked: SwitchDeadlines) -> Endpoint:
    """Add the deadlines that the file sets; a state never records defaults."""
    return replace(endpoint, **asked.model_dump(exclude_defaults=True))
