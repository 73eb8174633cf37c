"""The InfiniBand of a running lab: its fabric, and the UFM that manages it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from components.core.errors import UsageError
from lab.debian import unpacked_whole
from lab.infiniband.config import UFM_PCI, PlainSwitchConfig, UfmLab
from lab.infiniband.fabric import FOLDER, Fabric
from lab.infiniband.topology import hca_node, node_guid
from lab.infiniband.ufm import Ufm, UfmServer
from lab.infiniband.ufm_state import cause_fault, load, manager_of, save
from lab.keys import certificate
from lab.switches.emulators import SubnetSwitch
from lab.views import HcaPort, ManagerView, SubnetView


def plain_view(switch: PlainSwitchConfig) -> SubnetView:
    """A switch without a login: all of its ports are on, and it manages nothing."""
    return SubnetView(
        switch=switch.name,
        guid=node_guid(switch.name),
        model=switch.model,
        rate_gbit_s=switch.rate_gbit_s,
        sm_runs=False,
        sm_priority=0,
        routing_engine="",
        partitions=(),
        ports=switch.ports,
        up=frozenset((*switch.cables, *switch.links)),
        cables=switch.cables,
        links=switch.links,
    )


class UfmPlace:
    """One emulated UFM: its state on disk, its API, and its HCA on the fabric."""

    def __init__(self, config: UfmLab, root: Path) -> None:
        """Load the state of last time, or start without a partition."""
        self.config = config
        self._folder = root / "ufm"
        self._folder.mkdir(parents=True, exist_ok=True)
        users = {config.user: (config.password, "System_Admin")}
        self.ufm = load(self._folder / "state.json", Ufm(users, on_change=self._changed))
        self._server: UfmServer | None = None
        self.on_change: Callable[[], None] = lambda: None

    def _changed(self) -> None:
        save(self.ufm, self._folder / "state.json")
        self.on_change()

    @property
    def hca(self) -> HcaPort:
        """The port by which it reaches its fabric."""
        config = self.config
        return HcaPort(
            config.name, "mlx5_0", UFM_PCI, config.guid, config.rate_gbit_s, link_up=True
        )

    def managers(self) -> tuple[ManagerView, ...]:
        """Its subnet manager, which always runs."""
        return (manager_of(self.ufm, self.config.name, hca_node(self.config.guid)),)

    def start(self) -> None:
        """Listen."""
        pair = certificate(self.config.certificate_seed, self.config.address)
        files = self._folder / "server.pem", self._folder / "server.key"
        for file, text in zip(files, (pair.certificate_pem, pair.key_pem), strict=True):
            file.write_text(text)
        server = UfmServer(self.ufm, *files, self.config.address, self.config.port)
        self._server = server.__enter__()

    def stop(self) -> None:
        """End."""
        if self._server is not None:
            self._server.__exit__()
            self._server = None

    def fault(self, args: Sequence[str]) -> str:
        """Change it by hand, and say in words what was done."""
        return cause_fault(self.ufm, args)


class IbRoom:
    """Fabric and UFM of one lab."""

    def __init__(
        self, root: Path, switches: Iterable[PlainSwitchConfig], ufm: UfmLab | None
    ) -> None:
        """Nothing runs yet."""
        self._root = root
        self._plain = tuple(plain_view(each) for each in switches)
        self.ufm = UfmPlace(ufm, root) if ufm else None

    def make_fabric(
        self,
        switches: Sequence[SubnetSwitch],
        hcas: Callable[[], Iterable[HcaPort]],
        polling_ms: int,
    ) -> Fabric | None:
        """The real programs at the cables of the lab file; None without an InfiniBand switch."""
        if not switches and not self._plain:
            return None
        ufm = self.ufm

        def look() -> tuple[tuple[SubnetView, ...], tuple[HcaPort, ...]]:
            views = (*(switch.subnet_view() for switch in switches), *self._plain)
            return views, (*hcas(), *((ufm.hca,) if ufm else ()))

        elsewhere = ufm.managers if ufm else tuple[ManagerView, ...]
        folder = self._root / FOLDER
        fabric = Fabric(unpacked_whole(), folder, look, polling_ms, elsewhere)
        for switch in switches:
            switch.on_commit = fabric.sync
        return fabric

    def start(self, fabric: Fabric | None) -> None:
        """Serve UFM's API; what it is given goes to its subnet manager."""
        if self.ufm is not None and fabric is not None:
            loop = asyncio.get_running_loop()
            self.ufm.on_change = lambda: _sync_in(loop, fabric)
            self.ufm.start()

    def stop(self) -> None:
        """End the API."""
        if self.ufm is not None:
            self.ufm.stop()

    def snapshot(self) -> dict[str, object]:
        """The state of UFM in canonical form; nothing where there is none."""
        return {"ufm": self.ufm.ufm.snapshot()} if self.ufm else {}

    @property
    def names(self) -> tuple[str, ...]:
        """Its devices that a fault can be caused on."""
        return (self.ufm.config.name,) if self.ufm else ()

    def fault(self, args: Sequence[str]) -> str:
        """Change UFM by hand, and say in words what was done.

        Raises:
            UsageError: It is no such change, or there is no such partition or member.
        """
        try:
            return self.ufm.fault(args) if self.ufm else ""
        except (KeyError, ValueError) as error:
            raise UsageError(f"UFM has no {error}") from error


def _sync_in(loop: asyncio.AbstractEventLoop, fabric: Fabric) -> None:
    """The API answers in threads of its own; the fabric belongs to the loop."""

    async def sync() -> None:
        fabric.sync()

    asyncio.run_coroutine_threadsafe(sync(), loop).result()
