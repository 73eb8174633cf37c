"""Print the site of a case: `.venv/bin/python -m tests.checks.show_case mtu-chain`."""

from __future__ import annotations

import sys

from tests.checks.cases import CASES

if __name__ == "__main__":
    sys.stdout.write(CASES[sys.argv[1]].text())
