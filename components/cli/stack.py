"""What the commands about a stack share: its configuration and state, through the Pulumi CLI."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from components.checks.site import check_config_value
from components.core.errors import UsageError
from components.core.problem import Json
from components.drift.applied import Applied, applied_from_export
from components.model.cluster import ClusterSpec
from components.model.site_path import config_file
from components.plan.make import ClusterPlan, make_plan

PULUMI_DEADLINE_S: Final = 120
UPDATE_DEADLINE_S: Final = 3600
PREFIX: Final = "railyard:"


@dataclass(frozen=True, slots=True)
class Stack:
    """One stack as its file and its state describe it."""

    name: str
    spec: ClusterSpec
    plan: ClusterPlan
    applied: Applied
    secrets: Mapping[str, str]


def pulumi(arguments: Sequence[str], *, environment: Mapping[str, str] | None = None) -> str:
    """Run the Pulumi CLI and return what it printed.

    Raises:
        UsageError: There is no CLI on PATH, or it failed; the text is its own.
    """
    done = run_pulumi(arguments, environment=environment, deadline_s=PULUMI_DEADLINE_S)
    if done.returncode != 0:
        raise UsageError(f"pulumi {' '.join(arguments)} failed:\n{done.stderr.strip()}")
    return done.stdout


def run_pulumi(
    arguments: Sequence[str], *, environment: Mapping[str, str] | None = None, deadline_s: float
) -> subprocess.CompletedProcess[str]:
    """Run the Pulumi CLI, whatever it answers.

    Raises:
        UsageError: There is no CLI on PATH.
    """
    program = shutil.which("pulumi")
    if program is None:
        raise UsageError(
            "pulumi is not on PATH.\n"
            "  fix    source the environment file that `make up` named: . .lab/dev/env.sh"
        )
    return subprocess.run(
        [program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=deadline_s,
        env={**os.environ, **(environment or {})},
    )


def config_flags(stack: str) -> list[str]:
    """What a `pulumi` command needs to find the configuration of this stack."""
    file = config_file(stack)
    return [] if file == Path(file.name) else ["--config-file", str(file)]


def load_stack(name: str) -> Stack:
    """Read a stack's configuration and recorded state; nothing is contacted.

    Raises:
        UsageError: The stack does not exist.
        SpecError: Its file is wrong.
    """
    flags = config_flags(name)
    text = pulumi(["config", "--stack", name, "--show-secrets", "--json", *flags])
    config = cast("dict[str, dict[str, object]]", json.loads(text))
    entry = config.get(f"{PREFIX}cluster", {})
    value = entry.get("objectValue")
    if value is None and isinstance(entry.get("value"), str):
        value = json.loads(cast("str", entry["value"]))
    source = config_file(name)
    site = cast("Json", config.get(f"{PREFIX}site", {}).get("value"))
    checked = check_config_value(cast("Json", value), source if source.is_file() else None, site)
    spec = checked.spec_or_raise()
    secrets = {
        key.removeprefix(PREFIX): cast("str", item.get("value", ""))
        for key, item in config.items()
        if key.startswith(PREFIX) and key not in {f"{PREFIX}cluster", f"{PREFIX}site"}
    }
    applied = applied_from_export(pulumi(["stack", "export", "--stack", name, "--show-secrets"]))
    return Stack(name, spec, make_plan(spec, name), applied, secrets)
