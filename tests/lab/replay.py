"""Stands in for `pulumi up`: writes a recorded event log in pieces, as the engine does.

With the status `hang` it does not end by itself.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path


def main(recorded: str, status: str, pieces: str, arguments: list[str]) -> int:
    """Write the log to where `--event-log` says, and end with the status."""
    log = Path(arguments[arguments.index("--event-log") + 1])
    text = Path(recorded).read_text()
    size = max(1, len(text) // int(pieces))
    with log.open("w") as file:
        for start in range(0, len(text), size):
            file.write(text[start : start + size])
            file.flush()
    print("what the engine prints")  # noqa: T201 - the engine prints, too
    if status == "hang":
        signal.pause()
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]))
