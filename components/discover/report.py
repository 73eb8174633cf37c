"""What discovery says: the hosts' cards and GPUs, and where file and host disagree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from components.core.errors import RailyardError
from components.core.plain_text import counted
from components.core.problem import Json, render_path
from components.discover.propose import Disagreement, Proposal, card_name
from components.discover.site_file import SiteFile
from components.discover.targets import Target, has_no_login
from components.hosts.look import CardFact
from components.hosts.placement import Pair, matrix
from components.model.owners import not_touched
from components.reading.wording import show_value


@dataclass(frozen=True, slots=True)
class Found:
    """One host that was looked at."""

    target: Target
    proposal: Proposal


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome for all hosts that were asked for."""

    file: SiteFile
    found: tuple[Found, ...]
    errors: tuple[RailyardError, ...]
    """Hosts that were not known, or not to be looked at."""
    difference: str = field(default="")
    """What the file lacks, as a unified difference; empty when it has all."""
    written: bool = False

    @property
    def no_login(self) -> tuple[str, ...]:
        """Hosts of the file that nothing logs in to."""
        hosts = (host for _, host in self.file.hosts())
        return tuple(str(host.get("name")) for host in hosts if has_no_login(host))

    @property
    def exit_code(self) -> int:
        """4 where a host was not reached, 2 where one is not known, 3 where the file differs."""
        codes = {error.exit_code for error in self.errors}
        if codes:
            return 4 if codes - {2} else 2
        disagree = any(each.proposal.disagreements for each in self.found)
        return 3 if disagree or (self.difference and not self.written) else 0

    def as_written(self) -> Report:
        """The same after the file was written."""
        return replace(self, written=True)


def render_report(report: Report) -> str:
    """The report for people."""
    lines = [line for found in report.found for line in _host(report.file, found)]
    lines += [f"error: {error}" for error in report.errors]
    lines += not_touched(report.no_login)
    if not report.difference:
        rest = " of the others" if report.errors else ""
        lines.append(f"{report.file.path}: nothing to add{rest}.")
        return "\n".join(lines) + "\n"
    if report.written:
        lines.append(f"{report.file.path}: written.")
    else:
        lines.append(f"{report.file.path} lacks this; --write adds it, and changes nothing else:")
    return "\n".join(lines) + "\n" + report.difference


def _host(file: SiteFile, found: Found) -> Iterator[str]:
    proposal = found.proposal
    look = proposal.look
    counts = ((len(look.cards), "card"), (len(look.gpus), "GPU"), (look.nodes, "NUMA node"))
    words = ", ".join(counted(count, word) for count, word in counts)
    yield f"{found.target.endpoint.where}: {words}"
    for card in look.cards:
        yield f"  {_card(card, proposal.rails.get(card.pci, '-'), proposal.pairs)}"
    for each in proposal.disagreements:
        yield f"  differs: {_disagreement(file, each)}"
    for note in proposal.notes:
        yield f"  note: {note}"


def _card(card: CardFact, rail: str, pairs: Sequence[Pair]) -> str:
    link = card.link
    pcie = f"PCIe {link.gt_s:g} GT/s x{link.width}" if link.gt_s and link.width else "PCIe unknown"
    port = f"{card.speed_gbit_s} Gbit/s" if card.speed_gbit_s else "port down"
    if card.lanes:
        port += f" {card.lanes}X {card.signalling}".rstrip()
    numa = "numa unknown" if card.numa is None else f"numa {card.numa}"
    own = [pair for pair in pairs if pair.card == card.pci]
    parts = [rail, card.pci, card.netdev or card.rdma or "no driver", card_name(card.device)]
    parts += [port, pcie, numa]
    parts += [f"GPU {pair.gpu} ({pair.distance.name})" for pair in own]
    parts += [f"fw {card.fw_ver}"] if card.fw_ver else []
    parts += [f"serial {card.serial}"] if card.serial else []
    parts += [f"to {card.neighbour}"] if card.neighbour else []
    return "  ".join(parts)


def _disagreement(file: SiteFile, each: Disagreement) -> str:
    line = file.line(each.path)
    where = f"{file.path}:{line}" if line else str(file.path)
    found = "" if each.found is None else f", found {_shown(each.found)}"
    note = f" ({each.note})" if each.note else ""
    return f"{where}  {render_path(each.path)} = {_shown(each.written)}{found}{note}"


def _shown(value: Json) -> str:
    if isinstance(value, list):
        return f"[{', '.join(show_value(each) for each in value)}]"
    return show_value(value)


def report_json(report: Report) -> Json:
    """The report for programs."""
    return {
        "file": str(report.file.path),
        "hosts": [_host_json(report.file, found) for found in report.found],
        "errors": [str(error) for error in report.errors],
        "no_login": list(report.no_login),
        "difference": report.difference,
        "written": report.written,
        "exit_code": report.exit_code,
    }


def _host_json(file: SiteFile, found: Found) -> Json:
    proposal = found.proposal
    look = proposal.look
    distances: dict[str, Json] = {
        f"{gpu} {card}": steps.name for (gpu, card), steps in sorted(matrix(look).items())
    }
    return {
        "name": found.target.name,
        "numa_nodes": look.nodes,
        "cards": [_card_json(card, proposal.rails.get(card.pci)) for card in look.cards],
        "gpus": [{"pci": gpu.pci, "numa": gpu.numa} for gpu in look.gpus],
        "pairs": [
            {"gpu": pair.gpu, "card": pair.card, "distance": pair.distance.name}
            for pair in proposal.pairs
        ],
        "distances": distances,
        "differences": [
            {
                "path": render_path(each.path),
                "line": file.line(each.path),
                "told": each.written,
                "found": each.found,
                "note": each.note,
            }
            for each in proposal.disagreements
        ],
        "notes": list(proposal.notes),
    }


def _card_json(card: CardFact, rail: str | None) -> Json:
    return {
        "rail": rail,
        "pci": card.pci,
        "netdev": card.netdev,
        "rdma": card.rdma,
        "model": card_name(card.device),
        "speed_gbit_s": card.speed_gbit_s,
        "lanes": card.lanes,
        "link_layer": card.link_layer,
        "link_gt_s": card.link.gt_s,
        "link_width": card.link.width,
        "possible_gt_s": card.possible.gt_s,
        "possible_width": card.possible.width,
        "numa": card.numa,
        "total_vfs": card.total_vfs,
        "firmware": card.fw_ver,
        "serial": card.serial,
        "neighbour": card.neighbour,
    }
