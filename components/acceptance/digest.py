"""A probe's log as evidence: parsed, with its fingerprint and its end.

The parsers are here and not beside what they make: most that reads evidence reads no log.
"""

from __future__ import annotations

import hashlib

from components.acceptance.evidence import Outcome, Probe, ProbeEvidence, ProbeKind
from components.acceptance.logs.deepspeed import parse_deepspeed_log
from components.acceptance.logs.image import parse_image_log
from components.acceptance.logs.log_model import (
    DeepSpeedLog,
    ImageLog,
    MpiLog,
    NcclLog,
    ParseProblem,
    PerftestLog,
    TrainingLog,
)
from components.acceptance.logs.mpi import parse_mpi_log
from components.acceptance.logs.nccl import parse_nccl_log
from components.acceptance.logs.perftest import parse_perftest_log
from components.acceptance.logs.training import parse_training_log

_TAIL_LINES = 25
_TAIL_COLUMNS = 300
"""Enough of a log's end to read in a report without the file."""


def digest_log(probe: Probe, log: str, *, outcome: Outcome, log_file: str = "") -> ProbeEvidence:
    """The evidence of a probe's log: parsed, with its fingerprint and its end.

    Args:
        probe: The planned probe.
        log: The whole log; of a perftest, the client's.
        outcome: How the job ended.
        log_file: Where the raw log was written.
    """
    data = log.encode("utf-8", "replace")
    base = ProbeEvidence(
        probe=probe,
        outcome=outcome,
        log_file=log_file,
        log_sha256=hashlib.sha256(data).hexdigest(),
        log_bytes=len(data),
        log_tail=tuple(line[:_TAIL_COLUMNS] for line in log.splitlines()[-_TAIL_LINES:]),
    )
    parsed = _parse(probe.kind, log)
    if isinstance(parsed, ParseProblem):
        return base.model_copy(update={"problem": parsed})
    found: dict[str, ParsedLog] = {_FIELDS[type(parsed)]: parsed}
    if isinstance(parsed, DeepSpeedLog | TrainingLog):
        said = parse_nccl_log(log)
        found |= {} if isinstance(said, ParseProblem) else {"nccl": said}
    return base.model_copy(update=found)


ParsedLog = NcclLog | PerftestLog | DeepSpeedLog | TrainingLog | MpiLog | ImageLog
_FIELDS: dict[type[ParsedLog], str] = {
    NcclLog: "nccl",
    PerftestLog: "perftest",
    DeepSpeedLog: "deepspeed",
    TrainingLog: "training",
    MpiLog: "mpi",
    ImageLog: "image",
}


def _parse(kind: ProbeKind, log: str) -> ParsedLog | ParseProblem:
    match kind:
        case "image":
            return parse_image_log(log)
        case "nccl":
            return parse_nccl_log(log)
        case "perftest":
            return parse_perftest_log(log)
        case "deepspeed_scan":
            return parse_deepspeed_log(log)
        case "resnet50":
            return parse_training_log(log)
        case "mpi_hosts" | "mpi_gpus":
            return parse_mpi_log(log)
