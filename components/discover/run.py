"""Read hosts over one read-only connection each, and write a report and the file's new text."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from components.core.errors import DeviceError, RailyardError, UsageError
from components.core.plain_text import counted
from components.core.problem import Json, finding_json, render_path, rows_of
from components.core.record import record, replace
from components.core.templates import fault_text
from components.discover.propose import Keys, Proposal, card_name, propose, site_rails
from components.discover.site_file import (
    SiteFile,
    Target,
    diff_texts,
    has_no_login,
    read_text,
    write_proposals,
)
from components.hosts.look import HostLook, matrix, parse_look
from components.hosts.scripts import discover_text
from components.model.owners import not_touched
from components.model.units import DNS_LABEL
from components.remote.host_session import connect_to_host
from components.remote.ssh import JumpHosts
from components.remote.step import Endpoint, render_remote_command
from components.update.observe import AT_ONCE, refusal_words

_OF_CARDS: Final = (
    *("pci", "netdev", "rdma", "speed_gbit_s", "lanes", "link_layer", "numa", "total_vfs"),
    *("serial", "neighbour"),
)
"""Facts of a card that a report has under their own names."""
_LABEL: Final = re.compile(DNS_LABEL)
LOOK_DEADLINE_S: Final = 60.0
"""Seconds for one host: the script is short, but product data of a card may take long."""


@record
class Found:
    """One host that was read."""

    target: Target
    proposal: Proposal


@record
class Report:
    """The outcome for all hosts that were asked for."""

    file: SiteFile
    found: tuple[Found, ...]
    errors: tuple[RailyardError, ...]
    """Hosts that were unknown, or could not be read."""
    difference: str = ""
    """Lines that the file lacks, as a unified diff; empty if it is complete."""
    written: bool = False

    @property
    def no_login(self) -> tuple[str, ...]:
        """Hosts of the file with `login: none`."""
        hosts = (host for _, host in self.file.hosts())
        return tuple(str(host.get("name")) for host in hosts if has_no_login(host))

    @property
    def exit_code(self) -> int:
        """Return 4 if a host was not reached, 2 if one is unknown, 3 if the file differs."""
        codes = {error.exit_code for error in self.errors}
        if codes:
            return 4 if codes - {2} else 2
        differ = any(each.proposal.differences for each in self.found)
        return 3 if differ or (self.difference and not self.written) else 0


def render_report(report: Report) -> str:
    """The report for people."""
    lines = [line for found in report.found for line in _host(found)]
    lines += [f"error: {error}" for error in report.errors] + [*not_touched(report.no_login)]
    if report.written:
        said = ": written."
    elif report.difference:
        said = " lacks this; --write adds it, and changes nothing else:"
    else:
        said = f": nothing to add{' of the others' if report.errors else ''}."
    return "\n".join((*lines, f"{report.file.path}{said}\n{report.difference}"))


def _host(found: Found) -> Iterator[str]:
    proposal = found.proposal
    look = proposal.look
    counts = ((len(look.cards), "card"), (len(look.gpus), "GPU"), (look.nodes, "NUMA node"))
    words = ", ".join(counted(count, word) for count, word in counts)
    yield f"{found.target.endpoint.where}: {words}"
    for card in look.cards:
        link, pcie, port = card.link, "PCIe unknown", "port down"
        if link.gt_s and link.width:
            pcie = f"PCIe {link.gt_s:g} GT/s x{link.width}"
        if card.speed_gbit_s:
            port = f"{card.speed_gbit_s} Gbit/s"
        port += f" {card.lanes}X {card.signalling}".rstrip() if card.lanes else ""
        name = card.netdev or card.rdma or "no driver"
        parts = [proposal.rails.get(card.pci, "-"), card.pci, name, card_name(card.device), port]
        parts += [pcie, "numa unknown" if card.numa is None else f"numa {card.numa}"]
        own = (pair for pair in proposal.pairs if pair.card == card.pci)
        parts += [f"GPU {pair.gpu} ({pair.distance.name})" for pair in own]
        facts = (("fw", card.fw_ver), ("serial", card.serial), ("to", card.neighbour))
        yield f"  {'  '.join((*parts, *(f'{word} {fact}' for word, fact in facts if fact)))}"
    for each in proposal.differences:
        yield f"  differs: {rows_of(each)[0]}, {each.what}"
    for note in proposal.notes:
        yield f"  note: {note}"


def report_json(report: Report) -> Json:
    """The report for programs."""
    hosts: list[Json] = []
    for found in report.found:
        proposal, look = found.proposal, found.proposal.look
        login = found.target.ssh.model_dump(
            mode="json", exclude={"hops"}, exclude_none=True, exclude_defaults=True
        )
        hosts.append(
            {
                "name": found.target.name,
                "ssh": login,
                "numa_nodes": look.nodes,
                "cards": [
                    {
                        **{key: getattr(card, key) for key in _OF_CARDS},
                        "rail": proposal.rails.get(card.pci),
                        "model": card_name(card.device),
                        "link_gt_s": card.link.gt_s,
                        "link_width": card.link.width,
                        "possible_gt_s": card.possible.gt_s,
                        "possible_width": card.possible.width,
                        "firmware": card.fw_ver,
                    }
                    for card in look.cards
                ],
                "gpus": [{"pci": gpu.pci, "numa": gpu.numa} for gpu in look.gpus],
                "pairs": [
                    {"gpu": pair.gpu, "card": pair.card, "distance": pair.distance.name}
                    for pair in proposal.pairs
                ],
                "distances": {" ".join(k): far.name for k, far in sorted(matrix(look).items())},
                "differences": [finding_json(each) for each in proposal.differences],
                "notes": list(proposal.notes),
            }
        )
    return {
        "file": str(report.file.path),
        "hosts": hosts,
        "errors": [str(error) for error in report.errors],
        "no_login": list(report.no_login),
        "difference": report.difference,
        "written": report.written,
        "exit_code": report.exit_code,
    }


def compare(
    file: SiteFile,
    targets: Sequence[Target],
    looks: Sequence[HostLook | DeviceError],
    errors: Sequence[RailyardError],
) -> tuple[Report, str]:
    """Compare the file with the hosts' hardware, and return its text with the additions.

    A host that failed, or whose entry cannot be written, does not stop the others.
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
            made = propose(named.host, named.path, look, rails)
            differ = (file.lines.locate_all(each, defaults=False) for each in made.differences)
            found.append(Found(named, replace(made, differences=tuple(differ))))
        except UsageError as error:
            failed.append(error)
    try:
        text = _texts(file, found)
    except UsageError:
        refused: dict[int, UsageError] = {}
        for number, each in enumerate(found):  # each alone, which is slow: it parses again
            try:
                _texts(file, [each])
            except UsageError as error:
                refused[number] = error
        failed += refused.values()
        text = _texts(file, [each for n, each in enumerate(found) if n not in refused])
    return Report(file, tuple(found), tuple(failed), diff_texts(file, text)), text


def _named(target: Target, look: HostLook, taken: dict[str, str]) -> Target:
    """Name a new host as it names itself, unless another host has that name."""
    short = look.name.partition(".")[0].lower()
    name = short if _LABEL.match(short) else target.endpoint.address.replace(".", "-")
    if name in taken:
        words = {"host": target.name, "name": name, "other": taken[name]}
        raise UsageError(fault_text(__file__, "same-name", **words))
    taken[name] = target.name
    role = "worker" if look.gpus else "control_plane"
    return replace(target, name=name, host={"name": name, "role": role, **target.host})


def _texts(file: SiteFile, found: Sequence[Found]) -> str:
    known = [each.proposal for each in found if not each.target.is_new and each.proposal.changes]
    new: list[Keys] = []
    for each in (each for each in found if each.target.is_new):
        cards: list[Json] = [dict(card) for card in each.proposal.new_cards]
        keys = {**each.target.host, **each.proposal.host_keys}
        new.append({**keys, **({"nics": cards} if cards else {})})
    return write_proposals(file, known, new) if known or new else file.text


def replace_file(file: SiteFile, text: str) -> None:
    """Replace the file in one step; UsageError if that fails, or it changed since it was read."""
    real = file.path.resolve()
    new = real.with_name(f".{real.name}.railyard")
    if read_text(file.path) != file.text:
        raise UsageError(fault_text(__file__, "changed", path=file.path))
    try:
        with new.open("w", encoding="utf-8", newline="") as opened:
            opened.write(text)
        new.chmod(real.stat().st_mode & 0o777)
        new.replace(real)
    except OSError as error:
        new.unlink(missing_ok=True)
        words = {"path": file.path, "error": error.strerror}
        raise UsageError(fault_text(__file__, "unwritable", **words)) from error


def look_at_hosts(
    endpoints: Sequence[Endpoint], secrets: Mapping[str, str]
) -> tuple[HostLook | DeviceError, ...]:
    """Read each host, or return why it could not be read."""
    command = render_remote_command(discover_text(), LOOK_DEADLINE_S)

    async def look_at_all() -> tuple[HostLook | DeviceError, ...]:
        slots = asyncio.Semaphore(AT_ONCE)

        async def look_at(endpoint: Endpoint) -> HostLook | DeviceError:
            try:
                async with slots, connect_to_host(endpoint, secrets, jumps=jumps) as session:
                    answer = await session.run(command, deadline_s=LOOK_DEADLINE_S)
            except DeviceError as error:
                return error
            if answer.exit_status != 0:
                return DeviceError(refusal_words(endpoint, answer.stderr, answer.exit_status))
            look = parse_look(answer.stdout.splitlines())
            what = f"{endpoint.where} answered nothing that the look knows: is it Linux?"
            return look if look.seen else DeviceError(what)

        async with aclosing(JumpHosts(secrets)) as jumps:
            return tuple(await asyncio.gather(*map(look_at, endpoints)))

    return asyncio.run(look_at_all())
