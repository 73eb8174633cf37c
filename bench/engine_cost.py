"""What the preview of a large site costs, beside the bare engine with as many resources.

    make bench-engine   (or .venv/bin/python -m bench.engine_cost [--hosts 1000] [--rails 2])

`pulumi preview` of the site's stack with `railyard:observe: never`, and of a program that only
registers so many commands with inputs of the same length. Both use the same engine and plugins,
one after the other, in turns; nothing is contacted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Final, cast

from bench.host_room import ROOT
from bench.runner import Spent, run_measured
from bench.site_cost import FORMS
from bench.sites import site_text
from components.artefacts.lock import Entry, lock_path, write_lock
from components.checks.site import load_checked_site
from components.checks.site_files import artefacts_of
from lab.engine.env import EnvSettings, plan_environment, write_env
from lab.engine.install import ensure_engine

STACK: Final = "bench"
SECRETS: Final = ("switch_password", "ssh_private_key", "k3s_token", "k3s_agent_token")
OURS: Final = "from stacks import run\n\nrun()\n"
BARE: Final = """\
import json
import pulumi_command as command

for number, length in enumerate(json.load(open("lengths.json"))):
    command.local.Command(f"step-{number:05d}", create="true", stdin="x" * length)
"""


def pin_site(site: Path) -> None:
    """A lock with made-up digests: a preview asks for one, and fetches nothing."""
    spec = load_checked_site(site).spec_or_raise()
    found = [each for each in artefacts_of(spec) if each.lockable]
    entries = (
        Entry(
            name=each.name, kind=each.kind, address=each.address, version=each.version,
            sha256="ab" * 32, size=1, pinned=date(2026, 1, 1),
        )
        for each in found
    )  # fmt: skip
    write_lock(lock_path(site), {each.key: each for each in entries})


class Room:
    """An engine with a backend of its own, and two projects in it."""

    def __init__(self, home: Path, hosts: int, rails: int) -> None:
        settings = EnvSettings(home, "lab", Path(sys.executable), ensure_engine())
        write_env(settings)
        base = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
        self._environment = plan_environment(settings, base) | {"PYTHONPATH": str(ROOT)}
        self._pulumi = str(settings.bin / "pulumi")
        self.ours = self._project(home / "ours", OURS)
        # The stack is of the lab, whose devices are on loopback; none of them is contacted.
        site = site_text(hosts, FORMS[rails]).replace("address: 172.", "address: 127.")
        (self.ours / "site.yaml").write_text(site)
        pin_site(self.ours / "site.yaml")
        for key, value in (("site", "site.yaml"), ("observe", "never"), ("lab", "true")):
            self._call(self.ours, "config", "set", f"railyard:{key}", value)
        for name in SECRETS:
            self._call(self.ours, "config", "set", "--secret", f"railyard:{name}", f"the {name}")
        self.bare = self._project(home / "bare", BARE)

    def _project(self, folder: Path, program: str) -> Path:
        folder.mkdir()
        (folder / "Pulumi.yaml").write_text("name: railyard\nruntime: python\n")
        (folder / "__main__.py").write_text(program)
        self._call(folder, "stack", "init", f"{folder.name}-{STACK}")
        return folder

    def _call(self, folder: Path, *words: str) -> str:
        done = subprocess.run(
            [self._pulumi, *words, "--non-interactive"],
            cwd=folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return done.stdout

    def lengths(self) -> list[int]:
        """The length of each resource's inputs as JSON, in the order of the preview."""
        steps = json.loads(self._call(self.ours, "preview", "--json"))["steps"]
        inputs = [cast("object", step.get("newState", {}).get("inputs", {})) for step in steps]
        return [len(json.dumps(each)) for each in inputs]

    def preview(self, folder: Path) -> Spent:
        """One preview, measured."""
        command = [self._pulumi, "preview", "--non-interactive", "--suppress-outputs"]
        return run_measured(command, self._environment, folder)


def report(hosts: int, rails: int, runs: int, home: Path) -> str:
    """Measure one size, and say it in a few lines."""
    room = Room(home, hosts, rails)
    lengths = room.lengths()
    (room.bare / "lengths.json").write_text(json.dumps(lengths))
    turns = [(room.preview(room.bare), room.preview(room.ours)) for _ in range(runs)]
    bare, ours = min(turn[0].seconds for turn in turns), min(turn[1].seconds for turn in turns)
    bare_cpu = min(turn[0].cpu_seconds for turn in turns)
    our_cpu = min(turn[1].cpu_seconds for turn in turns)
    return (
        f"{hosts} hosts, {rails} rails: {len(lengths)} resources, {sum(lengths) / 1024:.0f} KiB\n"
        f"  Railyard    {ours:6.1f} s {our_cpu:6.1f} s CPU {turns[0][1].memory_mib:6.0f} MiB\n"
        f"  bare engine {bare:6.1f} s {bare_cpu:6.1f} s CPU {turns[0][0].memory_mib:6.0f} MiB\n"
        f"  ratio       {ours / bare:6.2f}   {our_cpu / bare_cpu:6.2f}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=[1000])
    parser.add_argument("--rails", type=int, choices=tuple(FORMS), default=2)
    parser.add_argument("--runs", type=int, default=3)
    chosen = parser.parse_args(arguments)
    for hosts in chosen.hosts:
        with tempfile.TemporaryDirectory() as folder:
            text = report(hosts, chosen.rails, chosen.runs, Path(folder))
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
