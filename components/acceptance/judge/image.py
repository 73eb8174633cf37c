"""Judges an image of jobs by the output of a pod: one finding for each thing that it lacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from components.acceptance.evidence import Probe, ProbeEvidence
from components.acceptance.judge.verdict import Finding, row
from components.acceptance.logs.log_model import ImageLog
from components.catalogue.operator_versions import parse_numbers
from components.jobs.templates import SSHD

_CONTRACT: Final = "docs/reference/probe-image.md"
_FOLDERS: Final = {"_perf": "nccl_tests", "_bw": "perftest"}
"""The end of a program's name to the key of its folder."""
_SSH_PACKAGES: Final = {
    SSHD: "openssh-server",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}
_TORCH: Final = "torch"
"""The name in image_check.sh for the NCCL that PyTorch brings: on PyPI, 2.21.5 with torch 2.6.0,
and 2.26.2 with 2.7.0 (their `requires_dist`)."""
_HIDDEN_GID: Final = "ncclIbRoceGetVersionNum: Invalid argument"
"""The message of such an NCCL."""
_MPIS: Final = ("Open MPI", "OpenRTE")
"""The names of Open MPI 4 and 5 in `mpirun --version`."""


def judge_image(item: ProbeEvidence, log: ImageLog) -> list[Finding]:
    """One finding for each thing that the image lacks; if complete, one passed finding."""
    image, name = item.probe.image, item.probe.name
    lacks = list(_lacks(item, log))
    if not log.complete:
        lacks.append(("the whole look", "its output ends in the middle", "read the pod's events"))
    if lacks:
        verdict = "failed" if log.complete else "error"
        return [
            row("image", name, verdict, expected, f"the image {image} {actual}", step)
            for expected, actual, step in lacks
        ]
    has = [path.rpartition("/")[2] for path in log.programs.values()]
    releases = dict.fromkeys(f"NCCL {release}" for release in log.nccl.values() if release)
    versions = ", ".join([*([log.mpirun_version] if log.mpirun_version else []), *releases])
    actual = f"has {', '.join(has)}" + (f" ({versions})" if versions else "")
    doubts = "; ".join(_nccl_doubts(item.probe, log))
    return [row("image", name, "passed", image, actual).because(doubts)]


MissingPart = tuple[str, str, str]
"""The expected thing, the image's state, and the fix."""


def _lacks(item: ProbeEvidence, log: ImageLog) -> Iterator[MissingPart]:
    needed = item.probe.programs
    for program in needed:
        if not log.programs.get(program):
            yield program, f"has no {program}", _remedy(program)
    if log.uid != "0":
        has = f"runs as user {log.uid or 'unknown'}"
        yield "root", has, f"remove USER from the image: {_CONTRACT}"
    yield from _mpi_lacks(log)
    yield from _nccl_lacks(item.probe, log)
    for missing in log.missing:
        program, _, library = missing.partition(" ")
        step = "install the library, or put its folder into ENV LD_LIBRARY_PATH of the image"
        has = f"lacks {library}, which {program} is linked with"
        yield f"{library} for {program}", has, step
    if SSHD in needed:
        yield from _login_lacks(log)


def _remedy(program: str) -> str:
    package = _SSH_PACKAGES.get(program)
    if package is not None:
        return f"install {package} in it, or build one with: railyard image build ({_CONTRACT})"
    ends = (key for end, key in _FOLDERS.items() if program.endswith(end))
    key = "mpirun" if program.endswith("mpirun") else next(ends, None)
    where = f"name its place in jobs.programs.{key}, or " if key else ""
    return f"{where}build one with: railyard image build ({_CONTRACT})"


def _mpi_lacks(log: ImageLog) -> Iterator[MissingPart]:
    for program, word in log.mpi.items():
        if word == "no":
            has = f"has {program} without MPI: each rank would run as a separate job"
            yield f"{program} built with MPI=1", has, f"build nccl-tests with MPI=1: {_CONTRACT}"
    mpirun = next((path for name, path in log.programs.items() if name.endswith("mpirun")), "")
    if not mpirun:
        return
    if not any(name in log.mpirun_version for name in _MPIS):
        has = f"has another mpirun: {log.mpirun_version or 'it prints no version'}"
        yield "mpirun of Open MPI", has, "name Open MPI's in jobs.programs.mpirun"
    elif not log.daemon:
        has = f"has neither orted nor prted in {mpirun.rpartition('/')[0]}"
        step = "name the whole path of Open MPI's own mpirun in jobs.programs.mpirun"
        yield "orted or prted next to mpirun", has, step


def _nccl_lacks(probe: Probe, log: ImageLog) -> Iterator[MissingPart]:
    """Find each NCCL that is too old for the site's pods; an unknown release is only a doubt."""
    least = probe.nccl_least
    for program, release in log.nccl.items():
        if not least or not release or parse_numbers(release) >= parse_numbers(least):
            continue
        step = f"take an image with it, or build one with: railyard image build ({_CONTRACT})"
        if program == _TORCH:
            step = "take an image whose PyTorch brings it, as 2.7.0 does"
        fails = "fails in macvlan pods on shared cards (NVIDIA/nccl#1573)"
        has = f"has NCCL {release} for {program}, which {fails}: {_HIDDEN_GID}"
        yield f"NCCL {least} or newer for {program}", has, step


def _nccl_doubts(probe: Probe, log: ImageLog) -> Iterator[str]:
    for program, release in log.nccl.items():
        if probe.nccl_least and not release:
            yield (
                f"the look found no release of the NCCL of {program}; macvlan pods on shared cards "
                f"need {probe.nccl_least} (NVIDIA/nccl#1573)"
            )
        if release and release == probe.nccl_suspect:
            yield f"a site reports that NCCL {release} crashes on V100 (NVIDIA/nccl#2159)"


def _login_lacks(log: ImageLog) -> Iterator[MissingPart]:
    if log.login and log.login != "ok":
        said = next((line for line in log.said if line), "it said nothing")
        more = next((line for line in log.said if "not allowed" in line or "REFUSED" in line), "")
        because = f"{said}; {more}" if more and more != said else said
        step = f"mend its sshd: make /run/sshd, and let root log in by key ({_CONTRACT})"
        yield "root to log in over SSH by key", f"lets no login in: {because}", step
    elif log.login and log.home != "/root":
        home = log.home or "no folder"
        has = f"has {home} as home of root, and the key is mounted at /root/.ssh"
        yield "/root as home of root", has, "give root the home /root in /etc/passwd"
