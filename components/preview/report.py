"""A preview as plain values: what the three forms of it are rendered from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from components.preview.items import Change

MARKER = "<!-- railyard-preview -->"
"""First line of the Markdown form: a pipeline finds the comment by it and edits it in place."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What a change of the file would do to one stack."""

    stack: str
    basis: str
    """What it was compared with, in words: the reader decides how much to believe."""
    alarms: tuple[str, ...]
    """What is interrupted, rebooted, replaced or refused."""
    edits: tuple[Change, ...]
    """What the file changes."""
    repairs: tuple[str, ...]
    """What was changed on devices, and an update puts back."""
    notes: tuple[str, ...] = ()
    """What is not known, and what follows from the rest."""
    ports: Mapping[str, Mapping[str, int]] | None = None
    """Switch to the order of its ports, so that neighbours stand together."""

    @property
    def is_empty(self) -> bool:
        """An update would do nothing."""
        return not (self.alarms or self.edits or self.repairs)


def render_json(preview: Preview) -> str:
    """The whole of it for other programs, nothing cut."""
    document = asdict(preview)
    del document["ports"]
    return json.dumps({"schema_version": 1, **document}, indent=1) + "\n"
