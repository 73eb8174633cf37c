"""The one long-lived lab process of a stack: plays every device and answers a control socket.

`python -m lab.daemon .lab/<stack>/lab.json` runs in the foreground until SIGTERM. Each line on the
socket is one JSON request; each gets one JSON line back: `{"ok": true, …}` or
`{"ok": false, "error": "…"}`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from components.core.errors import RailyardError
from components.core.start import start_quickly


def main(argv: list[str]) -> int:
    """Run the lab of one lab file in the foreground."""
    if len(argv) != 2:  # noqa: PLR2004 - the program and its one argument
        sys.stderr.write("usage: python -m lab.daemon .lab/<stack>/lab.json\n")
        return 2
    start_quickly()
    # Imported here: the start above is for what they import.
    from lab.hosts.lab_file import load_lab_file  # noqa: PLC0415 - see above
    from lab.hosts.namespace import check_prerequisites  # noqa: PLC0415 - the same
    from lab.serving import serve  # noqa: PLC0415 - the same

    try:
        check_prerequisites()
        asyncio.run(serve(load_lab_file(Path(argv[1]))))
    except RailyardError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
