"""A probe's log as evidence: parsed, with its fingerprint and its end.

The parsers are here and not with the evidence types, because most readers of evidence read no log.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Final

from components.acceptance.evidence import Outcome, Probe, ProbeEvidence, ProbeKind
from components.acceptance.logs.failures import launched_finder
from components.acceptance.logs.lines import split_lines
from components.acceptance.logs.log_model import (
    DeepSpeedLog,
    ImageLog,
    MpiLog,
    NcclLog,
    ParseProblem,
    PerftestLog,
    TrainingLog,
)
from components.acceptance.logs.nccl import parse_nccl_log
from components.acceptance.logs.node import NodeLog, parse_node_log
from components.acceptance.logs.perftest import parse_perftest_log
from components.acceptance.logs.workloads import parse_deepspeed_log, parse_training_log

_TAIL_LINES = 25
_TAIL_COLUMNS = 300
"""Characters of each of a log's last lines: enough to read a report without the file."""


def digest_log(probe: Probe, log: str, *, outcome: Outcome, log_file: str = "") -> ProbeEvidence:
    """The evidence of a probe's log: parsed, with its fingerprint and its end."""
    data = log.encode("utf-8", "replace")
    base = ProbeEvidence(
        probe=probe,
        outcome=outcome,
        log_file=log_file,
        log_sha256=hashlib.sha256(data).hexdigest(),
        log_bytes=len(data),
        log_tail=tuple(line[:_TAIL_COLUMNS] for line in log.splitlines()[-_TAIL_LINES:]),
    )
    name, parse = _PARSERS[probe.kind]
    parsed = parse(log)
    if isinstance(parsed, ParseProblem):
        return base.model_copy(update={"problem": parsed})
    found: dict[str, ParsedLog] = {name: parsed}
    if isinstance(parsed, DeepSpeedLog | TrainingLog | NodeLog):
        said = parse_nccl_log(log)
        found |= {} if isinstance(said, ParseProblem) else {"nccl": said}
    return base.model_copy(update=found)


ParsedLog = NcclLog | PerftestLog | DeepSpeedLog | TrainingLog | MpiLog | ImageLog | NodeLog
_HOST = re.compile(r"^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$")
_TABLE_GPU = re.compile(r"^\|\s*\d+\s+\S.*\|\s*[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d ")
_LISTED_GPU = re.compile(r"^GPU \d+: ")


def parse_mpi_log(text: str) -> MpiLog | ParseProblem:
    """Reads the output of a command that mpirun started once on every host."""
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


_MARK: Final = "railyard-image: "


def parse_image_log(text: str) -> ImageLog | ParseProblem:
    """The facts of one image."""
    lines = (line.removeprefix(_MARK) for line in text.splitlines() if line.startswith(_MARK))
    facts = [
        (name, value) for name, known, value in (line.partition("=") for line in lines) if known
    ]
    if not facts:
        said = (text.strip().splitlines() or ["nothing"])[-1]
        kind = "unrecognised" if text.strip() else "empty"
        return ParseProblem(kind=kind, what=f"the pod said nothing of its image, but: {said}")
    single = dict(facts)
    parts = [(*key.split(" ", 1), text) for key, text in facts if " " in key]
    return ImageLog(
        programs={name: path for kind, name, path in parts if kind == "program"},
        mpi={name: word for kind, name, word in parts if kind == "mpi"},
        nccl={name: word for kind, name, word in parts if kind == "nccl"},
        missing=tuple(f"{name} {what}" for kind, name, what in parts if kind == "library"),
        mpirun_version=single.get("mpirun version", ""),
        daemon=single.get("daemon", ""),
        uid=single.get("uid", ""),
        home=single.get("home", ""),
        path=single.get("path", ""),
        login=single.get("login", ""),
        said=tuple(text for key, text in facts if key == "said"),
        complete="end" in single,
    )


_PARSERS: Final[Mapping[ProbeKind, tuple[str, Callable[[str], ParsedLog | ParseProblem]]]] = {
    "image": ("image", parse_image_log),
    "node": ("node", parse_node_log),
    "nccl": ("nccl", parse_nccl_log),
    "perftest": ("perftest", parse_perftest_log),
    "deepspeed_scan": ("deepspeed", parse_deepspeed_log),
    "resnet50": ("training", parse_training_log),
    "mpi_hosts": ("mpi", parse_mpi_log),
    "mpi_gpus": ("mpi", parse_mpi_log),
}
"""The field of the evidence, and the parser for it."""
