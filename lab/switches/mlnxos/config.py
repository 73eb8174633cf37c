"""What an emulated MLNX-OS switch holds: subnet manager and partitions, saved and running.

Factory: no subnet manager runs (the vendor's manual), its priority is 0 (public notes), and there
is one partition, Default, with every port in it (a capture): docs/explanation/sources.md#mlnx-os.
"""

from __future__ import annotations

from typing import Literal

from components.core.errors import UsageError
from lab.switches.onyx.config import CliConfig, SavedAndRunning
from lab.switches.stored import Part

MemberKind = Literal["full", "limited", "both"]
DEFAULT = "Default"
DEFAULT_PKEY = 0x7FFF
FACTORY_ENGINE = "minhop"
PORTS_BY_MODEL = {
    "QM8700": (tuple(f"1/{port}" for port in range(1, 41)), 200, "hdr"),
    "QM9700": (tuple(f"1/{cage}/{part}" for cage in range(1, 33) for part in (1, 2)), 400, "ndr"),
}
"""Model to its ports, their rate in Gbit/s and the word for it (NVIDIA's data sheets)."""


class Partition(Part):
    """One partition, as configured."""

    pkey: int
    ipoib: bool = False
    mtu: str | None = None
    rate: int | None = None
    defmember: Literal["full", "limited"] | None = None
    """Membership of ports that are added without a word of it."""
    members: dict[str, MemberKind] = {}
    """GUID of 16 digits or `ALL` to membership."""


class Config(CliConfig):
    """A whole configuration: what is running, or what the next boot will load."""

    sm: bool = False
    """`ib sm`: the function as such."""
    nodes: dict[str, bool] = {}
    """`ib smnode NAME enable`: node to whether its subnet manager is enabled."""
    sm_priority: int = 0
    routing_engine: str | None = None
    partitions: dict[str, Partition] = {
        DEFAULT: Partition(pkey=DEFAULT_PKEY, ipoib=True, members={"ALL": "full"})
    }
    shut: list[str] = []
    """Ports that are shut."""

    @property
    def sm_runs(self) -> bool:
        """Both settings must be on (a report of an SX6036 whose `ib sm` alone started nothing)."""
        return self.sm and self.nodes.get(self.hostname, False)


Stored = SavedAndRunning[Config]


def factory_config(hostname: str, model: str) -> Config:
    """The configuration of a switch that nobody has touched.

    Raises:
        UsageError: The lab does not know this model.
    """
    if model not in PORTS_BY_MODEL:
        known = sorted(PORTS_BY_MODEL)
        raise UsageError(f"the lab has no InfiniBand switch model {model!r}; it has {known}")
    return Config(hostname=hostname, nodes={hostname: False})
