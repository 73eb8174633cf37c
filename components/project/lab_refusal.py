"""A real stack on the lab's engine, and the lab's name on real devices: refused, in words."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import yaml

from components.core.errors import UsageError
from components.core.finding import Finding
from components.model.cluster import ClusterSpec
from components.project.engine import HERE, judge_lab_parts, look_at_engine
from components.project.lab_marks import devices_outside_lab
from components.reading.site_path import config_file


def lab_findings(
    spec: ClusterSpec, stack: str, *, says_lab: bool, environ: Mapping[str, str] | None = None
) -> tuple[Finding, ...]:
    """Why this stack may not run here.

    Args:
        spec: Its site.
        stack: Its name.
        says_lab: `railyard:lab` of its configuration, which `make up` writes.
        environ: Default: of this process.
    """
    known = os.environ if environ is None else environ
    if says_lab:
        real = devices_outside_lab(spec)
        return (_no_lab(real, stack),) if real else ()
    project = Path.cwd()
    engine = look_at_engine(known, project, ask_version=False)
    return judge_lab_parts(engine, known, salt_of(config_file(stack)))


def refuse_lab_parts(
    spec: ClusterSpec, stack: str, *, says_lab: bool, environ: Mapping[str, str] | None = None
) -> None:
    """End before anything is touched where a real site would run on parts of the lab.

    Raises:
        UsageError: It would; the text is the whole report.
    """
    found = lab_findings(spec, stack, says_lab=says_lab, environ=environ)
    if found:
        lines = [
            f"{each.what}\n  is     {each.actual}\n  wanted {each.wanted}\n  fix    {each.fix}"
            for each in found
        ]
        head = f"stack {stack} is not of the lab, and would run on parts of it."
        if says_lab:
            head = f"stack {stack} says that it is of the lab, and is not."
        raise UsageError("\n".join((head, *lines, "Nothing was touched.")))


def says_lab(written: object) -> bool:
    """Whether a value of `railyard:lab` is true, as Pulumi reads it."""
    return str(written).lower() == "true"


def salt_of(file: Path) -> str:
    """`encryptionsalt` of a stack's file; empty where there is none."""
    try:
        read = cast("object", yaml.safe_load(file.read_text()))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return ""
    found = cast("dict[str, object]", read).get("encryptionsalt") if isinstance(read, dict) else ""
    return found if isinstance(found, str) else ""


def _no_lab(real: tuple[str, ...], stack: str) -> Finding:
    return Finding(
        HERE,
        "lab-claim",
        "`railyard:lab` is true, and devices of the site are not on loopback addresses.",
        ", ".join(real[:3]) + (f" and {len(real) - 3} more" if len(real) > 3 else ""),  # noqa: PLR2004 - as many as a line holds
        "devices of the lab, which are in 127.0.0.0/8",
        f"remove `railyard:lab` from Pulumi.{stack}.yaml",
    )
