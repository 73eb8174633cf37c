"""What lies between Railyard and the devices: jump hosts, and proxies for downloads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import StringConstraints

from components.model.units import DnsLabel, Frozen, Ssh

PROXY_URL = r"^https?://([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:]+\])(:[0-9]{1,5})?/?$"
NO_PROXY = (
    r"^(\*|(\*?\.)?[A-Za-z0-9_][A-Za-z0-9._-]*(:[0-9]{1,5})?(/[0-9.]+)?"
    r"|\[?[0-9A-Fa-f]*:[0-9A-Fa-f:.]*\]?(:[0-9]{1,5})?(/[0-9]{1,3})?)$"
)


class JumpHost(Frozen):
    """An SSH server that only forwards; Railyard changes nothing on it."""

    name: DnsLabel
    """What `jump` calls it."""
    ssh: Ssh
    """How it is reached: it may lie behind another one itself, and its host key is pinned too."""


class ReachedSsh(Ssh):
    """The `ssh` of a device with its jump hosts looked up; a file never says this."""

    hops: tuple[JumpHost, ...] = ()
    """The way, the jump host that is reached first at the beginning."""


class Proxy(Frozen):
    """The HTTP proxy by which hosts download; one that asks for a login is not supported.

    The networks of the site, its addresses and the cluster's names are never asked through it: the
    plan adds them to `no_proxy`.
    """

    http: Annotated[str, StringConstraints(pattern=PROXY_URL)] | None = None
    """Address for `http://` downloads, without a login: `http://proxy.example.com:3128`."""
    https: Annotated[str, StringConstraints(pattern=PROXY_URL)] | None = None
    """Address for `https://` downloads; default `http`. It is most often `http://` as well."""
    no_proxy: tuple[Annotated[str, StringConstraints(pattern=NO_PROXY)], ...] = ()
    """Names, addresses and networks that are reached directly, beside those of the site."""


class JumpError(ValueError):
    """A way that cannot be gone: a jump host that is not there, or a circle."""


def hops_of(names: tuple[str, ...], known: Mapping[str, JumpHost]) -> tuple[JumpHost, ...]:
    """The jump hosts of a way in order, each after those that lie before it.

    Raises:
        JumpError: A name is unknown, or a jump host lies behind itself.
    """
    found: dict[str, JumpHost] = {}
    for name in names:
        found.update({hop.name: hop for hop in _way_to(name, known, ())})
    return tuple(found.values())


def _way_to(
    name: str, known: Mapping[str, JumpHost], behind: tuple[str, ...]
) -> Iterator[JumpHost]:
    if name in behind:
        raise JumpError(f"{' lies behind '.join((*behind, name))}, which is a circle")
    hop = known.get(name)
    if hop is None:
        raise JumpError(f"there is no jump host {name} in jump_hosts")
    for before in hop.ssh.jump or ():
        yield from _way_to(before, known, (*behind, name))
    yield hop


def with_way(ssh: Ssh, default: tuple[str, ...], known: Mapping[str, JumpHost]) -> Ssh:
    """The same `ssh` with its way looked up; one without jump hosts stays as it is.

    Raises:
        JumpError: The way cannot be gone.
    """
    names = default if ssh.jump is None else ssh.jump
    if not names:
        return ssh
    return ReachedSsh.model_construct(**dict(ssh), hops=hops_of(names, known))
