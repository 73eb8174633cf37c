"""What a large site costs before the engine runs: load, check, plan and digest, in one process.

    make bench-sites   (or .venv/bin/python -m bench.site_cost [--hosts 1000] [--rails 2 8])

Each site is measured in a process of its own, and so is the floor of the same file: reading it by
libyaml into plain values, and writing them as JSON. Seconds are of the processor, since another
process on the machine must not count; memory is the most that the process had.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TextIO, cast

from bench.sites import EIGHT_RAILS, TWO_RAILS, count_switches, site_text

ROOT: Final = Path(__file__).parents[1]
FORMS: Final = {2: TWO_RAILS, 8: EIGHT_RAILS}
PARTS: Final = ("import", "load", "check", "plan", "digest")
FLOOR: Final = ("import", "read", "dump")
_KIB: Final = 1024


class _Laps:
    """Processor seconds of each part."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._before = 0.0

    def end(self, part: str) -> None:
        """What went by since the last part was this one."""
        now = time.process_time()
        self.seconds[part] = now - self._before
        self._before = now


def _railyard(file: Path, laps: _Laps) -> None:
    from components.checks.site import check_loaded  # noqa: PLC0415 - the import is measured
    from components.plan.make import make_plan  # noqa: PLC0415 - the import is measured
    from components.reading.load import load_site  # noqa: PLC0415 - the import is measured

    laps.end("import")
    loaded = load_site(file)
    laps.end("load")
    spec = check_loaded(loaded, str(file)).spec_or_raise()
    laps.end("check")
    plan = make_plan(spec, "bench")
    laps.end("plan")
    _say(plan.digest, sys.stderr)
    laps.end("digest")


def _floor(file: Path, laps: _Laps) -> None:
    import yaml  # noqa: PLC0415 - the import is measured

    laps.end("import")
    value: object = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
    laps.end("read")
    json.dumps(value)
    laps.end("dump")


def _say(text: str, stream: TextIO = sys.stdout) -> None:
    stream.write(f"{text}\n")
    stream.flush()


TOOLS: Final[dict[str, Callable[[Path, _Laps], None]]] = {"Railyard": _railyard, "floor": _floor}


def measure(tool: str, file: Path) -> tuple[dict[str, float], float]:
    """Run one tool on one file in a process of its own.

    Returns:
        Processor seconds by part, and the most memory in MiB.
    """
    done = subprocess.run(
        [sys.executable, "-m", "bench.site_cost", "--inner", tool, str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = cast("dict[str, float]", json.loads(done.stdout))
    memory_mib = found.pop("memory_mib")
    return found, memory_mib


def _inner(tool: str, file: Path) -> None:
    laps = _Laps()
    TOOLS[tool](file, laps)
    memory_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB
    _say(json.dumps({**laps.seconds, "memory_mib": memory_mib}))


def report(hosts: int, rails: int, folder: Path) -> str:
    """Measure one site beside its floor, and say it in a few lines."""
    file = folder / f"{hosts}-{rails}.yaml"
    file.write_text(site_text(hosts, FORMS[rails]))
    switches = count_switches(hosts, FORMS[rails])
    ours, our_mib = measure("Railyard", file)
    floor, floor_mib = measure("floor", file)
    total, least = sum(ours.values()), sum(floor.values())
    parts = ", ".join(f"{part} {ours[part]:.2f}" for part in PARTS)
    return (
        f"{hosts} hosts, {rails} rails, {switches} switches, {file.stat().st_size / _KIB:.0f} KiB\n"
        f"  Railyard {total:6.2f} s {our_mib:6.0f} MiB  ({parts})\n"
        f"  floor    {least:6.2f} s {floor_mib:6.0f} MiB  (read and dump by C)\n"
        f"  ratio    {total / least:6.2f}   {our_mib / floor_mib:6.2f}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print each site as soon as it is done."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=[100, 1000, 2000])
    parser.add_argument("--rails", type=int, nargs="+", choices=tuple(FORMS), default=[2, 8])
    parser.add_argument("--inner", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.inner:
        _inner(chosen.inner[0], Path(chosen.inner[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        for rails in chosen.rails:
            for hosts in chosen.hosts:
                _say(report(hosts, rails, Path(folder)))


if __name__ == "__main__":
    main()
