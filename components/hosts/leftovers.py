"""What `destroy` cannot take back on a host, or not at once: said by `railyard plan` beforehand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_STAYS: Final = {
    r"driver\.kind=(?!inbox$)": "the RDMA driver",
    r"docker\.engine=": "docker.io (stopped and disabled where no container is left)",
    r"docker\.toolkit=": "nvidia-container-toolkit",
    r"user\.": "the home folder of its account",
}
"""Setting to what it may have made. Another may need it by now, so it stays."""
_UNTIL_RESTART: Final = {
    r"nic\.[^=]*\.(ats|fw_\w+)=": "firmware settings of the cards",
    r"kernel\.cmdline\.": "kernel boot parameters (by hand where there is no update-grub)",
    r"kernel\.rdma_netns=": "the namespace mode of RDMA devices",
}
"""Setting to what goes back to its recorded value for the next start, and stays until then."""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """In words, what an undo leaves on one host."""

    stays: tuple[str, ...]
    """For good, where this stack made or installed it."""
    until_restart: tuple[str, ...]
    """Are put back, and what runs is as before until the host or the card starts again."""


def leftovers(settings: Mapping[str, str]) -> Leftovers:
    """What the undo of these settings leaves.

    Args:
        settings: The wanted state of a host.
    """
    lines = [f"{key}={value}" for key, value in settings.items()]
    return Leftovers(_found(_STAYS, lines), _found(_UNTIL_RESTART, lines))


def _found(table: Mapping[str, str], lines: list[str]) -> tuple[str, ...]:
    return tuple(
        words for pattern, words in table.items() if any(re.match(pattern, line) for line in lines)
    )
