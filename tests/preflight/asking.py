"""The shipped script on this machine, as a host runs it, without root."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from types import MappingProxyType

from components.core.problem import Finding
from components.preflight.judge import HostAnswers, judge_host
from components.preflight.run import host_script
from components.preflight.wants import HostWants

SECRETS: Mapping[str, str] = {"registry_password": 'pa"ss'}


def ask(
    wants: HostWants, environ: Mapping[str, str] = MappingProxyType({}), **secrets: str
) -> tuple[Finding, ...]:
    """Ask this machine as a host is asked.

    Args:
        wants: What it must have.
        environ: All of its environment but PATH, which is ours by default.
        secrets: Secret name to value, beside `SECRETS`.
    """
    done = subprocess.run(
        ["sh", "-c", host_script()],
        input=wants.render({**SECRETS, **secrets}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": os.environ["PATH"], **environ},
    )
    assert done.returncode == 0, done.stderr
    facts = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert facts["end"] == "yes"
    now = float(facts["time"])
    return judge_host(wants, HostAnswers(facts, now, now))
