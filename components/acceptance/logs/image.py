"""Reads what the look at an image printed (components/jobs/scripts/image_check.sh)."""

from __future__ import annotations

from typing import Final

from components.acceptance.logs.log_model import ImageLog, ParseProblem

_MARK: Final = "railyard-image: "


def parse_image_log(text: str) -> ImageLog | ParseProblem:
    """The facts of one image.

    Args:
        text: The whole log of the pod.
    """
    facts: list[tuple[str, str]] = []
    for line in text.splitlines():
        name, known, value = line.removeprefix(_MARK).partition("=")
        if line.startswith(_MARK) and known:
            facts.append((name, value))
    if not facts:
        said = (text.strip().splitlines() or ["nothing"])[-1]
        kind = "unrecognised" if text.strip() else "empty"
        return ParseProblem(kind=kind, what=f"the pod said nothing of its image, but: {said}")
    single = dict(facts)
    return ImageLog(
        programs={key.removeprefix("program "): path for key, path in facts if _is(key, "program")},
        mpi={key.removeprefix("mpi "): word for key, word in facts if _is(key, "mpi")},
        missing=tuple(
            f"{key.removeprefix('library ')} {name}" for key, name in facts if _is(key, "library")
        ),
        mpirun_version=single.get("mpirun version", ""),
        daemon=single.get("daemon", ""),
        uid=single.get("uid", ""),
        home=single.get("home", ""),
        path=single.get("path", ""),
        login=single.get("login", ""),
        said=tuple(text for key, text in facts if key == "said"),
        complete="end" in single,
    )


def _is(key: str, family: str) -> bool:
    return key.startswith(f"{family} ")
