"""The file that discovery reads hosts from and writes cards to."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, cast

from pydantic import TypeAdapter, ValidationError

from components.checks.render import render_text
from components.core.errors import SpecError, UsageError
from components.core.limits import read_file
from components.core.problem import Json, Lines, Place, SpecPath
from components.discover.propose import Proposal
from components.discover.yaml_edit import Insert, YamlText, apply_inserts
from components.model.jump_hosts import JumpError, JumpHost, with_way
from components.model.units import JumpNames, Ssh
from components.reading.load import CONFIG_KEY
from components.reading.port_ranges import spread_ports
from components.reading.site_path import SITE_KEY, SitePathError, read_site
from components.reading.yaml_text import parse_yaml

_JUMPS: Final = TypeAdapter(tuple[JumpHost, ...])
_NAMES: Final[TypeAdapter[tuple[str, ...]]] = TypeAdapter(JumpNames)


@dataclass(frozen=True, slots=True)
class SiteFile:
    """One file as text and as plain data."""

    path: Path
    """The file that holds the site: it may be one that a stack file names."""
    text: str
    prefix: tuple[str, ...]
    """Where the site begins: nowhere, or below `config: railyard:cluster:` of a stack file."""
    site: Mapping[str, Json]
    """Its ranges of ports as one entry a port."""
    lines: Lines
    stack: str | None
    """The stack whose file was named; None of a plain site file."""

    def hosts(self) -> Iterator[tuple[SpecPath, Mapping[str, Json]]]:
        """Each host's entry and its place."""
        entries = self.site.get("hosts")
        for number, host in enumerate(entries if isinstance(entries, list) else ()):
            if isinstance(host, dict):
                yield ("hosts", number), host

    def line(self, path: SpecPath) -> int | None:
        """The line of a value, or of what it would stand in."""
        return self.lines.locate(Place(path)).line


def read_text(path: Path) -> str:
    """The file with its line ends as they are.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        return read_file(path).decode()
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: the site file cannot be read: {error}") from error


def read_site_file(path: Path) -> SiteFile:
    """Read a site file or a stack file, as far as discovery needs it.

    The rest of the file may still be wrong or missing: the first look is often before that.

    Raises:
        UsageError: It cannot be read.
        SpecError: It is no YAML, or holds no site.
    """
    text = read_text(path)
    parsed = parse_yaml(text, str(path))
    if parsed.problems:
        raise SpecError(render_text(parsed.problems))
    named = parsed.below("config", SITE_KEY).value
    if named is not None:
        return replace(_named_site(named, path), stack=_stack_of(path))
    prefix = ("config", CONFIG_KEY)
    whole = parsed.value if isinstance(parsed.value, dict) else {}
    if "config" not in whole:
        prefix = ()
    site = spread_ports(parsed.below(*prefix))
    if not isinstance(site.value, dict):
        raise SpecError(
            f"{path}: there is no site in it.\n"
            f"  fix    name a site.yaml, or a Pulumi.<stack>.yaml with {SITE_KEY} or {CONFIG_KEY}."
        )
    stack = _stack_of(path) if prefix else None
    return SiteFile(path, text, prefix, site.value, site.lines, stack)


def _named_site(named: Json, stack_file: Path) -> SiteFile:
    try:
        path = read_site(named, stack_file).path
    except SitePathError as error:
        raise SpecError(f"{stack_file}: {error.what}\n  fix    {error.fix}") from error
    value = parse_yaml(read_text(path), str(path)).value
    if isinstance(value, dict) and "config" in value:
        raise SpecError(
            f"{stack_file}: `{SITE_KEY}` is {named}, and {path} is the file of a stack itself.\n"
            "  fix    name the site itself: a file that begins with `name:`."
        )
    return read_site_file(path)


def _stack_of(path: Path) -> str | None:
    parts = path.name.split(".")
    return parts[1] if parts[0] == "Pulumi" and len(parts) > len("  ") else None


def ssh_of(host: Mapping[str, Json], where: str) -> Ssh:
    """How a host of the file is reached.

    Raises:
        UsageError: Its `ssh` is wrong.
    """
    try:
        return Ssh.model_validate(host.get("ssh"))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, ("ssh", *first["loc"])))
        raise UsageError(
            f"{where}: {key}: {first['msg']}.\n  fix    `railyard check` says what is expected."
        ) from error


def way_of(file: SiteFile, ssh: Ssh, where: str) -> Ssh:
    """The same with its jump hosts looked up in the file.

    Raises:
        UsageError: The file's jump hosts are wrong, or lack one.
    """
    defaults = file.site.get("host_defaults")
    default = defaults.get("jump", ()) if isinstance(defaults, dict) else ()
    try:
        jumps = _JUMPS.validate_python(file.site.get("jump_hosts", ()))
        names = _NAMES.validate_python(default)
        return with_way(ssh, names, {hop.name: hop for hop in jumps})
    except (ValidationError, JumpError) as error:
        first = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise UsageError(
            f"{where}: its jump hosts: {first}.\n  fix    `railyard check` says what is expected."
        ) from error


def write_proposals(
    file: SiteFile, proposals: Sequence[Proposal], new_hosts: Sequence[Mapping[str, Json]] = ()
) -> str:
    """The file's text with what the proposals add.

    Raises:
        UsageError: Its form does not let a value be added; nothing was written.
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
            f"{file.path}: what was found cannot be put into this file without moving what is "
            "there; nothing was written.\n"
            "  fix    write the host's entry as the examples do, a line for each key."
        )
    return text


def _inserts(document: YamlText, file: SiteFile, proposal: Proposal) -> Iterator[Insert]:
    path = (*file.prefix, *proposal.path)
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
    """The site as data after the proposals: the proof that the new text says this and no more."""
    site = cast("dict[str, Json]", parse_yaml(file.text, "").below(*file.prefix).value)
    hosts = cast("list[dict[str, Json]]", site["hosts"])
    for found in proposals:
        host = hosts[cast("int", found.path[-1])]
        host |= found.host_keys
        if found.new_cards or found.card_keys:
            cards = cast("list[dict[str, Json]]", host.setdefault("nics", []))
            for number, keys in found.card_keys.items():
                cards[number] |= keys
            cards += [dict(card) for card in found.new_cards]
    hosts += [dict(host) for host in new_hosts]
    return site


def diff_texts(file: SiteFile, text: str) -> str:
    """What would be written, as a unified difference."""
    name = str(file.path)
    lines = difflib.unified_diff(
        file.text.splitlines(), text.splitlines(), name, f"{name} (found)", lineterm="", n=1
    )
    return "".join(f"{line}\n" for line in lines)
