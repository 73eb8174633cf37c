"""`counterpoll wredqueue …`: how people switch on the counting of marked packets.

Source: the project's doc/qos/ECN_and_WRED_statistics_HLD.md; nothing polls them before.
"""

from __future__ import annotations

from typing import Final

from lab.switches.sonic.database import Database
from lab.switches.sonic.tools import CommandError

WRED_SINCE: Final = 202505
"""First branch with them: sonic-utilities 2807; the project's issue 1222 has the branch."""


def run_counterpoll(database: Database, branch: int, words: list[str]) -> str:
    """Run one command; groups beside this one are not modelled.

    Raises:
        CommandError: It is unknown, as all of it is to an older release.
    """
    match words:
        case ["counterpoll", "wredqueue", ("enable" | "disable") as status] if branch >= WRED_SINCE:
            database.merge("FLEX_COUNTER_TABLE", "WRED_ECN_QUEUE", {"FLEX_COUNTER_STATUS": status})
            return ""
        case _:
            usage = 'Usage: counterpoll [OPTIONS] COMMAND [ARGS]...\nTry "counterpoll -h" for help.'
            raise CommandError(f'{usage}\n\nError: No such command "{" ".join(words[1:])}".', 2)
