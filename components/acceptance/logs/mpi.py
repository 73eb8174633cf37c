"""Reads what `mpirun hostname` and `mpirun nvidia-smi` print: is every host there?"""

from __future__ import annotations

import re

from components.acceptance.logs.failures import launched_finder
from components.acceptance.logs.lines import split_lines
from components.acceptance.logs.log_model import MpiLog, ParseProblem

_HOST = re.compile(r"^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$")
_TABLE_GPU = re.compile(r"^\|\s*\d+\s+\S.*\|\s*[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d ")
_LISTED_GPU = re.compile(r"^GPU \d+: ")


def parse_mpi_log(text: str) -> MpiLog | ParseProblem:
    """Reads the output of a command that mpirun started once on every host.

    Args:
        text: mpirun's whole output.
    """
    if not text.strip():
        return ParseProblem(kind="empty", what="the log is empty")
    lines = split_lines(text)
    finder = launched_finder()
    for line in lines:
        finder.feed(line)
    return MpiLog(
        hosts=tuple(line.strip() for line in lines if _HOST.match(line.strip())),
        gpus=sum(bool(_TABLE_GPU.match(line) or _LISTED_GPU.match(line)) for line in lines),
        failures=tuple(finder.failures),
    )
