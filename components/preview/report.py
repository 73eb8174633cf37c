"""Render a preview as JSON, as text for a terminal, and as Markdown for a pull request."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate
from typing import Final

from components.core.plain_text import code_block, code_span, counted, indented, one_line
from components.core.record import record
from components.fabric.effects import group_settings
from components.preview.items import Change, Kind, group_changes

MARKER = "<!-- railyard-preview -->"
"""First line of the Markdown form: a pipeline finds the comment by it and edits it in place."""
GITHUB_LIMIT: Final = 65_536
"""Characters of a comment on GitHub (its API answers `body is too long (maximum is 65536
characters)`); GitLab takes 1,000,000."""
MOST_LINES: Final = 40
"""Most lines per subject in a comment; a CRD of another release has hundreds of changed fields."""
_WIDTH: Final = 160
"""Most characters of one value; a longer one, such as a certificate, shows its length."""
_TITLES: Final[Mapping[Kind, str]] = {
    "cloud": "Cloud", "switch": "Switches", "hypervisor": "Hypervisors", "host": "Hosts",
    "release": "Helm releases", "object": "Kubernetes objects", "acceptance": "Acceptance",
}  # fmt: skip
_VERBS: Final = {"add": "added", "remove": "removed", "change": "changed"}
_REPAIRS: Final = "Repairs of drift, not of the file:"
_NOTHING: Final = "Nothing would change."


@record
class Preview:
    """The effects of a change to the file on one stack."""

    stack: str
    basis: str
    """The base of the comparison, in words, for the reader to judge."""
    alarms: tuple[str, ...]
    """Interruptions, reboots, replacements and refusals."""
    edits: tuple[Change, ...]
    """Changes of the file."""
    repairs: tuple[str, ...]
    """Drift that an update will repair."""
    notes: tuple[str, ...] = ()
    """Unknown facts and consequences."""
    ports: Mapping[str, Mapping[str, int]] | None = None
    """Switch to the order of its ports, which keeps neighbours together."""
    failed: bool = False
    """The engine refused the update; the first alarm quotes it."""

    @property
    def is_empty(self) -> bool:
        """An update would do nothing."""
        return not (self.alarms or self.edits or self.repairs)


def render_json(preview: Preview) -> str:
    """Render the complete preview as JSON for other programs."""
    document = asdict(preview)
    del document["ports"]
    return json.dumps({"schema_version": 1, **document}, indent=1) + "\n"


def render_text(preview: Preview) -> str:
    """The whole preview for a terminal."""
    lines = [one_line(f"Preview of {preview.stack}, {preview.basis}"), ""]
    lines += [f"! {indented(alarm)}" for alarm in preview.alarms]
    lines += [""] if preview.alarms else []
    for kind, blocks in _by_kind(preview):
        lines.append(f"{_TITLES[kind]}: {_count(preview, kind)}")
        lines += [f"  {one_line(line)}" for block in blocks for line in block]
    if preview.repairs:
        lines += ["", _REPAIRS] if preview.edits else [_REPAIRS]
        lines += [f"  {one_line(repair)}" for repair in preview.repairs]
    lines += [_NOTHING] if preview.is_empty else []
    lines += ["", *map(indented, preview.notes)] if preview.notes else []
    return "\n".join(lines).rstrip() + "\n"


def render_markdown(preview: Preview, limit: int = GITHUB_LIMIT) -> str:
    """Render the preview as a comment, in whole parts; texts from outside are code."""
    head = [MARKER, f"### Railyard preview of {code_span(preview.stack)}", ""]
    head += [code_span(preview.basis), ""]
    head += [f"> [!WARNING]\n> {code_span(alarm)}\n" for alarm in preview.alarms]
    head += [_NOTHING] if preview.is_empty else []
    blocks: list[str] = []
    for kind, groups in _by_kind(preview):
        blocks.append(f"\n**{_TITLES[kind]}**: {_count(preview, kind)}")
        for first, *lines in groups:
            if (left := len(lines) - MOST_LINES) > 1:
                lines[MOST_LINES:] = [f"  and {left} more lines"]
            code = [code_block(lines)] if lines else []
            blocks.append("\n".join((f"\n{code_span(first)}", *code)))
    if preview.repairs:
        blocks.append("\n**Repairs of drift**, not of the file:\n")
        blocks += [f"- {code_span(repair)}" for repair in preview.repairs]
    tail = ["", *(f"- {code_span(note)}" for note in preview.notes)] if preview.notes else []
    whole = "\n".join((*head, *blocks, *tail)).rstrip() + "\n"
    if len(whole) <= limit:
        return whole
    # As many whole parts as fit, notes first: half a code span would be read as Markdown.
    cut = "\n_{} more parts do not fit into this comment; the full preview is a file of the run._\n"
    room = limit - len(cut) - 10
    ends = _that_fit(tail, room // 2)
    shown = _that_fit((*head, *blocks), room - sum(len(part) + 1 for part in ends))
    left = len(head) + len(blocks) + len(tail) - len(shown) - len(ends)
    return "\n".join((*shown, cut.format(left), *ends)).rstrip() + "\n"


def _that_fit(parts: Sequence[str], room: int) -> Sequence[str]:
    sizes = accumulate(len(part) + 1 for part in parts)
    return parts[: sum(size <= room for size in sizes)]


def _by_kind(preview: Preview) -> Iterable[tuple[Kind, list[list[str]]]]:
    """Return blocks by kind: a headline, then each changed setting with its old and new value."""
    found: dict[Kind, list[list[str]]] = {}
    for group in group_changes(preview.edits):
        names, first = ", ".join(each.subject for each in group), group[0]
        blocks = found.setdefault(first.kind, [])
        if first.verb != "change":
            count = counted(len(first.settings), "setting")
            blocks.append([f"{names}: {_VERBS[first.verb]}, {count}"])
            continue
        words = {
            (each.place, each.setting): f"{_short(each.old)} -> {_short(each.new)}"
            for each in first.settings
        }
        whole = [f"{setting}: {said}" for (place, setting), said in words.items() if not place]
        placed = {key: said for key, said in words.items() if key[0]}
        order = (preview.ports or {}).get(first.subject, {})
        lines = (*whole, *group_settings(placed, order))
        blocks.append([f"{names}:", *(f"  {line}" for line in lines)])
    return found.items()


def _count(preview: Preview, kind: Kind) -> str:
    own = [each for each in preview.edits if each.kind == kind]
    counts = {verb: sum(each.verb == verb for each in own) for verb in _VERBS}
    return ", ".join(f"{count} {_VERBS[verb]}" for verb, count in counts.items() if count)


def _short(value: str) -> str:
    return value if len(value) <= _WIDTH else f"{value[:40]}… ({len(value)} characters)"
