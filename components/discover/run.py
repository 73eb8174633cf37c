"""From looks at hosts, one read-only connection each, to a report and to the text of the file."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from components.core.errors import DeviceError, RailyardError, UsageError
from components.core.problem import Json, render_path
from components.discover.propose import Proposal, propose
from components.discover.rails import site_rails
from components.discover.report import Found, Report
from components.discover.site_file import SiteFile, diff_texts, read_text, write_proposals
from components.discover.targets import Target
from components.hosts.look import HostLook, parse_look
from components.hosts.scripts import discover_text
from components.model.units import DNS_LABEL
from components.remote.host_session import connect_to_host
from components.remote.ssh import JumpHosts, jump_hosts
from components.remote.step import Endpoint, render_remote_command
from components.update.observe import AT_ONCE, refusal_words

_LABEL: Final = re.compile(DNS_LABEL)


def compare(
    file: SiteFile,
    targets: Sequence[Target],
    looks: Sequence[HostLook | DeviceError],
    errors: Sequence[RailyardError],
) -> tuple[Report, str]:
    """Compare the file with what was seen.

    A host that cannot be written, or was not seen, keeps no other from being written; what was
    seen of it is shown all the same.

    Returns:
        The report, and the text of the file with what it lacks.
    """
    failed = list(errors)
    found: list[Found] = []
    rails = site_rails(file.site)
    taken = {str(host.get("name")).lower(): render_path(path) for path, host in file.hosts()}
    for target, look in zip(targets, looks, strict=True):
        if isinstance(look, DeviceError):
            failed.append(look)
            continue
        try:
            named = _named(target, look, taken) if target.is_new else target
            found.append(Found(named, propose(named.host, named.path, look, rails)))
        except UsageError as error:
            failed.append(error)
    try:
        text = _texts(file, found)
    except UsageError:
        fit, refused = _which_fit(file, found)
        failed += refused
        text = _texts(file, fit)
    report = Report(file, tuple(found), tuple(failed), diff_texts(file, text))
    return report, text


def _named(target: Target, look: HostLook, taken: dict[str, str]) -> Target:
    """A new host under the name that it has itself.

    Raises:
        UsageError: Another host has that name.
    """
    short = look.name.partition(".")[0].lower()
    name = short if _LABEL.match(short) else target.endpoint.address.replace(".", "-")
    if name in taken:
        raise UsageError(
            f"{target.name} calls itself {name}, as {taken[name]} does; nothing was written for "
            f"it.\n  fix    if it is that one, ask for {name}; else give it a name of its own."
        )
    taken[name] = target.name
    role = "worker" if look.gpus else "control_plane"
    return replace(target, name=name, host={"name": name, "role": role, **target.host})


def _which_fit(file: SiteFile, found: Sequence[Found]) -> tuple[list[Found], list[UsageError]]:
    """Try each host alone, which takes long: the file is read again for each."""
    fit: list[Found] = []
    refused: list[UsageError] = []
    for each in found:
        try:
            _texts(file, [each])
            fit.append(each)
        except UsageError as error:
            refused.append(error)
    return fit, refused


def _texts(file: SiteFile, found: Sequence[Found]) -> str:
    known = [each.proposal for each in found if not each.target.is_new and each.proposal.changes]
    new = [_entry(each.target.host, each.proposal) for each in found if each.target.is_new]
    return write_proposals(file, known, new) if known or new else file.text


def _entry(host: Mapping[str, Json], proposal: Proposal) -> dict[str, Json]:
    """The whole entry of a host that is not in the file yet."""
    cards: list[Json] = [dict(card) for card in proposal.new_cards]
    return {**host, **proposal.host_keys, **({"nics": cards} if cards else {})}


def replace_file(file: SiteFile, text: str) -> None:
    """Write the file in one step, so that half of it is never there.

    Raises:
        UsageError: It cannot be written, or it has changed since it was read.
    """
    real = file.path.resolve()
    new = real.with_name(f".{real.name}.railyard")
    if read_text(file.path) != file.text:
        raise UsageError(
            f"{file.path} was changed while the hosts were read; nothing was written.\n"
            "  fix    run it again."
        )
    try:
        with new.open("w", encoding="utf-8", newline="") as opened:
            opened.write(text)
        new.chmod(real.stat().st_mode & 0o777)
        new.replace(real)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise UsageError(f"{file.path}: it cannot be written: {error.strerror}") from error


LOOK_DEADLINE_S: Final = 60.0
"""Seconds for one host: the look itself is short, reading a card's product data is not always."""


def look_at_hosts(
    endpoints: Sequence[Endpoint], secrets: Mapping[str, str]
) -> tuple[HostLook | DeviceError, ...]:
    """Look at each host, or say why there was nothing to see."""
    return asyncio.run(_look_at_all(endpoints, secrets))


async def _look_at_all(
    endpoints: Sequence[Endpoint], secrets: Mapping[str, str]
) -> tuple[HostLook | DeviceError, ...]:
    slots = asyncio.Semaphore(AT_ONCE)
    async with jump_hosts(secrets) as jumps:
        looks = [_look_at(each, secrets, jumps, slots) for each in endpoints]
        return tuple(await asyncio.gather(*looks))


async def _look_at(
    endpoint: Endpoint, secrets: Mapping[str, str], jumps: JumpHosts, slots: asyncio.Semaphore
) -> HostLook | DeviceError:
    try:
        async with slots, connect_to_host(endpoint, secrets, jumps=jumps) as session:
            command = render_remote_command(discover_text(), LOOK_DEADLINE_S)
            answer = await session.run(command, deadline_s=LOOK_DEADLINE_S)
    except DeviceError as error:
        return error
    if answer.exit_status != 0:
        return DeviceError(refusal_words(endpoint, answer.stderr, answer.exit_status))
    look = parse_look(answer.stdout.splitlines())
    if not look.seen:
        return DeviceError(f"{endpoint.where} answered nothing that the look knows: is it Linux?")
    return look
