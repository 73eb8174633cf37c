"""`make down`: stop the lab of one stack, or of all, by the process ids it recorded."""

from __future__ import annotations

import sys
from pathlib import Path

from lab import control
from lab.site import name_site

PROJECT = Path(__file__).parents[1]


def main(arguments: list[str]) -> int:
    """Stop the lab of one stack, or every lab of this clone.

    Args:
        arguments: At most one: what `SITE=` names, or a stack.
    """
    labs = PROJECT / ".lab"
    if arguments:
        roots = [labs / name_site(arguments[0])[0]]
    else:
        roots = sorted(path.parent for path in labs.glob("*/lab.json"))
    for root in roots:
        control.stop(root)
        print(f"railyard: the lab of stack {root.name} is stopped")
    if not roots:
        print("railyard: no lab is running")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
