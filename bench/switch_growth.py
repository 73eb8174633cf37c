"""How Railyard's cost grows with the fabric: `python -m bench.switch_growth --ports 64`.

Sizes go up in one process, eight switches at a time, so that its peak memory after each size tells
whether a larger fabric holds more.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from typing import Final

from bench.switches import PHASES, measure, railyard, wanted_state

AT_ONCE: Final = 8
KIB_PER_MIB: Final = 1024


def main() -> None:
    """Print one row a size and phase."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ports", type=int, default=64)
    parser.add_argument("--sizes", type=int, nargs="+", default=[8, 16, 32, 64])
    chosen = parser.parse_args()
    desired = wanted_state(chosen.ports)
    sys.stdout.write(
        f"{chosen.ports} ports each, {AT_ONCE} switches at a time. CPU is the tool's own.\n\n"
        "| Switches | Phase | Seconds | Lines | Lines a switch | Sessions |\n"
        "|---|---|---|---|---|---|\n"
    )
    for size in chosen.sizes:
        begun = time.process_time()
        costs = measure(railyard, size, desired, AT_ONCE)
        for phase, cost in zip(PHASES, costs, strict=True):
            sys.stdout.write(
                f"| {size} | {phase} | {cost.seconds:.1f} | {cost.lines}"
                f" | {cost.lines / size:.1f} | {cost.sessions} |\n"
            )
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB_PER_MIB
        cpu_s = time.process_time() - begun
        sys.stdout.write(f"| {size} | all, CPU {cpu_s:.1f} s, peak {peak_mib:.0f} MiB | | | | |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
