"""Read hosts from the site file, find their logins, and write their cards into it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from pydantic import TypeAdapter, ValidationError

from components.checks.render import render_text
from components.core.errors import SpecError, UsageError
from components.core.limits import read_file
from components.core.problem import Json, Lines, Place, SpecPath, render_path
from components.core.record import record, replace
from components.core.templates import fault_text
from components.discover.propose import Keys, Proposal
from components.discover.yaml_edit import Insert, YamlText, apply_inserts
from components.model.reach import how_to_pin
from components.model.sources import JumpError, JumpHost, with_way
from components.model.units import JumpNames, Ssh
from components.reading.host_ranges import expand_hosts
from components.reading.load import CONFIG_KEY
from components.reading.port_ranges import spread_ports
from components.reading.site_path import SITE_KEY, SitePathError, read_site, stack_of
from components.reading.yaml_text import parse_yaml
from components.remote.endpoint import endpoint_of
from components.remote.step import Endpoint

_JUMPS: Final = TypeAdapter(tuple[JumpHost, ...])
Addition: TypeAlias = tuple[SpecPath, Keys | Sequence[Keys]]
"""A place in the site as written, with keys for its mapping or entries for its list."""
_NAMES: Final[TypeAdapter[tuple[str, ...]]] = TypeAdapter(JumpNames)
_ADDRESS: Final = re.compile(
    r"(?:(?P<user>[^@:\s]+)@)?(?:\[(?P<long>[0-9A-Fa-f:]+)\]|(?P<address>[^@:\s\[\]]+))"
    r"(?::(?P<port>\d{1,5}))?"
)
_PORT: Final = 22
_SECRET: Final = "ssh_private_key"  # noqa: S105 - the name of a secret, as the examples have it


@record
class SiteFile:
    """One file as text and as plain data."""

    path: Path
    """The file with the site; a stack file may name it."""
    text: str
    prefix: tuple[str, ...]
    """Path to the site: empty, or `config: railyard:cluster:` in a stack file."""
    site: Keys
    """The site, with each range split into single ports and hosts."""
    lines: Lines
    stack: str | None
    """The stack whose file was named; None for a plain site file."""
    written: Json = None
    """The entries of `hosts` as written."""

    def hosts(self) -> Iterator[tuple[SpecPath, Keys]]:
        """Each host's entry and its place."""
        entries = self.site.get("hosts")
        for number, host in enumerate(entries if isinstance(entries, list) else ()):
            if isinstance(host, dict):
                yield ("hosts", number), host

    def entry(self, path: SpecPath) -> tuple[SpecPath, bool]:
        """Return where a host's entry is or will be written, and whether no host shares it."""
        spot = self.lines.spot(path)
        place = spot.path[:2] if spot and spot.path else path
        entries = self.written if isinstance(self.written, list) else []
        number = cast("int", place[1])
        return place, number >= len(entries) or entries[number] == dict(self.hosts()).get(path)

    def line(self, path: SpecPath) -> int | None:
        """Return the line of a value, or of its parent if it is missing."""
        return self.lines.locate(Place(path)).line


def read_text(path: Path) -> str:
    """Read the file and keep its line ends; raise UsageError if that fails."""
    try:
        return read_file(path).decode()
    except FileNotFoundError:
        raise UsageError(f"{path}: file not found.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(fault_text(__file__, "unreadable", path=path, error=error)) from error


def read_site_file(path: Path) -> SiteFile:
    """Read a site file or a stack file; SpecError if it is not YAML or lacks a site."""
    text = read_text(path)
    parsed = parse_yaml(text, str(path))
    if parsed.problems:
        raise SpecError(render_text(parsed.problems))
    named = parsed.below("config", SITE_KEY).value
    if named is not None:
        try:
            site_path, _ = read_site(named, path)
        except SitePathError as error:
            raise SpecError(f"{path}: {error.what}\n  fix    {error.fix}") from error
        value = parse_yaml(read_text(site_path), str(site_path)).value
        if isinstance(value, dict) and "config" in value:
            words = {"path": path, "key": SITE_KEY, "named": named, "site": site_path}
            raise SpecError(fault_text(__file__, "site-of-stack", **words))
        return replace(read_site_file(site_path), stack=stack_of(path) or None)
    is_stack = isinstance(parsed.value, dict) and "config" in parsed.value
    prefix = ("config", CONFIG_KEY) if is_stack else ()
    site = spread_ports(expand_hosts(parsed.below(*prefix)))
    if not isinstance(site.value, dict):
        raise SpecError(fault_text(__file__, "no-site", path=path, key=SITE_KEY, other=CONFIG_KEY))
    stack = (stack_of(path) if prefix else "") or None
    written = parsed.below(*prefix, "hosts").value
    return SiteFile(path, text, prefix, site.value, site.lines, stack, written)


def _ssh_of(host: Keys, where: str) -> Ssh:
    """Return the login of a host in the file; raise UsageError if its `ssh` is wrong."""
    try:
        return Ssh.model_validate(host.get("ssh"))
    except ValidationError as error:
        first = error.errors()[0]
        words = {"key": ".".join(map(str, ("ssh", *first["loc"]))), "error": first["msg"]}
        raise UsageError(fault_text(__file__, "wrong-ssh", where=where, **words)) from error


def way_of(file: SiteFile, ssh: Ssh, where: str) -> Ssh:
    """Return the same login with its jump hosts; raise UsageError if one is wrong or missing."""
    defaults = file.site.get("host_defaults")
    default = defaults.get("jump", ()) if isinstance(defaults, dict) else ()
    try:
        jumps = _JUMPS.validate_python(file.site.get("jump_hosts", ()))
        names = _NAMES.validate_python(default)
        return with_way(ssh, names, {hop.name: hop for hop in jumps})
    except (ValidationError, JumpError) as error:
        first = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise UsageError(fault_text(__file__, "wrong-jumps", where=where, error=first)) from error


def write_proposals(file: SiteFile, known: Sequence[Proposal], new_hosts: Sequence[Keys]) -> str:
    """Return the file's text with the additions; raise UsageError if its layout allows none."""
    document, inserts = YamlText(file.text), list[Insert]()
    expected: Any = parse_yaml(file.text, "").below(*file.prefix).value
    additions = [each for found in known for each in _additions(document, file, found)]
    for path, added in (*additions, *([(("hosts",), new_hosts)] if new_hosts else [])):
        place = (*file.prefix, *path)
        if isinstance(added, Mapping):
            inserts.append(document.add_keys(place, added))
            reduce(getitem, path, expected).update(added)
        else:
            inserts.append(document.add_entries(place, added))
            reduce(getitem, path, expected).extend(added)
    text = apply_inserts(file.text, inserts)
    parsed = parse_yaml(text, str(file.path))
    if parsed.problems or parsed.below(*file.prefix).value != expected:
        raise UsageError(fault_text(__file__, "moves-others", path=file.path))
    return text


def _additions(document: YamlText, file: SiteFile, proposal: Proposal) -> Iterator[Addition]:
    """Yield the additions to a host's entry, which no other host may share."""
    place, alone = file.entry(proposal.path)
    if not alone:
        name = dict(file.hosts())[proposal.path].get("name")
        has_cards = proposal.new_cards or proposal.card_keys
        keys = [*proposal.host_keys, *(["nics"] if has_cards else [])]
        words = {"path": file.path, "line": file.line(proposal.path), "name": name}
        raise UsageError(fault_text(__file__, "shared-entry", keys=", ".join(keys), **words))
    for number, keys in sorted(proposal.card_keys.items()):
        yield (*place, "nics", number), keys
    keys = dict(proposal.host_keys)
    if proposal.new_cards and document.node((*file.prefix, *place, "nics")) is not None:
        yield (*place, "nics"), proposal.new_cards
    elif proposal.new_cards:
        keys["nics"] = [dict(card) for card in proposal.new_cards]
    if keys:
        yield place, keys


def diff_texts(file: SiteFile, text: str) -> str:
    """Return the change as a unified diff."""
    name = str(file.path)
    lines = difflib.unified_diff(
        file.text.splitlines(), text.splitlines(), name, f"{name} (found)", lineterm="", n=1
    )
    return "".join(f"{line}\n" for line in lines)


@record
class Target:
    """One host to read."""

    name: str
    endpoint: Endpoint
    path: SpecPath
    ssh: Ssh
    host: Keys
    """Its entry in the file; for a new host, the part known before the reading."""
    is_new: bool = False


def find_targets(
    file: SiteFile, asked: Sequence[str], host_key: str | None, user: str
) -> tuple[list[Target], list[UsageError]]:
    """Find the asked hosts, or all, once each, in file order, with new ones last.

    `host_key` and `user` are those of the only host that the file does not have yet.
    """
    hosts = file.site.get("hosts", [])
    listed = isinstance(hosts, list) and all(isinstance(each, dict) for each in hosts)
    if hosts is not None and not listed:
        words = {"path": file.path, "line": file.line(("hosts",))}
        raise UsageError(fault_text(__file__, "not-hosts", **words))
    entries = list(file.hosts())
    known, new = dict[int, Target](), dict[tuple[str, int], Target]()
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


def has_no_login(host: Keys) -> bool:
    """Whether the file gives the host `login: none`."""
    return host.get("login") == "none"


def _number_of(entries: Sequence[tuple[SpecPath, Keys]], word: str) -> int | None:
    """Find a host by its name or address; hosts with one address differ in their port."""
    parts = _ADDRESS.fullmatch(word)
    there: list[tuple[int, Json]] = []
    for number, (_, host) in enumerate(entries):
        if word == str(host.get("name")):
            return number
        ssh = host.get("ssh")
        place = (parts["long"] or parts["address"]) if parts else None
        if place and isinstance(ssh, dict) and ssh.get("address") == place:
            there.append((number, ssh.get("port", _PORT)))
    if parts and not parts["port"] and len(there) == 1:
        return there[0][0]
    port = int(parts["port"] or _PORT) if parts else _PORT
    return next((number for number, own in there if own == port), None)


def _target(file: SiteFile, path: SpecPath, host: Keys) -> Target:
    if not host.get("name"):
        words = {"path": file.path, "line": file.line(path), "place": render_path(path)}
        raise UsageError(fault_text(__file__, "no-name", **words))
    name = str(host["name"])
    if has_no_login(host):
        words = {"path": file.path, "line": file.line((*path, "login")), "name": name}
        node = host.get("node_name") or name
        raise UsageError(fault_text(__file__, "no-login", node=node, **words))
    where = f"{file.path}:{file.line((*path, 'ssh'))}: {name}"
    ssh = way_of(file, _ssh_of(host, where), where)
    if ssh.host_key is None:
        pin = how_to_pin(ssh.address, ssh.port)
        raise UsageError(fault_text(__file__, "no-host-key", where=where, pin=pin))
    if ssh.private_key is None and not ssh.agent:
        raise UsageError(fault_text(__file__, "no-private-key", where=where, secret=_SECRET))
    return Target(name, endpoint_of(name, "host", ssh), path, ssh, host)


def _new_target(file: SiteFile, word: str, host_key: str | None, user: str, number: int) -> Target:
    parts = _ADDRESS.fullmatch(word)
    if parts is None or ("@" not in word and "." not in word and not parts["long"]):
        names = ", ".join(str(host.get("name")) for _, host in file.hosts()) or "none"
        words = {"word": word, "path": file.path, "names": names}
        raise UsageError(fault_text(__file__, "unknown-host", **words))
    port = int(parts["port"] or _PORT)
    if host_key is None:
        words = {"word": word, "path": file.path, "pin": how_to_pin(parts["address"], port)}
        raise UsageError(fault_text(__file__, "unknown-key", **words))
    logins = (ssh for _, host in file.hosts() if isinstance(ssh := host.get("ssh"), dict))
    keys = (key.get("secret") for ssh in logins if isinstance(key := ssh.get("private_key"), dict))
    login: dict[str, Json] = {
        "address": parts["long"] or parts["address"],
        "port": port,
        "user": parts["user"] or user,
        "host_key": host_key,
        "private_key": {"secret": next((key for key in keys if isinstance(key, str)), _SECRET)},
    }
    ssh = _ssh_of({"ssh": login}, word)
    written = ssh.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    endpoint = endpoint_of(word, "host", way_of(file, ssh, word))
    return Target(word, endpoint, ("hosts", number), ssh, {"ssh": written}, is_new=True)
