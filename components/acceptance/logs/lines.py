"""Takes a job's output apart: launcher tags off, lines that tags cut in two put apart.

The prefixes are those of Open MPI, PRRTE, srun and wrappers; a tag may stand in the
middle of a line, because ranks write into one stream.
"""

from __future__ import annotations

import re

_TAG = re.compile(
    r"(?:[A-Z][a-z]{2} [A-Z][a-z]{2}\s+\d+ [\d:]+ \d{4})?"
    r"\[[^\]\s]{0,80}\d\](?:\[[^\]\s]{1,80}:\d+\])?<std(?:out|err|diag)>: ?"
)
_LABEL = re.compile(
    r"^\s*(?:\[pod/[^\]\s]{1,200}\] )?(?:\d{4}-\d\d-\d\dT[\d:.]{8,20}(?:Z|[+-]\d\d:\d\d) )?"
    r"(?:\[\d+\]:?\s|\d+:\s)?"
)
"""What `kubectl logs --prefix --timestamps` and srun put before a line."""
_LABEL_INSIDE_ROW = re.compile(r"(?<=[\d.])\[\d+\](?=\s)")
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\\\))")
"""Control sequences (ECMA-48) and terminal titles."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def split_lines(text: str) -> list[str]:
    """The lines of all ranks without launcher tags and terminal colours.

    A tag inside a line ends that line: what follows belongs to another rank.
    """
    plain = _CONTROL.sub("", _ESCAPE.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))
    untagged = _TAG.sub("\n", plain)
    return [_LABEL.sub("", line).rstrip() for line in untagged.split("\n") if line.strip()]


def strip_row_labels(line: str) -> str:
    """A table row without the rank labels that some launchers write into it."""
    return _LABEL_INSIDE_ROW.sub(" ", line)
