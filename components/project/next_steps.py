"""What a new project needs before its first preview, in order, with what is there already."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from components.core.finding import Finding
from components.project.engine import INSTALL_CLI, OWN_LOGIN, Engine
from components.project.files import SITE_FILE
from components.project.lab_marks import is_stand_in
from components.reading.example_marks import MARK

_INDENT: Final = "\n       "


def render_next_steps(folder: Path, stack: str, engine: Engine, secrets: Sequence[str]) -> str:
    """The steps from the written files to the first preview.

    Args:
        folder: The project.
        stack: Its stack.
        engine: What this machine has of Pulumi.
        secrets: Names of the secrets that the example's site asks for.
    """
    pip = ".venv/bin/pip install --require-hashes -r requirements.txt"
    config = [f"pulumi config set --secret -s {stack} railyard:{name}" for name in secrets]
    steps = (
        (f"cd {folder}", f"python3 -m venv .venv && {pip}"),
        _cli_step(engine),
        *_plugin_steps(engine),
        (
            "a backend and a passphrase of your own, then the stack:",
            OWN_LOGIN,
            "export PULUMI_CONFIG_PASSPHRASE='…' (or --secrets-provider with a key service)",
            f"pulumi stack init {stack}",
        ),
        (
            f"your values: each line of {SITE_FILE} with `{MARK.strip()}` is still the example's",
            f".venv/bin/railyard check Pulumi.{stack}.yaml",
        ),
        ("the secrets, each on standard input:", *config),
        (
            "the jobs' image, if you have none, and a checksum of all that the site brings:",
            f".venv/bin/railyard image build {SITE_FILE} --push",
            f".venv/bin/railyard pin Pulumi.{stack}.yaml",
        ),
        (
            "a look at every device, which changes nothing, and then the plan:",
            f".venv/bin/railyard preflight {stack}",
            f"pulumi preview -s {stack}",
        ),
    )
    return "Next\n" + "\n".join(
        f"  {number}. {_INDENT.join(lines)}" for number, lines in enumerate(steps, 1)
    )


def _cli_step(engine: Engine) -> tuple[str, ...]:
    wanted = f"the Pulumi CLI, {engine.wanted} or later"
    if engine.program is None:
        return (f"{wanted}: not on PATH", INSTALL_CLI.format(engine.wanted))
    return (f"{wanted}: {engine.version or 'no answer'} at {engine.program}",)


def _plugin_steps(engine: Engine) -> tuple[tuple[str, ...], ...]:
    steps: list[tuple[str, ...]] = []
    for plugin in engine.plugins:
        head = f"the plugin {plugin.name} {plugin.version}"
        if plugin.program is None:
            steps.append((f"{head}: not there", plugin.install))
        elif is_stand_in(plugin.program):
            steps.append((f"{head}: a stand-in of the lab at {plugin.program}", plugin.install))
        else:
            steps.append((f"{head}: {plugin.program}",))
    return tuple(steps)


def render_findings(findings: Sequence[Finding]) -> str:
    """Findings of one device as text, each with its values and its fix."""
    return "\n".join(
        f"{each.cause}: {each.what}\n  is     {each.actual}\n  wanted {each.wanted}\n"
        f"  fix    {each.fix}"
        for each in findings
    )
