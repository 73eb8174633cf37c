"""The story's step about DHCP: the plan's daemon on real nodes, and a real server on the rail.

The server is udhcpd of busybox (Debian's build of 1.35). It starts only once a pod asks: until then
no server answers, and the pod waits. How a silent server ends was seen once on these nodes, after
208 s; the story does not wait for it.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.cluster.document import text_at, texts_at
from lab.cluster.process import Child
from lab.pods.network import ip
from lab.pods.pods import PodWish, await_phase, call_inside, create, delete, log_of, network_status
from lab.pods.site import SITE, PodSite, load_plan
from lab.pods.tree import busybox
from lab.vm.judging import StoryError

DAEMON: Final = "dhcp-cni"
SERVER: Final = "10.106.156.1"
FIRST: Final = ipaddress.IPv4Address("10.106.156.100")
LAST: Final = ipaddress.IPv4Address("10.106.156.119")
LEASE_S: Final = 600
DEADLINE_S: Final = 180.0
_SETS: Final = "/apis/apps/v1/namespaces/kube-system/daemonsets"
_PODS: Final = "/api/v1/namespaces/kube-system/pods"
_ACQUIRES: Final = "acquiring lease"
"""What the daemon v1.9.1 logs when the plugin asks it."""
_EDITS: Final = (
    ("ipam: whereabouts", "ipam: dhcp"),
    ("network: macvlan156}", f"network: macvlan156, dhcp_server: {SERVER}}}"),
)
"""What a user changes in the site's file."""


@dataclass(slots=True)
class Leases:
    """The step, and the server while it runs."""

    site: PodSite

    def by_dhcp(self) -> str:
        """The site with `ipam: dhcp`: a pod waits for the server, then both pods have leases."""
        _, plan = load_plan(self._edited())
        rail = self.site.rails[0]
        ip("address", "add", f"{SERVER}/24", "dev", rail.bridge)
        server = self._server(rail.bridge)
        try:
            self.site.apply_all(plan.pod_network.manifests)
            self.site.wait(
                f"DaemonSet {DAEMON}", lambda: self.site.daemons_ready(DAEMON), DEADLINE_S
            )
            said = self._ask(server)
        finally:
            server.stop()
            ip("address", "del", f"{SERVER}/24", "dev", rail.bridge)
        self._take_back()
        return said

    def _edited(self) -> Path:
        text = SITE.read_text()
        for old, new in _EDITS:
            if old not in text:
                raise StoryError(f"{SITE.name} has no {old!r} to change")
            text = text.replace(old, new)
        path = self.site.folder / "dhcp.yaml"
        path.write_text(text)
        return path

    def _server(self, interface: str) -> Child:
        folder = self.site.folder / "dhcp"
        folder.mkdir(exist_ok=True)
        (folder / "leases").touch()
        config = folder / "udhcpd.conf"
        config.write_text(
            f"start {FIRST}\nend {LAST}\ninterface {interface}\nmax_leases 20\n"
            f"lease_file {folder}/leases\npidfile {folder}/pid\n"
            f"opt subnet 255.255.255.0\nopt lease {LEASE_S}\n"
        )
        words = [str(busybox()), "udhcpd", "-f", str(config)]
        return Child("udhcpd", words, self.site.folder / "udhcpd.log")

    def _ask(self, server: Child) -> str:
        network = self.site.spec.rails[0].network
        names = [f"leased-{node.name}" for node in self.site.nodes]
        first, last = (
            PodWish(name, node.name, network)
            for name, node in zip(names, self.site.nodes, strict=True)
        )
        create(self.site, first)
        self.site.wait("the daemon to be asked", self._is_asked, DEADLINE_S)
        waited = text_at(await_phase(self.site, first.name, ("Pending",)), "status", "phase")
        server.start()
        create(self.site, last)
        statuses = [network_status(await_phase(self.site, name, ("Running",))) for name in names]
        server.check_running()
        given = [ipaddress.IPv4Address(texts_at(each[1], "ips")[0]) for each in statuses]
        if not all(FIRST <= address <= LAST for address in given) or given[0] == given[1]:
            raise StoryError(f"the server has {FIRST} to {LAST}, the pods have {given}")
        for target in (SERVER, str(given[1])):
            code, words = call_inside(
                self.site, first.name, "ping", "-c", "2", "-I", "net1", target
            )
            if code:
                raise StoryError(f"{first.name} does not reach {target} over net1: {words}")
        for name in names:
            delete(self.site, name)
        return (
            f"{waited} while no server answered; then {given[0]} and {given[1]}, which udhcpd gave;"
            " they reach each other"
        )

    def _is_asked(self) -> bool:
        pods = self.site.api.items(_PODS)
        names = [
            text_at(pod, "metadata", "name")
            for pod in pods
            if text_at(pod, "metadata", "name").startswith(f"{DAEMON}-")
        ]
        return any(_ACQUIRES in log_of(self.site, name, DAEMON, "kube-system") for name in names)

    def _take_back(self) -> None:
        self.site.apply_all(self.site.plan.pod_network.manifests)
        self.site.api.request("DELETE", f"{_SETS}/{DAEMON}")
