"""Each instance of the emulated cloud is a lab host that comes and goes."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from typing import Final

from components.catalogue.environments import InstanceType, find_type
from components.core.record import record
from lab.cloud.adapters import adapters
from lab.cloud.crusoe.instances import Event, MadeInstance
from lab.cloud.crusoe.server import CrusoeCloud
from lab.hosts.host import LabHost
from lab.hosts.image import GPU_PACKAGES, OFED_IMAGE, PACKAGES
from lab.hosts.lab_file import CloudLab, LabFile
from lab.views import HostConfig

CHANGE_DEADLINE_S: Final = 60.0
"""A lab host starts or stops in about a second."""


@record
class Yard:
    """Where lab hosts are made and kept."""

    make: Callable[[HostConfig], Awaitable[LabHost]]
    hosts: dict[str, LabHost]
    """Lab hosts by name."""


class Machines:
    """The emulated cloud of a lab, and the hosts that play its instances."""

    def __init__(self, lab: LabFile, cloud: CloudLab, yard: Yard) -> None:
        """Make the cloud; it does not listen yet."""
        self._lab, self._config, self._yard = lab, cloud, yard
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = False
        self._waiting: list[MadeInstance] | None = None
        self.cloud = CrusoeCloud(cloud.api, lab.root / "cloud.json", self._on_instance)

    async def start(self) -> None:
        """Listen, and start the hosts of the instances that are there, all at once.

        One after another would not do: a server of three waits for a second one to come up.
        """
        there: list[MadeInstance] = []
        self._waiting = there
        await asyncio.to_thread(self.cloud.start)
        self._waiting = None
        self._loop = asyncio.get_running_loop()
        await asyncio.gather(*(self._create(instance) for instance in there))

    async def stop(self) -> None:
        """Stop listening; the hosts stop with those of the lab."""
        self._stopping = True
        await asyncio.to_thread(self.cloud.stop)

    def _on_instance(self, event: Event) -> None:
        """Called in a thread of the cloud's server; it answers when the machine has changed."""
        if self._waiting is not None:
            self._waiting.append(event.instance)
        if self._loop is None or self._stopping:
            return
        changes = {"created": self._create, "stopped": self._stop, "deleted": self._delete}
        change = changes[event.what](event.instance)
        waiting = asyncio.run_coroutine_threadsafe(change, self._loop)
        waiting.result(CHANGE_DEADLINE_S)

    async def _create(self, instance: MadeInstance) -> None:
        host = await self._yard.make(self._host_config(instance))
        self._yard.hosts[instance.name] = host
        host.put_behind(lambda: self.cloud.lets_in(instance.id, self._config.ssh_port))
        await host.start()

    async def _stop(self, instance: MadeInstance) -> None:
        host = self._yard.hosts.pop(instance.name, None)
        if host is not None:
            await host.stop()

    async def _delete(self, instance: MadeInstance) -> None:
        await self._stop(instance)
        # Its disk goes with it, also that of one that was stopped before.
        root = self._lab.root / "hosts" / instance.name
        await asyncio.to_thread(shutil.rmtree, root, ignore_errors=True)

    def _host_config(self, instance: MadeInstance) -> HostConfig:
        kind = find_type(instance.type) or InstanceType(instance.type)
        return HostConfig(
            name=instance.name,
            address=instance.public_ip,
            port=self._config.ssh_port,
            user=self._config.ssh_user,
            authorized_key=instance.ssh_public_key,
            host_key_seed=f"{self._lab.stack}/{instance.id}",
            gpus=kind.gpus,
            hcas=adapters(kind.hcas, kind.rate_gbit_s),
            topology_file=kind.topology_file,
            # Its GPU image carries NVIDIA's drivers and toolkit (Crusoe's documentation of images).
            driver=OFED_IMAGE if "nvidia" in instance.image else "",
            packages=GPU_PACKAGES if "nvidia" in instance.image else PACKAGES,
        )
