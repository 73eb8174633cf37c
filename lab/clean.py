"""`make clean`: forget the lab and its stacks, unless a stack is there that is not of the lab.

Runs without the project's environment, which may be gone.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

STATES = Path(".pulumi/backend/.pulumi/stacks")
"""Where Pulumi keeps the states of a file backend: a folder a project, a file a stack."""
OWN_PROJECT = "railyard"
USAGE = 2


def strangers(checkout: Path) -> tuple[str, ...]:
    """The stacks with a state here that no `make up` wrote, as `project/stack`."""
    found: list[str] = []
    for file in sorted((checkout / STATES).glob("*/*")):
        stack, dot, suffix = file.name.partition(".json")
        if not dot or suffix not in {"", ".gz"}:
            continue  # Pulumi keeps the state before the last change and its attributes beside it
        project = file.parent.name
        if project != OWN_PROJECT or not (checkout / ".lab" / stack / "lab.json").is_file():
            found.append(f"{project}/{stack}")
    return tuple(found)


def clean(checkout: Path) -> int:
    """Delete what the lab wrote.

    Returns:
        0, or 2 where nothing was deleted because of a stack that is not of the lab.
    """
    kept = strangers(checkout)
    if kept:
        name = kept[0].rpartition("/")[2]
        print(
            f"make clean would delete the state of {', '.join(kept)}, and `make up` made no such"
            " stack. Nothing was deleted.\n"
            f"  fix    move it to a backend of your own: pulumi stack export -s {name} --file"
            " state.json; pulumi login BACKEND; pulumi stack init; pulumi stack import --file"
            f" state.json. Then take it off here: pulumi stack rm --force {name}",
            file=sys.stderr,
        )
        return USAGE
    for folder in (".lab", ".pulumi"):
        shutil.rmtree(checkout / folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(clean(Path.cwd()))
