"""Code that commands on a stack share: its configuration and state, read through the Pulumi CLI."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import yaml

from components.artefacts.lock import Lock
from components.checks.site import check_config_value, load_checked_site
from components.cli.say import say
from components.core.errors import UsageError
from components.core.problem import Lines
from components.core.record import field, record
from components.core.templates import fault_text
from components.drift.applied import Applied, applied_from_export
from components.model.cluster import ClusterSpec
from components.plan.make import ClusterPlan, make_plan
from components.plan.pieces import plan_stack
from components.project.engine import backend_of, is_lab, project_name, refuse_lab_parts
from components.project.under_way import UnderWay, find_under_way
from components.reading.site_path import config_file
from components.remote.step import secrets_from
from components.update.secrets import outside_secrets

PULUMI_DEADLINE_S: Final = 120
PREVIEW_DEADLINE_S: Final = 3600
PREFIX: Final = "railyard:"


@record
class StackConfig:
    """The `railyard:` keys of a stack, as `pulumi config` gives them."""

    values: Mapping[str, str] = field(repr=False)
    """Key without its prefix to its text, secrets in clear."""
    encrypted: tuple[str, ...] = field(default=(), repr=False)
    """The values of all keys that the stack encrypts, also of other programs."""

    @property
    def secrets(self) -> Mapping[str, str]:
        """The values that a secret of the site may name."""
        return {key: text for key, text in self.values.items() if key not in {"cluster", "site"}}


@record
class Stack:
    """One stack as its file and its state describe it, or a site file without a state."""

    name: str
    spec: ClusterSpec
    plan: ClusterPlan
    applied: Applied
    secrets: Mapping[str, str] = field(repr=False)
    lock: Lock = field(default_factory=Lock)
    under_way: UnderWay = field(default_factory=UnderWay)
    """Unfinished work of an update, from the same reading of the state."""
    lines: Lines = field(default_factory=Lines)
    """The line of each value in the site file."""

    @property
    def reach_secrets(self) -> Mapping[str, str]:
        """The stack's secrets, and those from outside, read now; UsageError if one is missing."""
        return {**self.secrets, **outside_secrets(self.spec, os.environ, self.secrets)}

    @property
    def all_secrets(self) -> dict[str, str]:
        """Those of `reach_secrets`, and the RAILYARD_SECRET_NAME of the environment, which win."""
        return {**self.reach_secrets, **secrets_from(os.environ)}


def pulumi(arguments: Sequence[str], *, stdin: str | None = None) -> str:
    """Run the Pulumi CLI and return its output; UsageError with its own text if it failed."""
    done = run_pulumi(arguments, stdin=stdin, deadline_s=PULUMI_DEADLINE_S)
    if done.returncode != 0:
        raise UsageError(f"pulumi {' '.join(arguments)} failed:\n{done.stderr.strip()}")
    return done.stdout


def run_pulumi(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    stdin: str | None = None,
    deadline_s: float | None,
) -> subprocess.CompletedProcess[str]:
    """Run the Pulumi CLI and return its result, even if it failed.

    An update has no deadline: if it is killed, its state is half-made. Ctrl-C reaches the CLI too,
    which then ends its work, and this waits for it. UsageError: it is not on PATH, or did not end.
    """
    program = shutil.which("pulumi")
    if program is None:
        raise UsageError(fault_text(__file__, "no-pulumi"))
    pipe, variables = subprocess.PIPE, {**os.environ, **(environment or {})}
    ins = None if stdin is None else pipe
    with subprocess.Popen(
        [program, *arguments], stdin=ins, stdout=pipe, stderr=pipe, text=True, errors="replace",
        env=variables,
    ) as process:  # fmt: skip
        try:
            out, err = process.communicate(stdin, timeout=deadline_s)
        except subprocess.TimeoutExpired:
            process.kill()
            words = {"words": " ".join(arguments), "deadline_s": deadline_s}
            raise UsageError(fault_text(__file__, "slow-pulumi", **words)) from None
        except KeyboardInterrupt:
            say(f"interrupted: waiting until pulumi {arguments[0]} has ended", err=True)
            process.communicate()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def config_flags(stack: str) -> list[str]:
    """The flags with which a `pulumi` command finds the configuration of this stack."""
    file = config_file(stack)
    return [] if file == Path(file.name) else ["--config-file", str(file)]


def archive_of(stack: str) -> str:
    """The name under which evidence is kept: of a piece of a split site, that of the site."""
    try:
        document = yaml.safe_load(config_file(stack).read_text())
        piece = document["config"][f"{PREFIX}piece"]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError):
        return stack
    return stack.removesuffix(f"-{piece}")


def read_config(stack: str) -> StackConfig:
    """Read a stack's configuration; only this asks Pulumi for secrets. UsageError: none."""
    flags = config_flags(stack)
    text = pulumi(["config", "--stack", stack, "--show-secrets", "--json", *flags])
    entries: dict[str, dict[str, Any]] = json.loads(text)
    values, encrypted = dict[str, str](), list[str]()
    for key, each in entries.items():
        # The CLI gives structured values as `objectValue` too.
        value, whole = each.get("value"), json.dumps(each.get("objectValue"))
        known = value if isinstance(value, str) else whole
        values |= {key.removeprefix(PREFIX): known} if key.startswith(PREFIX) else {}
        encrypted += [known] if each.get("secret") else []
    return StackConfig(values, tuple(encrypted))


def load_stack(name: str) -> Stack:
    """Read a stack's configuration and recorded state; no device is contacted.

    Raises: UsageError: it does not exist, or is a real site on parts of the lab. SpecError: a wrong
    file.
    """
    config, source = read_config(name), config_file(name)
    site, cluster = config.values.get("site"), config.values.get("cluster", "null")
    with suppress(ValueError):  # a word instead of a site: the rules report it
        cluster = json.loads(cluster)
    checked = check_config_value(cluster, source if source.is_file() else None, site)
    spec, lock = checked.spec_or_raise(), checked.lock
    refuse_lab_parts(spec, name, is_lab=is_lab(config.values.get("lab")))
    exported = pulumi(["stack", "export", "--stack", name, "--show-secrets"])
    applied = applied_from_export(exported).follow(spec)
    plan = plan_stack(spec, name, config.values.get("piece", ""), lock)
    running = _under_way(exported, name)
    return Stack(name, spec, plan, applied, config.secrets, lock, running, checked.lines)


def load_file(file: Path, *, reads_only: bool = False) -> Stack:
    """Read a site file; secrets come from the environment. No device is contacted."""
    checked = load_checked_site(file, reads_only=reads_only)
    name = file.stem.removeprefix("Pulumi.")
    spec, lock = checked.spec_or_raise(), checked.lock
    plan = make_plan(spec, name, lock)
    return Stack(name, spec, plan, Applied(), {}, lock, lines=checked.lines)


def load_stack_or_file(name: str) -> Stack:
    """Read a stack, or a site file if the name ends as one."""
    return load_file(Path(name)) if is_file(name) else load_stack(name)


def is_file(name: str) -> bool:
    """Whether an argument is a site file rather than the name of a stack."""
    return Path(name).suffix in {".yaml", ".yml"}


def under_way(name: str) -> UnderWay:
    """The unfinished work of an update of the stack just now."""
    return _under_way(pulumi(["stack", "export", "--stack", name]), name)


def _under_way(exported: str, name: str) -> UnderWay:
    here = Path.cwd()
    return find_under_way(exported, backend_of(os.environ, here), project_name(here), name)
