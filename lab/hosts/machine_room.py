"""All devices of one lab, and the answers to control requests about them."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from pydantic import TypeAdapter

from components.core.errors import UsageError
from lab.cloud.machines import Machines, Yard
from lab.hosts import fuse_server
from lab.hosts.compiled import CLIENT, compiled
from lab.hosts.faults import cause_fault
from lab.hosts.gpu_calls import call_on_gpus, gpu_pod
from lab.hosts.gpu_faults import gpu_views
from lab.hosts.host import LabHost
from lab.hosts.lab_file import LabFile
from lab.hosts.model import HostModel
from lab.hosts.port_counts import count_port
from lab.hosts.rootfs import build_tool_folders
from lab.hosts.tool_server import TOOL_NAMES
from lab.hypervisors.guests import Hypervisors
from lab.infiniband.fabric import Fabric
from lab.infiniband.room import IbRoom
from lab.mounts import MOUNT_DEADLINE_S, unmount
from lab.physics.path import Between
from lab.physics.probe import run as run_probe
from lab.physics.request import NicDelta, ProbePod, dump_result, parse_request
from lab.physics.sessions import join
from lab.routing.fabric import make_routing
from lab.sources.server import WEB, Sources
from lab.switches.emulators import EthernetSwitch, RoutingSwitch, SubnetSwitch, make_switch
from lab.views import HcaPort, HostConfig, NicView, PortView

CLOUD = "cloud"
"""How control requests name the emulated cloud."""
PACKET_BYTES = 4096
"""RDMA path MTU: how many bytes of a probe one packet carries."""
WORDS = TypeAdapter(list[str])
Answer = dict[str, object]


Attend = Callable[[LabHost], Awaitable[None]]
"""Makes the lab reachable from inside of a host."""


async def ignore_host(_: LabHost) -> None:
    """A lab without a daemon answers no host."""


class Lab:
    """All devices of one stack."""

    def __init__(self, lab: LabFile) -> None:
        """Make the devices; nothing runs yet."""
        self.file = lab
        self.sources = Sources(lab, lab.sources) if lab.sources else None
        self.mount = lab.root / "sysfs"
        self.hosts = {h.name: LabHost(lab, h, self.mount) for h in lab.hosts}
        yard = Yard(self._make_host, self.hosts)
        self.machines = Machines(lab, lab.cloud, yard) if lab.cloud else None
        self.esxi = Hypervisors(lab.hypervisors, lab.root / "hypervisors", self.hosts)
        self.attend: Attend = ignore_host
        self.models = {name: host.model for name, host in self.hosts.items()}
        state = lab.root / "switches"
        state.mkdir(parents=True, exist_ok=True)
        self.switches = {s.name: make_switch(s, state / f"{s.name}.json") for s in lab.switches}
        self.infiniband = IbRoom(lab.root, lab.plain_switches, lab.ufm)
        self.fabric = self._make_fabric()
        self.routing, self.routes = make_routing(lab.root, lab.switches, self.switches, self._cards)
        if self.routing is None:
            join(self.switches, self._links())
        self._operations: dict[str, Callable[[Mapping[str, object]], Answer]] = {
            "status": lambda _: self.status(),
            "snapshot": lambda _: {"snapshot": self.snapshot()},
            "unmodelled": lambda _: {"unmodelled": self.unmodelled()},
            "counted": lambda _: {"counted": {n: h.counted() for n, h in self.hosts.items()}},
            "fabric": lambda _: {"pids": self.fabric.pids if self.fabric else {}},
            "routes": self._routes,
            "nics": self._nics,
            "ports": self._ports,
            "gpu_call": self._gpu_call,
        }

    async def start(self) -> None:
        """Start every device; switches first, as in a machine room."""
        build_tool_folders(self.file.root / "sysroot", TOOL_NAMES, compiled(CLIENT))
        if self.sources:
            self.sources.start()
        for switch in self.switches.values():
            await switch.start()
        if self.fabric is not None:
            await self.fabric.start()
        self.infiniband.start(self.fabric)
        if self.routing is not None:
            await self.routing.start()
        if self.hosts or self.machines:
            await mount_sysfs(self.models, self.mount)
            bare = [host for host in self.hosts.values() if not host.config.guest]
            await asyncio.gather(*(host.start() for host in bare))
        await self.esxi.start()
        if self.machines:
            await self.machines.start()

    async def _make_host(self, config: HostConfig) -> LabHost:
        """A machine that was not there when the lab began."""
        host = LabHost(self.file, config, self.mount)
        self.models[config.name] = host.model
        await self.attend(host)
        return host

    async def stop(self) -> None:
        """Stop every device and unmount."""
        if self.machines:
            await self.machines.stop()
        await self.esxi.stop()
        await asyncio.gather(*(host.stop() for host in self.hosts.values()))
        for switch in self.switches.values():
            await switch.stop()
        self.infiniband.stop()
        if self.fabric is not None:
            self.fabric.stop()
        if self.routing is not None:
            self.routing.stop()
        if self.sources:
            self.sources.stop()
        unmount(self.mount)

    async def answer(self, request: Mapping[str, object]) -> Answer:
        """Answer one control request.

        Raises:
            UsageError: The request asks for what there is not.
        """
        match request:
            case {"op": "fault", "device": str(name), "args": args}:
                before = self._shapes()
                text = await self._fault(name, WORDS.validate_python(args))
                if self._shapes() != before:
                    await asyncio.sleep(fuse_server.FORGOTTEN_S)
                return {"text": text}
            case {"op": "reboot", "device": str(name)} if name in self.esxi.hosts:
                await self.esxi.hosts[name].reboot()
                return {"boot_id": str(self.esxi.hosts[name].machine.stored.boot_time_s)}
            case {"op": "reboot", "device": str(name)}:
                await self.host(name).reboot()
                return {"boot_id": self.host(name).model.boot_id}
            case {"op": "run_probe"}:
                return await self._run_probe(request)
            case {"op": str(name)} if name in self._operations:
                return self._operations[name](request)
            case _:
                raise UsageError(f"the lab knows no request {json.dumps(request)[:200]}")

    def _shapes(self) -> list[object]:
        return [model.shape() for model in self.models.values()]

    def status(self) -> Answer:
        """A short summary of every device."""
        return {
            "stack": self.file.stack,
            "pid": os.getpid(),
            "routes": self.routes,
            "hosts": [host.status() for host in self.hosts.values()],
            "hypervisors": [
                {"name": h.name, "address": f"{h.address}:{h.port}"} for h in self.file.hypervisors
            ],
            "switches": [
                {"name": s.name, "address": f"{s.address}:{s.port}"} for s in self.file.switches
            ],
        }

    def snapshot(self) -> Answer:
        """The state of every device in canonical form."""
        cloud: Answer = {CLOUD: self.machines.cloud.snapshot()} if self.machines else {}
        parts: Answer = cloud | self.infiniband.snapshot()
        return parts | {
            "hosts": {name: host.snapshot() for name, host in sorted(self.hosts.items())},
            "hypervisors": {n: each.snapshot() for n, each in sorted(self.esxi.hosts.items())},
            "switches": {name: s.snapshot() for name, s in sorted(self.switches.items())},
        }

    def unmodelled(self) -> dict[str, list[str]]:
        """Commands that no emulation knows, by device."""
        hosts = {name: list(host.model.unmodelled) for name, host in self.hosts.items()}
        if self.machines:
            hosts[CLOUD] = list(self.machines.cloud.unmodelled)
        hypervisors = {name: list(each.unmodelled) for name, each in self.esxi.hosts.items()}
        return hosts | hypervisors | {n: list(s.unmodelled) for n, s in self.switches.items()}

    def host(self, name: str) -> LabHost:
        """The host with this name.

        Raises:
            UsageError: There is none.
        """
        host = self.hosts.get(name)
        if host is None:
            known = ", ".join((*self.hosts, *self.switches, *self.esxi.hosts))
            raise UsageError(f"the lab has no host {name!r}; its devices: {known}")
        return host

    def _nics(self, request: Mapping[str, object]) -> Answer:
        views = self.host(str(request.get("host"))).nic_views()
        return {"nics": [plain_view(view) for view in views]}

    def _gpu_call(self, request: Mapping[str, object]) -> Answer:
        pod = gpu_pod(request)
        return call_on_gpus(self.host(pod.node).model, pod, loaded=request.get("loaded") is True)

    def _routes(self, request: Mapping[str, object]) -> Answer:
        router = self.routing.routers.get(str(request.get("switch"))) if self.routing else None
        routes = router.routes() if router is not None else ()
        return {"routes": {each.network: sorted(each.interfaces) for each in routes}}

    def _ports(self, request: Mapping[str, object]) -> Answer:
        views = [view for view in self._port_views() if view.switch == request.get("switch")]
        return {"ports": [plain_view(view) for view in views]}

    async def _fault(self, name: str, args: list[str]) -> str:
        if name in self.esxi.hosts:
            return await self.esxi.hosts[name].fault(args)
        if name == CLOUD and self.machines:
            return await asyncio.to_thread(self.machines.cloud.fault, args)
        if name == WEB and self.sources:
            return self.sources.fault(args)
        if name in self.infiniband.names:
            return await asyncio.to_thread(self.infiniband.fault, args)
        switch = self.switches.get(name)
        if switch is None:
            return await self._host_fault(name, args)
        text = switch.fault(args)
        if args[:1] == ["link-down"]:
            await self._far_end(name, *args[1:])
        return text

    async def _host_fault(self, name: str, args: list[str]) -> str:
        text = await cause_fault(self.host(name), args)
        if self.fabric is not None:
            self.fabric.sync()
        if self.routing is not None:
            self.routing.sync_hosts()
        return text

    async def _far_end(self, switch: str, port: str, state: str = "on") -> None:
        """One cable, two ends: the card at the port loses or regains its carrier too."""
        config = next(s for s in self.file.switches if s.name == switch)
        if port not in config.cables:
            return
        host_name, pci = config.cables[port]
        if host_name in self.infiniband.names:
            return
        host = self.host(host_name)
        nic = host.model.nic_by_pci(pci)
        # An InfiniBand port asks its subnet whether the other end is up.
        if nic is not None:
            await cause_fault(host, ["link-down", nic.config.netdev, state])

    def _make_fabric(self) -> Fabric | None:
        """The real programs at the cables of the lab file."""
        subnet = [each for each in self.switches.values() if isinstance(each, SubnetSwitch)]

        def hcas() -> list[HcaPort]:
            return [port for host in self.hosts.values() for port in host.model.ports_on_fabric()]

        fabric = self.infiniband.make_fabric(subnet, hcas, self.file.sm_polling_ms)
        for model in self.models.values():
            model.fabric = fabric
        return fabric

    def _port_views(self) -> list[PortView]:
        views: list[PortView] = []
        for config in self.file.switches:
            switch = self.switches[config.name]
            if isinstance(switch, EthernetSwitch):
                views += [switch.port_view(port) for port in (*config.cables, *config.links)]
        return views

    def _cables(self) -> dict[tuple[str, str], tuple[str, str]]:
        """(Switch, port) to (host, PCI address), with what somebody has plugged elsewhere."""
        cables = {(s.name, port): far for s in self.file.switches for port, far in s.cables.items()}
        for name, switch in self.switches.items():
            for port, (host, device) in switch.recabled.items():
                nics = self.host(host).nic_views()
                far = next((nic.pci for nic in nics if device in {nic.netdev, nic.pci}), None)
                if far is not None:
                    cables[name, port] = (host, far)
        return cables

    def _cards(self) -> dict[tuple[str, str], bool]:
        """Host and network device to whether its end of the cable is up."""
        return {
            (name, nic.config.netdev): nic.link_up
            for name, model in self.models.items()
            for nic in model.nics
        }

    def _links(self) -> dict[tuple[str, str], tuple[str, str]]:
        return {(s.name, port): far for s in self.file.switches for port, far in s.links.items()}

    async def _run_probe(self, request: Mapping[str, object]) -> Answer:
        asked = parse_request(dict(request))
        asked = replace(asked, pods=tuple(map(self._with_gpus, asked.pods)))
        nics = [view for host in self.hosts.values() for view in host.nic_views()]
        hcas = [view for host in self.hosts.values() for view in host.hca_views()]
        ports = self._port_views()
        routers = (s.router_view() for s in self.switches.values() if isinstance(s, RoutingSwitch))
        views = tuple(routers)
        if self.routing is not None:
            self.routing.sync_all()
            views = await asyncio.to_thread(self.routing.with_routes, views)
        wires = (self._cables(), hcas, Between(self._links(), views))
        result = await asyncio.to_thread(run_probe, asked, nics, ports, *wires)
        for nic_delta in result.nic_deltas:
            self._count_nic(nic_delta)
        for port_delta in result.port_deltas:
            count_port(self.switches[port_delta.switch], port_delta)
        return dump_result(result)

    def _with_gpus(self, pod: ProbePod) -> ProbePod:
        model = self.models.get(pod.node)
        return replace(pod, gpu_views=gpu_views(model)[: pod.gpus]) if model else pod

    def _count_nic(self, delta: NicDelta) -> None:
        model = self.host(delta.host).model
        if model.count_hca(delta.pci, sum(delta.rx_bytes.values()), sum(delta.tx_bytes.values())):
            return
        nic = model.nic_by_pci(delta.pci)
        if nic is None:
            raise UsageError(f"{delta.host} has no card {delta.pci}")
        for direction, amounts in (("rx", delta.rx_bytes), ("tx", delta.tx_bytes)):
            for priority, amount in amounts.items():
                nic.add_counter(f"{direction}_prio{priority}_bytes", amount)
                packets = -(-amount // PACKET_BYTES)
                nic.add_counter(f"{direction}_prio{priority}_packets", packets)
                nic.add_counter(f"{direction}_bytes_phy", amount)
        for priority, frames in delta.rx_pauses.items():
            nic.add_counter(f"rx_prio{priority}_pause", frames)
        # Pods send through VFs, and each function counts its own queue pairs.
        held = nic.vfs[0].hw_counters if nic.vfs else nic.hw_counters
        for name in ("out_of_sequence", "local_ack_timeout_err"):
            held[name] = held.get(name, 0) + getattr(delta, name)


def plain_view(view: NicView | PortView) -> Answer:
    """A view as JSON takes it: sets as sorted lists, so that two runs give the same text."""
    names = ("pfc_priorities", "ecn_priorities", "allowed_vlans")
    found: dict[str, frozenset[int]] = {n: getattr(view, n) for n in names if hasattr(view, n)}
    answer: Answer = asdict(view)
    answer.update({name: sorted(values) for name, values in found.items()})
    return answer


async def mount_sysfs(models: Mapping[str, HostModel], mount: Path) -> None:
    """Mount the hosts' /sys and wait until it answers.

    Raises:
        UsageError: It did not come up in time.
    """
    unmount(mount)
    refused = f"the lab's /sys could not be mounted at {mount}"
    try:
        fuse_server.serve(models, mount)
    except OSError as error:
        raise UsageError(f"{refused}: {error}; is /dev/fuse there?") from error
    async with asyncio.timeout(MOUNT_DEADLINE_S):
        if not await asyncio.to_thread(os.path.ismount, mount):
            raise UsageError(f"{refused}: nothing is mounted there")
