"""Which hosts are meant, and how each is reached."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from components.core.errors import UsageError
from components.core.problem import Json, SpecPath, render_path
from components.discover.site_file import SiteFile, ssh_of, way_of
from components.model.reach import how_to_pin
from components.model.units import Ssh
from components.remote.endpoint import endpoint_of
from components.remote.step import Endpoint

_ADDRESS: Final = re.compile(
    r"(?:(?P<user>[^@:\s]+)@)?(?:\[(?P<long>[0-9A-Fa-f:]+)\]|(?P<address>[^@:\s\[\]]+))"
    r"(?::(?P<port>\d{1,5}))?"
)
_PORT: Final = 22
_SECRET: Final = "ssh_private_key"  # noqa: S105 - the name of a secret, as the examples have it


@dataclass(frozen=True, slots=True)
class Target:
    """One host that is looked at."""

    name: str
    endpoint: Endpoint
    path: SpecPath
    ssh: Ssh
    host: Mapping[str, Json]
    """Its entry in the file; of a new one, as much as is known before the look."""
    is_new: bool = False


def find_targets(
    file: SiteFile, asked: Sequence[str], host_key: str | None, user: str
) -> tuple[list[Target], list[UsageError]]:
    """The hosts that were asked for, each once and in the order of the file; new ones come last.

    Args:
        file: The site.
        asked: Names or addresses; none means all hosts of the file.
        host_key: Public key of the one host that is not in the file yet.
        user: Login name for that one, where its address has none.
    """
    _demand_list(file)
    entries = list(file.hosts())
    known: dict[int, Target] = {}
    new: dict[tuple[str, int], Target] = {}
    errors: list[UsageError] = []
    for word in asked or (n for n, (_, host) in enumerate(entries) if not has_no_login(host)):
        try:
            number = word if isinstance(word, int) else _number_of(entries, word)
            if number is None:
                target = _new_target(file, str(word), host_key, user, len(entries) + len(new))
                new.setdefault((target.endpoint.address, target.endpoint.port), target)
            else:
                known[number] = _target(file, *entries[number])
        except UsageError as error:
            errors.append(error)
    return [*(known[number] for number in sorted(known)), *new.values()], errors


def has_no_login(host: Mapping[str, Json]) -> bool:
    """Whether the file says of a host that nothing logs in to it."""
    return host.get("login") == "none"


def _place(parts: re.Match[str]) -> str:
    return parts["long"] or parts["address"]


def _demand_list(file: SiteFile) -> None:
    hosts = file.site.get("hosts")
    if hosts is not None and not (
        isinstance(hosts, list) and all(isinstance(each, dict) for each in hosts)
    ):
        raise UsageError(
            f"{file.path}:{file.line(('hosts',))}: hosts is not a list, so no host was read.\n"
            "  fix    write each as an entry of a list: `- name: gpu01`."
        )


def _number_of(entries: Sequence[tuple[SpecPath, Mapping[str, Json]]], word: str) -> int | None:
    """The host of that name, or at that address; several at one address differ by their port."""
    parts = _ADDRESS.fullmatch(word)
    there: list[tuple[int, Json]] = []
    for number, (_, host) in enumerate(entries):
        if word == str(host.get("name")):
            return number
        ssh = host.get("ssh")
        if parts and isinstance(ssh, dict) and ssh.get("address") == _place(parts):
            there.append((number, ssh.get("port", _PORT)))
    if parts and not parts["port"] and len(there) == 1:
        return there[0][0]
    port = int(parts["port"] or _PORT) if parts else _PORT
    return next((number for number, own in there if own == port), None)


def _target(file: SiteFile, path: SpecPath, host: Mapping[str, Json]) -> Target:
    if not host.get("name"):
        raise UsageError(
            f"{file.path}:{file.line(path)}: {render_path(path)} has no name, and was not looked"
            " at.\n  fix    add name."
        )
    name = str(host["name"])
    if has_no_login(host):
        raise UsageError(
            f"{file.path}:{file.line((*path, 'login'))}: {name} has login: none, so it was not"
            " looked at.\n  fix    read its cards on the node itself, for example by `kubectl debug"
            f" node/{host.get('node_name') or name}`, and write them into the file."
        )
    where = f"{file.path}:{file.line((*path, 'ssh'))}: {name}"
    ssh = way_of(file, ssh_of(host, where), where)
    if ssh.host_key is None:
        raise UsageError(
            f"{where} has no pinned host key; nothing was sent.\n"
            f"  fix    {how_to_pin(ssh.address, ssh.port)} as ssh.host_key."
        )
    if ssh.private_key is None and not ssh.agent:
        raise UsageError(
            f"{where} has no private key, and hosts are reached by key only.\n"
            f"  fix    add private_key: {{secret: {_SECRET}}}, or agent: true, to its ssh."
        )
    return Target(name, endpoint_of(name, "host", ssh), path, ssh, host)


def _new_target(file: SiteFile, word: str, host_key: str | None, user: str, number: int) -> Target:
    parts = _ADDRESS.fullmatch(word)
    if parts is None or ("@" not in word and "." not in word and not parts["long"]):
        names = ", ".join(str(host.get("name")) for _, host in file.hosts()) or "none"
        raise UsageError(
            f"{word} is no host of {file.path}; its hosts: {names}.\n"
            "  fix    name one of them, or USER@ADDRESS with --host-key for one that is not in the"
            " file yet."
        )
    port = int(parts["port"] or _PORT)
    if host_key is None:
        raise UsageError(
            f"{word} is not in {file.path}, and its host key is not known; nothing was sent.\n"
            f"  fix    {how_to_pin(parts['address'], port)}: `railyard discover {word} --host-key "
            '"ssh-ed25519 …"`.'
        )
    ssh = ssh_of(
        {
            "ssh": {
                "address": _place(parts),
                "port": port,
                "user": parts["user"] or user,
                "private_key": {"secret": _secret_of(file)},
                "host_key": host_key,
            }
        },
        word,
    )
    written = ssh.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    endpoint = endpoint_of(word, "host", way_of(file, ssh, word))
    return Target(word, endpoint, ("hosts", number), ssh, {"ssh": written}, is_new=True)


def _secret_of(file: SiteFile) -> str:
    """The name under which the other hosts' key is kept."""
    for _, host in file.hosts():
        ssh = host.get("ssh")
        key = ssh.get("private_key") if isinstance(ssh, dict) else None
        if isinstance(key, dict) and isinstance(name := key.get("secret"), str):
            return name
    return _SECRET
