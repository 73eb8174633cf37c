"""The story's steps about pods with VFs: real plugins, a rail's VLAN, RDMA between pods."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from components.acceptance.probes.probe_job import perftest_command
from components.core.errors import DeviceError
from components.pod_network.attachment import NETWORKS, rail_attachment, server_address
from lab.cluster.document import Doc, docs_at, pairs_at
from lab.pods.configs import K3S
from lab.pods.pods import (
    PodWish,
    await_event,
    await_phase,
    call_inside,
    create,
    delete,
    network_status,
)
from lab.pods.site import ClusterSite
from lab.vm import rdma
from lab.vm.adapted import CHANGES, NOT_KNOWN, adapt
from lab.vm.drifts import PF
from lab.vm.guest import demand, run_as_root
from lab.vm.judging import StoryError, describe_findings, require_nothing
from lab.vm.node import GuestNode

DAEMONS_DEADLINE_S: Final = 120.0
PERFTEST_DEADLINE_S: Final = 120.0
ANSWER_DEADLINE_S: Final = 30.0
SERVER: Final = "server"
CLIENT: Final = "client"
FRAME: Final = 28
"""Bytes of the IPv4 and ICMP headers."""
_VFS: Final = (
    f"ip -j link show {PF}; cd /sys/class/net/{PF}/device; for vf in virtfn*/net/*; do"
    ' [ ! -e "$vf" ] || printf "%s\\n" "$vf"; done'
)
_FACTS: Final = (
    "readlink /sys/class/net/net1/device/driver | sed 's,.*/,,'; cat /sys/class/net/net1/mtu;"
    " env | grep ^PCIDEVICE_"
)
_OTHER_VLAN: Final = 112
_HAS_MULTUS: Final = f"ls {K3S.net_d}/00-multus.conf*"
"""Its container runs before it has written that; a pod made until then has no other network."""


@dataclass(slots=True)
class Pods:
    """The steps, and what was seen."""

    site: ClusterSite[GuestNode]
    vfs: dict[str, int] = field(default_factory=dict[str, int])
    """Pod to the number of its VF."""
    gids: dict[str, str] = field(default_factory=dict[str, str])
    log: str = ""

    @property
    def _pods(self) -> dict[str, GuestNode]:
        return dict(zip((CLIENT, SERVER), self.site.nodes, strict=True))

    def apply_plan(self) -> str:
        """The plan's objects, adapted by name; its DaemonSets run, and the nodes offer VFs."""
        objects = adapt(self.site.plan.pod_network.manifests)
        self.site.apply_all(objects)
        wanted = [each.name for each in objects if each.kind == "DaemonSet"]
        for name in wanted:
            self.site.wait(
                f"DaemonSet {name} on all nodes",
                lambda name=name: self.site.daemons_ready(name),
                DAEMONS_DEADLINE_S,
            )
        for name in (each.name for each in objects if each.kind == "Deployment"):
            self.site.wait(
                f"Deployment {name}",
                lambda name=name: self.site.deployment_ready(name),
                DAEMONS_DEADLINE_S,
            )
        for node in self.site.nodes:
            self.site.wait(
                f"Multus to be the network of pods on {node.name}",
                lambda node=node: run_as_root(node.endpoint, _HAS_MULTUS).exit_status == 0,
                DAEMONS_DEADLINE_S,
            )
        offered = self.site.plan.acceptance.limits.allocatable
        for node, resources in offered.items():
            self.site.wait(
                f"{node} to offer {dict(resources)}",
                lambda node=node, wanted=dict(resources): self._offers(node) == wanted,
                DAEMONS_DEADLINE_S,
            )
        return "\n".join(
            [
                f"ready on all nodes: {', '.join(wanted)}",
                *(f"{node} offers {dict(resources)}" for node, resources in offered.items()),
                *(f"changed: {what} ({why})" for what, why in CHANGES.items()),
                *(f"without effect: {what} ({why})" for what, why in NOT_KNOWN.items()),
            ]
        )

    def _offers(self, node: str) -> dict[str, int]:
        found = pairs_at(self.site.api.find(f"/api/v1/nodes/{node}") or {}, "status", "allocatable")
        prefix = f"{self.site.spec.pod_network.resource_prefix}/"
        return {key: int(str(each)) for key, each in found.items() if key.startswith(prefix)}

    def want_too_much(self) -> str:
        """One more VF than a node has: the real scheduler keeps the pod."""
        rail = self.site.spec.rails[0]
        attachment = rail_attachment(self.site.spec, rail)
        resources = tuple((key, 5) for key in attachment.resources)
        create(self.site, PodWish("greedy", "", rail.network, ("true",), resources))
        said = await_event(self.site, "greedy", "FailedScheduling")
        delete(self.site, "greedy")
        if f"Insufficient {resources[0][0]}" not in said:
            raise StoryError(f"the pod waits for another reason: {said}")
        return said

    def give_vfs(self) -> str:
        """The plan's attachment on a pod of each node: the real plugin moves a VF into it."""
        rail, node_host = self.site.spec.rails[0], self.site.spec.workers[1]
        for name, node in self._pods.items():
            attachment = rail_attachment(
                self.site.spec, rail, server=node_host if name == SERVER else None
            )
            wish = PodWish(
                name,
                node.name,
                attachment.annotations[NETWORKS],
                resources=tuple(attachment.resources.items()),
                devices="/dev/infiniband",
            )
            create(self.site, wish)
        lines: list[str] = []
        for name, node in self._pods.items():
            status = self._second_network(name)
            vfs, links = self._seen(node)
            given = [number for number, vf in vfs.items() if vf == rail.vlan]
            if len(given) != 1 or given[0] in links:
                raise StoryError(
                    f"{name}: VLANs of the VFs of {node.name} are {vfs}, links {links}"
                )
            self.vfs[name] = given[0]
            facts = self._inside(name, _FACTS).split()
            if facts[:2] != ["igbvf", str(self.site.spec.rdma.mtu_bytes)]:
                raise StoryError(f"{name}: net1 has driver and MTU {facts}")
            lines.append(
                f"{name} on {node.name}: VF {given[0]}, VLAN {rail.vlan}, {', '.join(facts)},"
                f" {json.dumps(status)}"
            )
        return "\n".join(lines)

    def _second_network(self, name: str) -> Doc:
        """What Multus says of a pod's VF."""
        networks = network_status(await_phase(self.site, name, ("Running",)))
        if len(networks) != 2:  # noqa: PLR2004 - the cluster's and the rail's
            raise StoryError(f"{name} runs, and has not the cluster's network and a VF: {networks}")
        return networks[1]

    def _seen(self, node: GuestNode) -> tuple[dict[int, int], dict[int, str]]:
        """VF to its VLAN, as the kernel of a guest has them; VF to its name in the node's network.

        The SR-IOV CNI plugin v2.1.0 gives a VF back as `net1` if its first pod got no address.
        """
        card, _, links = demand(node.endpoint, _VFS).partition("\n")
        found = docs_at({"all": json.loads(card)}, "all")[0]
        vfs = {_number(vf, "vf"): _vlan(vf) for vf in docs_at(found, "vfinfo_list")}
        parts = (link.removeprefix("virtfn").split("/") for link in links.split())
        return vfs, {int(number): name for number, _, name in parts}

    def _is_back(self, node: GuestNode, number: int) -> bool:
        vfs, links = self._seen(node)
        return vfs[number] == 0 and number in links

    def reach(self) -> str:
        """Frames as large as planned arrive, larger ones do not, and none of another VLAN."""
        rail, mtu = self.site.spec.rails[0], self.site.spec.rdma.mtu_bytes
        full = ("-M", "do", "-s", str(mtu - FRAME))
        self._await_answer(f"frames of {mtu} bytes to reach the server", *full)
        if self._pings("-M", "do", "-s", str(mtu - FRAME + 1)):
            raise StoryError(f"a frame of {mtu + 1} bytes went over a rail of {mtu}")
        node, number = self._pods[SERVER], self.vfs[SERVER]
        demand(node.endpoint, f"ip link set {PF} vf {number} vlan {_OTHER_VLAN}")
        if self._pings():
            raise StoryError(f"a pod in VLAN {_OTHER_VLAN} answers one in VLAN {rail.vlan}")
        demand(node.endpoint, f"ip link set {PF} vf {number} vlan {rail.vlan}")
        self._await_answer(f"an answer of the server back in VLAN {rail.vlan}")
        return f"frames of {mtu} bytes arrive, of {mtu + 1} not; none from VLAN {_OTHER_VLAN}"

    def _await_answer(self, what: str, *more: str) -> None:
        """Ping again if it fails: ping ends at the first address that ARP does not resolve."""
        self.site.wait(what, lambda: self._pings(*more), ANSWER_DEADLINE_S)

    def _pings(self, *more: str) -> bool:
        words = ("ping", "-q", "-c", "1", "-w", "10", "-I", "net1", *more)
        return call_inside(self.site, CLIENT, *words, self._server_address)[0] == 0

    @property
    def _server_address(self) -> str:
        spec = self.site.spec
        return server_address(spec, spec.rails[0], spec.workers[1])

    def add_rdma(self) -> str:
        """Software RoCE on the VF, made inside of the pod's own network."""
        for name, node in self._pods.items():
            made = f"rdma link add {rdma.DEVICE} type rxe netdev net1\n{rdma.FIND_GID}"
            self.gids[name] = self._inside(name, f"set -e\n{made}").strip()
            if "net1" in demand(node.endpoint, "ls /sys/class/net"):
                raise StoryError(f"net1 of {name} is in the network of {node.name}")
        shown = self._inside(CLIENT, "rdma link").strip()
        return f"{shown}\nGID index {self.gids}"

    def write(self) -> str:
        """The command of the site's own perftest jobs, from pod to pod."""
        self.log = rdma.until_clock(self._write_once)
        (self.site.folder / "ib_write_bw.log").write_text(self.log)
        return self.log.strip()

    def _write_once(self) -> str:
        spec = self.site.spec
        served = rdma.perftest_script("perftest_server", perftest_command(spec), self.gids[SERVER])
        command = perftest_command(spec, self._server_address)
        sent = rdma.perftest_script("perftest_client", command, self.gids[CLIENT])
        with ThreadPoolExecutor(max_workers=1) as pool:
            serving = pool.submit(self._inside, SERVER, served)
            log = self._inside(CLIENT, sent)
            serving.result()
        return log

    def _inside(self, pod: str, script: str) -> str:
        """What a script in a pod printed.

        Raises:
            DeviceError: It failed, and what it said.
        """
        code, said = call_inside(self.site, pod, "sh", "-c", script, deadline_s=PERFTEST_DEADLINE_S)
        if code:
            raise DeviceError(f"{pod}: a script in it ended with {code}: {said[-800:]}")
        return said

    def judge(self) -> str:
        """Parsed and judged: good but for the speed, which is that of the emulation."""
        fraction = self.site.spec.acceptance.perftest_min_fraction
        real = describe_findings(rdma.judge(self.log, fraction))
        if not any("bandwidth: failed" in line for line in real):
            raise StoryError("the judge takes the speed of an emulated card for a real one's")
        lines = describe_findings(rdma.judge(self.log, rdma.EMULATED_FRACTION))
        require_nothing("not passed", [line for line in lines if ": passed" not in line])
        return "\n".join(lines)

    def take_back(self) -> str:
        """The real plugin gives the VFs back, without a VLAN."""
        for name in self._pods:
            self._inside(name, f"rdma link del {rdma.DEVICE}")
            delete(self.site, name)
        lines: list[str] = []
        for name, node in self._pods.items():
            number = self.vfs[name]
            self.site.wait(
                f"VF {number} on {node.name}",
                lambda node=node, number=number: self._is_back(node, number),
                DAEMONS_DEADLINE_S,
            )
            link = self._seen(node)[1][number]
            lines.append(f"{node.name}: VF {number} is back as {link}, without a VLAN")
        return "\n".join(lines)


def _number(vf: Doc, key: str) -> int:
    """0 where it is not said, as `ip` leaves out a VLAN that there is none of."""
    return int(str(vf.get(key, 0)))


def _vlan(vf: Doc) -> int:
    """0 where it has none."""
    tags = docs_at(vf, "vlan_list")
    return _number(tags[0], "vlan") if tags else 0
