"""Read hosts from the site file, find their logins, and write their cards into it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, cast

from pydantic import TypeAdapter, ValidationError

from components.checks.render import render_text
from components.core.errors import SpecError, UsageError
from components.core.limits import read_file
from components.core.problem import Json, Lines, Place, SpecPath, render_path
from components.discover.propose import Proposal
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
_NAMES: Final[TypeAdapter[tuple[str, ...]]] = TypeAdapter(JumpNames)
_FIX: Final = "\n  fix    run `railyard check`, which shows the expected form."


@dataclass(frozen=True, slots=True)
class SiteFile:
    """One file as text and as plain data."""

    path: Path
    """The file with the site; a stack file may name it."""
    text: str
    prefix: tuple[str, ...]
    """Path to the site: empty, or `config: railyard:cluster:` in a stack file."""
    site: Mapping[str, Json]
    """The site, with each range split into single ports and hosts."""
    lines: Lines
    stack: str | None
    """The stack whose file was named; None for a plain site file."""
    written: Json = None
    """The entries of `hosts` as written."""

    def hosts(self) -> Iterator[tuple[SpecPath, Mapping[str, Json]]]:
        """Each host's entry and its place."""
        entries = self.site.get("hosts")
        for number, host in enumerate(entries if isinstance(entries, list) else ()):
            if isinstance(host, dict):
                yield ("hosts", number), host

    def entry(self, path: SpecPath) -> tuple[SpecPath, bool]:
        """Return the place of a host's entry as written, and whether it has no template or range.

        For a host that the file does not have yet, it is the place at which it will be written.
        """
        spot = self.lines.spot(path)
        place = spot.path[:2] if spot and spot.path else path
        entries = self.written if isinstance(self.written, list) else []
        number = cast("int", place[1])
        return place, number >= len(entries) or entries[number] == dict(self.hosts()).get(path)

    def line(self, path: SpecPath) -> int | None:
        """Return the line of a value, or of its parent if it is missing."""
        return self.lines.locate(Place(path)).line


def read_text(path: Path) -> str:
    """Read the file and keep its line ends.

    Raises:
        UsageError: The file cannot be read.
    """
    try:
        return read_file(path).decode()
    except FileNotFoundError:
        raise UsageError(f"{path}: file not found.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: the site file cannot be read: {error}") from error


def read_site_file(path: Path) -> SiteFile:
    """Read a site file or a stack file, as far as discovery needs it.

    The rest of the file may still be wrong or missing, since discovery often comes first.

    Raises:
        UsageError: The file cannot be read.
        SpecError: The file is not YAML, or has no site.
    """
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
            raise SpecError(
                f"{path}: `{SITE_KEY}` is {named}, and {site_path} is the file of a stack itself.\n"
                "  fix    name the site itself: a file that begins with `name:`."
            )
        return replace(read_site_file(site_path), stack=stack_of(path) or None)
    is_stack = isinstance(parsed.value, dict) and "config" in parsed.value
    prefix = ("config", CONFIG_KEY) if is_stack else ()
    site = spread_ports(expand_hosts(parsed.below(*prefix)))
    if not isinstance(site.value, dict):
        raise SpecError(
            f"{path}: the file lacks a site.\n"
            f"  fix    name a site.yaml, or a Pulumi.<stack>.yaml with {SITE_KEY} or {CONFIG_KEY}."
        )
    stack = (stack_of(path) if prefix else "") or None
    written = parsed.below(*prefix, "hosts").value
    return SiteFile(path, text, prefix, site.value, site.lines, stack, written)


def ssh_of(host: Mapping[str, Json], where: str) -> Ssh:
    """Return the login of a host in the file.

    Raises:
        UsageError: Its `ssh` is wrong.
    """
    try:
        return Ssh.model_validate(host.get("ssh"))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, ("ssh", *first["loc"])))
        raise UsageError(f"{where}: {key}: {first['msg']}.{_FIX}") from error


def way_of(file: SiteFile, ssh: Ssh, where: str) -> Ssh:
    """Return the same login with its jump hosts from the file.

    Raises:
        UsageError: The file's jump hosts are wrong, or one is missing.
    """
    defaults = file.site.get("host_defaults")
    default = defaults.get("jump", ()) if isinstance(defaults, dict) else ()
    try:
        jumps = _JUMPS.validate_python(file.site.get("jump_hosts", ()))
        names = _NAMES.validate_python(default)
        return with_way(ssh, names, {hop.name: hop for hop in jumps})
    except (ValidationError, JumpError) as error:
        first = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise UsageError(f"{where}: its jump hosts: {first}.{_FIX}") from error


def write_proposals(
    file: SiteFile, proposals: Sequence[Proposal], new_hosts: Sequence[Mapping[str, Json]] = ()
) -> str:
    """Return the file's text with the proposed additions.

    Raises:
        UsageError: The file's layout allows no addition; nothing was written.
    """
    document = YamlText(file.text)
    inserts = [each for found in proposals for each in _inserts(document, file, found)]
    if new_hosts:
        inserts.append(document.add_entries((*file.prefix, "hosts"), new_hosts))
    text = apply_inserts(file.text, inserts)
    expected = _expected(file, proposals, new_hosts)
    parsed = parse_yaml(text, str(file.path))
    if parsed.problems or parsed.below(*file.prefix).value != expected:
        raise UsageError(
            f"{file.path}: cannot add the new entries to this file without moving existing ones; "
            "nothing was written.\n"
            "  fix    write the host's entry as the examples do, a line for each key."
        )
    return text


def _inserts(document: YamlText, file: SiteFile, proposal: Proposal) -> Iterator[Insert]:
    """Yield the additions to a host's entry, which no other host may share."""
    place, alone = file.entry(proposal.path)
    if not alone:
        name = dict(file.hosts())[proposal.path].get("name")
        has_cards = proposal.new_cards or proposal.card_keys
        keys = [*proposal.host_keys, *(["nics"] if has_cards else [])]
        raise UsageError(
            f"{file.path}:{file.line(proposal.path)}: {name} comes from a template or a range, to "
            f"which nothing is added; nothing was written for it.\n  fix    write {', '.join(keys)}"
            f" into the template, or into `each` for {name}: --format json prints what was found."
        )
    path = (*file.prefix, *place)
    for number, keys in sorted(proposal.card_keys.items()):
        yield document.add_keys((*path, "nics", number), keys)
    keys = dict(proposal.host_keys)
    if proposal.new_cards and document.node((*path, "nics")) is not None:
        yield document.add_entries((*path, "nics"), proposal.new_cards)
    elif proposal.new_cards:
        keys["nics"] = [dict(card) for card in proposal.new_cards]
    if keys:
        yield document.add_keys(path, keys)


def _expected(
    file: SiteFile, proposals: Sequence[Proposal], new_hosts: Sequence[Mapping[str, Json]]
) -> Json:
    """Return the expected site after the additions, to verify the new text."""
    site = cast("dict[str, Json]", parse_yaml(file.text, "").below(*file.prefix).value)
    hosts = cast("list[dict[str, Json]]", site["hosts"])
    for found in proposals:
        host = hosts[cast("int", file.entry(found.path)[0][-1])]
        host |= found.host_keys
        if found.new_cards or found.card_keys:
            cards = cast("list[dict[str, Json]]", host.setdefault("nics", []))
            for number, keys in found.card_keys.items():
                cards[number] |= keys
            cards += [dict(card) for card in found.new_cards]
    hosts += [dict(host) for host in new_hosts]
    return site


def diff_texts(file: SiteFile, text: str) -> str:
    """Return the change as a unified diff."""
    name = str(file.path)
    lines = difflib.unified_diff(
        file.text.splitlines(), text.splitlines(), name, f"{name} (found)", lineterm="", n=1
    )
    return "".join(f"{line}\n" for line in lines)


_ADDRESS: Final = re.compile(
    r"(?:(?P<user>[^@:\s]+)@)?(?:\[(?P<long>[0-9A-Fa-f:]+)\]|(?P<address>[^@:\s\[\]]+))"
    r"(?::(?P<port>\d{1,5}))?"
)
_PORT: Final = 22
_SECRET: Final = "ssh_private_key"  # noqa: S105 - the name of a secret, as the examples have it


@dataclass(frozen=True, slots=True)
class Target:
    """One host to read."""

    name: str
    endpoint: Endpoint
    path: SpecPath
    ssh: Ssh
    host: Mapping[str, Json]
    """Its entry in the file; for a new host, the part known before the reading."""
    is_new: bool = False


def find_targets(
    file: SiteFile, asked: Sequence[str], host_key: str | None, user: str
) -> tuple[list[Target], list[UsageError]]:
    """Find the requested hosts once each, in file order, with new ones last.

    Without names or addresses these are all hosts of the file. `host_key` and `user` are those of
    the only host that the file does not have yet.
    """
    hosts = file.site.get("hosts", [])
    listed = isinstance(hosts, list) and all(isinstance(each, dict) for each in hosts)
    if hosts is not None and not listed:
        raise UsageError(
            f"{file.path}:{file.line(('hosts',))}: hosts is not a list, so no host was read.\n"
            "  fix    write each as an entry of a list: `- name: gpu01`."
        )
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


def has_no_login(host: Mapping[str, Json]) -> bool:
    """Whether the file gives the host `login: none`."""
    return host.get("login") == "none"


def _number_of(entries: Sequence[tuple[SpecPath, Mapping[str, Json]]], word: str) -> int | None:
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


def _target(file: SiteFile, path: SpecPath, host: Mapping[str, Json]) -> Target:
    if not host.get("name"):
        raise UsageError(
            f"{file.path}:{file.line(path)}: {render_path(path)} lacks a name, so it was not "
            "read.\n  fix    add name."
        )
    name = str(host["name"])
    if has_no_login(host):
        raise UsageError(
            f"{file.path}:{file.line((*path, 'login'))}: {name} has login: none, so it was not "
            "read.\n  fix    read its cards on the node itself, for example by `kubectl debug "
            f"node/{host.get('node_name') or name}`, and write them into the file."
        )
    where = f"{file.path}:{file.line((*path, 'ssh'))}: {name}"
    ssh = way_of(file, ssh_of(host, where), where)
    if ssh.host_key is None:
        raise UsageError(
            f"{where} lacks a pinned host key; nothing was sent.\n"
            f"  fix    {how_to_pin(ssh.address, ssh.port)} as ssh.host_key."
        )
    if ssh.private_key is None and not ssh.agent:
        raise UsageError(
            f"{where} lacks a private key, and Railyard reaches hosts by key only.\n"
            f"  fix    add private_key: {{secret: {_SECRET}}}, or agent: true, to its ssh."
        )
    return Target(name, endpoint_of(name, "host", ssh), path, ssh, host)


def _new_target(file: SiteFile, word: str, host_key: str | None, user: str, number: int) -> Target:
    parts = _ADDRESS.fullmatch(word)
    if parts is None or ("@" not in word and "." not in word and not parts["long"]):
        names = ", ".join(str(host.get("name")) for _, host in file.hosts()) or "none"
        raise UsageError(
            f"{word} is not a host of {file.path}; its hosts: {names}.\n"
            "  fix    name a host of the file, or USER@ADDRESS with --host-key for a new one."
        )
    port = int(parts["port"] or _PORT)
    if host_key is None:
        raise UsageError(
            f"{word} is not in {file.path}, and its host key is not known; nothing was sent.\n"
            f"  fix    {how_to_pin(parts['address'], port)}: `railyard discover {word} --host-key "
            '"ssh-ed25519 …"`.'
        )
    logins = (ssh for _, host in file.hosts() if isinstance(ssh := host.get("ssh"), dict))
    keys = (key.get("secret") for ssh in logins if isinstance(key := ssh.get("private_key"), dict))
    login: dict[str, Json] = {
        "address": parts["long"] or parts["address"],
        "port": port,
        "user": parts["user"] or user,
        "host_key": host_key,
        "private_key": {"secret": next((key for key in keys if isinstance(key, str)), _SECRET)},
    }
    ssh = ssh_of({"ssh": login}, word)
    written = ssh.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    endpoint = endpoint_of(word, "host", way_of(file, ssh, word))
    return Target(word, endpoint, ("hosts", number), ssh, {"ssh": written}, is_new=True)
