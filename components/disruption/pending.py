"""What waits on a host, as the host itself says it: the lines of `pending` in `service.sh`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from components.core.key_values import parse_state

BOOT: Final = "pending.boot."
DRAIN: Final = "pending.drain."
POWER: Final = "pending.power."
BEGUN: Final = "pending.begun"
IN_SERVICE: Final = "pending.in_service"


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a host waits with."""

    boot_id: str
    begun: str | None
    """Boot id at which an earlier run began to take the host out of service; None where none did,
    and empty where a full disk took no more than the name of its mark."""
    boots: tuple[str, ...]
    """What only a boot loads, in words."""
    drains: tuple[str, ...]
    """What can be set only out of service, in words."""
    ends_vfs: bool = False
    """A card will have no VFs any more, or those that it had before it was ours."""
    powers: tuple[str, ...] = ()
    """What neither a drain nor a reboot loads: firmware that asks for a power cycle."""

    @property
    def words(self) -> list[str]:
        """Everything that waits."""
        return [*self.boots, *self.drains]

    @property
    def names(self) -> list[str]:
        """Devices that udev has not given their names: `nic 0000:05:00.0 boot_rdma a -> b`."""
        return [words for words in self.boots if " boot_name " in words or " boot_rdma " in words]

    @property
    def anything(self) -> bool:
        """Whether there is anything to do."""
        return self.begun is not None or bool(self.words)


def read_waiting(text: str, without: Collection[str] = ()) -> Waiting:
    """Read the answer of `maintain.sh look`.

    Args:
        text: `key=value` lines.
        without: Settings that wait for something else than this host's own boot.

    Raises:
        DeviceError: A line has no `=`.
    """
    passed_over = {f"{DRAIN}{key}" for key in without}
    values = {
        key: value for key, value in parse_state(text).values.items() if key not in passed_over
    }
    return Waiting(
        boot_id=values.get("boot_id", ""),
        begun=values.get(BEGUN),
        boots=waiting_words(values, BOOT),
        drains=waiting_words(values, DRAIN),
        ends_vfs=any(_ends_vfs(key, value) for key, value in values.items()),
        powers=waiting_words(values, POWER),
    )


def waiting_words(values: Mapping[str, str], prefix: str) -> tuple[str, ...]:
    """The lines of one kind, as `nic 0000:05:00.0 vfs 8 -> 4`."""
    return tuple(
        setting_words(key.removeprefix(prefix), value)
        for key, value in sorted(values.items())
        if key.startswith(prefix)
    )


def _ends_vfs(key: str, value: str) -> bool:
    """Of a card that left the file, the host says only that its VFs wait."""
    of_vfs = key.startswith(f"{DRAIN}nic.") and key.endswith(".vfs")
    return of_vfs and (value == "waits" or value.endswith("-> 0"))


def setting_words(key: str, value: str) -> str:
    """A setting as a person reads it: `nic 0000:05:00.0 vfs 8 -> 4`."""
    where, _, setting = key.rpartition(".")
    kind, _, rest = where.partition(".")
    return " ".join(part for part in (kind, rest, setting, value) if part)
