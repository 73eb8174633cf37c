"""The archive of acceptance: logs, requests, evidence and reports, on the machine that runs Pulumi.

The state of a stack has only digests. The folder `.railyard/<stack>` in the program's folder has
the texts: `requests/<digest>.json`, and `run-NNNN/evidence.json` with the logs and the report of
that run. Several machines share it by a store (`store.py`), else each begins another archive. The
runs also show when each part was last proven.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from components.acceptance import evidence as proofs
from components.acceptance.evidence import Evidence, ForeignSettingSeen, Probe, parse_evidence
from components.acceptance.judge.site import judge_evidence
from components.core.errors import RailyardError, UsageError

FOLDER: Final = Path(".railyard")
"""Logs, evidence and reports by stack and run; not kept in git."""
EVIDENCE: Final = "evidence.json"
BESIDE: Final = "beside.json"
"""Foreign settings found by the update, for the proof."""
_BESIDE: Final = TypeAdapter(tuple[ForeignSettingSeen, ...])
MOST_RUNS: Final = 50
"""How many runs are read, the newest first; a probe unproven in them counts as never proven."""
_SHOWN: Final = 4
"""Most hosts to name; of more, only the first and the last."""


def run_folder(stack: str, run: int) -> Path:
    """The folder of one run's logs and report."""
    return FOLDER / stack / f"run-{run:04d}"


def digest_of(text: str) -> str:
    """The name of a text in the archive."""
    return hashlib.sha256(text.encode()).hexdigest()


def request_path(stack: str, digest: str) -> Path:
    """The place of the request with that digest."""
    return FOLDER / stack / "requests" / f"{digest}.json"


def keep_request(stack: str, text: str) -> str:
    """Put a request into the archive, whole or not at all, and delete earlier ones."""
    digest = digest_of(text)
    path = request_path(stack, digest)
    keep_file(path, text)
    for other in path.parent.glob("*.json"):
        if other != path:
            other.unlink(missing_ok=True)
    return digest


def keep_evidence(stack: str, evidence: Evidence) -> str:
    """Put the evidence of a run into the archive, whole or not at all."""
    text = proofs.dump_evidence(evidence)
    keep_file(run_folder(stack, evidence.run) / EVIDENCE, text)
    return digest_of(text)


def keep_file(path: Path, text: str) -> None:
    """Write a file of the archive, whole or not at all; RailyardError if that fails."""
    try:
        write_whole(path, text)
    except OSError as error:
        raise RailyardError(
            f"archive: {path} cannot be written: {error.strerror}.\n"
            f"  where  {path.absolute()}\n  fix    free space there, or correct its rights."
        ) from error


def keep_foreign_settings(stack: str, run: int, found: Sequence[ForeignSettingSeen] | None) -> None:
    """Archive the foreign settings for the proof of a run; None deletes earlier ones."""
    place = run_folder(stack, run) / BESIDE
    if found is None:
        place.unlink(missing_ok=True)
    else:
        write_whole(place, _BESIDE.dump_json(tuple(found), indent=1))


def read_foreign_settings(stack: str, run: int) -> tuple[ForeignSettingSeen, ...] | None:
    """Read the foreign settings; None if the file is missing or cannot be read."""
    try:
        return _BESIDE.validate_json((run_folder(stack, run) / BESIDE).read_bytes())
    except (OSError, ValidationError):
        return None


def read_archived(path: Path, digest: str, fix: str) -> str:
    """Read a text; UsageError with the fix if it is missing or has another digest."""
    where = f"where  {path.absolute()}"
    try:
        text = _text_of(path)
    except FileNotFoundError:
        raise UsageError(
            f"archive: {path} is missing, but the state of the stack names it by its digest "
            f"{digest[:16]}.\n"
            f"  {where}; the archive is on the machine that proved the stack\n  fix    {fix}"
        ) from None
    except OSError as error:
        raise RailyardError(f"archive: {path} cannot be read: {error.strerror}") from error
    found = digest_of(text)
    if found != digest:
        raise UsageError(
            f"archive: {path} was changed: its digest is {found[:16]}, and the state of the"
            f" stack names {digest[:16]}.\n  {where}\n  fix    {fix}"
        )
    return text


def latest_evidence(stack: str) -> Evidence | None:
    """The evidence of a stack's last run on this machine; RailyardError if it cannot be read."""
    runs = _newest_first(stack)
    try:
        return parse_evidence(_text_of(runs[0])) if runs else None
    except OSError as error:
        raise RailyardError(f"archive: {runs[0]} cannot be read: {error.strerror}") from error


def _text_of(path: Path) -> str:
    """A text of the archive; its digest or its parser refuses one that a disk has damaged."""
    return path.read_text(encoding="utf-8", errors="replace")


def forget_oldest(stack: str) -> None:
    """Delete old runs, which nothing reads any more, and their logs, to keep room on the disk."""
    for path in _newest_first(stack)[MOST_RUNS:]:
        shutil.rmtree(path.parent, ignore_errors=True)


def _newest_first(stack: str) -> list[Path]:
    """Sort runs by time: after `destroy` the numbers begin at 1 again, and earlier runs remain."""
    runs = (FOLDER / stack).glob(f"run-*/{EVIDENCE}")
    return sorted(runs, key=lambda path: (path.stat().st_mtime_ns, path), reverse=True)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write another file and rename it: a crash then cannot leave half a text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def last_accepted(stack: str, before: int) -> Evidence | None:
    """The evidence of the newest run that passed completely, except the current run."""
    earlier = _earlier(stack, before)
    return next((each for each in earlier if judge_evidence(each).verdict == "passed"), None)


def _earlier(stack: str, before: int) -> Iterator[Evidence]:
    """Yield the newest runs except the current one, reading each on demand."""
    now = run_folder(stack, before).name
    for path in [each for each in _newest_first(stack) if each.parent.name != now][:MOST_RUNS]:
        # Evidence of another release, or unreadable evidence, does not count.
        with suppress(UsageError, OSError):
            yield parse_evidence(_text_of(path))


def subjects_of(probe: Probe) -> tuple[str, ...]:
    """The subjects that a probe proves: itself, each rail of each host, and the link of a pair."""
    return (label_of(probe), *(" ".join(place) for place in proofs.places_of(probe)))


def label_of(probe: Probe) -> str:
    """A probe's name, with the hosts of a collective, because other hosts make it another probe."""
    if probe.kind in {"perftest", "image"}:
        return probe.name
    nodes = probe.nodes
    if len(nodes) <= _SHOWN:
        return f"{probe.name} over {', '.join(nodes)}"
    return f"{probe.name} over {len(nodes)} hosts, {nodes[0]} to {nodes[-1]}"


def last_proofs(stack: str, before: int, wanted: Collection[str]) -> dict[str, str]:
    """Each wanted subject to the end of the last run before this number that proved it."""
    found: dict[str, str] = {}
    for evidence in _earlier(stack, before):
        report = judge_evidence(evidence)
        for probe in (item.probe for item in evidence.probes):
            if report.verdict_of(probe.name) == "passed":
                found = dict.fromkeys(subjects_of(probe), evidence.finished_at) | found
        if wanted and set(wanted) <= found.keys():
            break
    return {subject: date for subject, date in found.items() if subject in wanted}
