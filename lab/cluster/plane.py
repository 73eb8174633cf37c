"""A bare Kubernetes control plane of real binaries, on one loopback address.

The flags were run and seen (docs/explanation/kubernetes.md): etcd, kube-apiserver,
kube-controller-manager, kube-scheduler. Service addresses lie in 127.96.0.0/16, because the API
server dials them itself (webhooks), and nothing may leave the machine.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from components.core.errors import DeviceError
from components.core.record import field, record
from lab.cluster.api import Api
from lab.cluster.document import Doc
from lab.cluster.etcd_members import EtcdMembers
from lab.cluster.pki import Authority, KeyPair, ensure_token_keys, write_private
from lab.cluster.process import Child, wait_until

SERVICE_RANGE = "127.96.0.0/16"
FIRST_SERVICE_ADDRESS = "127.96.0.1"
ETCD_CLIENT_PORT = 2379
ETCD_PEER_PORT = 2380
CONTROLLER_MANAGER_PORT = 10257
SCHEDULER_PORT = 10259
HEARTBEAT_MS = "300"
ELECTION_MS = "3000"
"""Three times etcd's defaults: two busy cores shall not look like a lost member."""
GARBAGE_PERCENT = "400"
"""How much each program may grow between two collections (Go: 100): a plane is busy at its start
most of all, and a tenth of that went to collections. It takes 670 MB in place of 540."""
ONE_PROCESSOR = "1"
"""Each program runs Go code on one core at a time: no idle thread looks for another's work, and a
plane at rest takes a tenth less."""
API_DEADLINE_S = 60.0
"""3.4 s on two idle cores (sources.md#kubernetes-in-the-lab); a shared machine needs far more."""


@record
class PlaneOptions:
    """What differs between a bare plane and the one inside K3s."""

    tls_sans: Sequence[str] = ()
    api_args: Sequence[str] = field(default=())
    etcd_name: str = "lab"
    initial_cluster: str = ""
    """etcd's members for one that joins; empty for the first one. Data on disk wins over it."""


class ControlPlane:
    """One control plane: its folder, its address and its four processes."""

    def __init__(
        self,
        folder: Path,
        address: str,
        port: int,
        binaries: Mapping[str, Path],
        options: PlaneOptions | None = None,
    ) -> None:
        """Describe a plane; nothing is written or started before `start`.

        Args:
            folder: data, certificates and logs; the data survives a restart.
            address: the loopback address on which every process listens, and nowhere else.
            port: the API server's port.
            binaries: paths by name, as `lab.cluster.build` gives them.
            options: more names for the certificate, more API server flags.
        """
        self.folder = folder
        self.address = address
        self.port = port
        self.server = f"https://{address}:{port}"
        self.kubeconfig = folder / "admin.kubeconfig"
        self._binaries = binaries
        self._options = options or PlaneOptions()
        self._tls = folder / "tls"
        self.children: list[Child] = []

    @property
    def ca(self) -> Authority:
        """The authority of the cluster: API server, clients and kubelets."""
        return Authority(self._tls, "server-ca")

    @property
    def admin(self) -> Api:
        """A client with the rights of `system:masters`."""
        return Api(self.server, self._tls / "server-ca.crt", self._pair("admin"))

    def _pair(self, name: str) -> KeyPair:
        return KeyPair(self._tls / f"{name}.crt", self._tls / f"{name}.key")

    @property
    def members(self) -> EtcdMembers:
        """Etcd's membership, asked from the member of this plane."""
        server = f"https://{self.address}:{ETCD_CLIENT_PORT}"
        return EtcdMembers(Api(server, self._tls / "etcd-ca.crt", self._pair("etcd-client")))

    def start(self) -> None:
        """Start all four processes and wait until the cluster schedules.

        Raises:
            DeviceError: a process ended, or the API was not ready within a minute.
        """
        try:
            self.start_etcd()
            self.start_api()
            self.start_controllers()
        except BaseException:
            self.stop()
            raise

    def start_etcd(self, *, alone: bool = False) -> None:
        """Start etcd and wait until it says something of itself; a learner does too.

        Args:
            alone: Forget all other members: its data goes on as a cluster of one.

        Raises:
            DeviceError: it ended, or did not answer within a minute.
        """
        self._issue_certificates()
        self._launch("etcd", [*self._etcd(), *([("force-new-cluster", None)] if alone else [])])
        self._wait("etcd", self.etcd_answers)

    def etcd_answers(self) -> bool:
        """Whether a member is there at this plane's address."""
        try:
            self.members.status()
        except DeviceError:
            return False
        return True

    def start_api(self) -> None:
        """Start the API server on a member that votes.

        Raises:
            DeviceError: a process ended, or the API was not ready within a minute.
        """
        self._launch("kube-apiserver", self._api_server())
        self._wait("the API server", lambda: self.admin.answers("/readyz"))

    def start_controllers(self) -> None:
        """Start what must run once in a cluster, however many servers that has.

        Before the API is ready, its bootstrap roles do not exist and both would give up.

        Raises:
            DeviceError: a process ended, or the cluster did not schedule within a minute.
        """
        scheduler_server = f"https://{self.address}:{SCHEDULER_PORT}"
        scheduler = Api(scheduler_server, self.ca.files.cert, self._pair("admin"))
        self._launch("kube-controller-manager", self._controller_manager())
        self._launch("kube-scheduler", self._scheduler())
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self._wait("the default service account", lambda: self.admin.answers(account))
        self._wait("the scheduler", lambda: scheduler.answers("/readyz"))

    def stop_named(self, *names: str) -> None:
        """End some of the processes."""
        for child in [child for child in reversed(self.children) if child.name in names]:
            child.stop()
            self.children.remove(child)

    def check_running(self) -> None:
        """Raise `DeviceError` where a process of the plane has ended."""
        for child in self.children:
            child.check_running()

    def _wait(self, what: str, ready: Callable[[], bool]) -> None:
        def check() -> bool:
            self.check_running()
            return ready()

        wait_until(f"{what} at {self.server}", check, API_DEADLINE_S)

    def stop(self) -> None:
        """End the processes in reverse order; takes about 1.4 s."""
        for child in reversed(self.children):
            child.stop()
        self.children.clear()

    def write_kubeconfig(self, path: Path, user: str, group: str = "") -> Path:
        """Write a kubeconfig for a new client certificate.

        Args:
            path: the file to write, mode 0600.
            user: the certificate's CN.
            group: the certificate's O.
        """
        pair = self.ca.issue(self._pair(user.replace(":", "-")), user, group)
        write_private(path, render_kubeconfig(self.server, self.ca.files.cert, pair).encode())
        return path

    def _issue_certificates(self) -> None:
        names = (
            *(self.address, "127.0.0.1", "localhost", FIRST_SERVICE_ADDRESS),
            *("kubernetes", "kubernetes.default", "kubernetes.default.svc"),
            "kubernetes.default.svc.cluster.local",
            *self._options.tls_sans,
        )
        ca, etcd = self.ca, Authority(self._tls, "etcd-ca")
        ca.issue(self._pair("apiserver"), "kube-apiserver", sans=names)
        ca.issue(self._pair("kubelet-client"), "kube-apiserver-kubelet-client", "system:masters")
        local = (self.address, "127.0.0.1", "localhost")
        for component in ("controller-manager", "scheduler"):
            ca.issue(self._pair(component), component, sans=local)
            config = self.folder / f"{component}.kubeconfig"
            self.write_kubeconfig(config, f"system:kube-{component}")
        etcd.issue(self._pair("etcd"), "etcd", sans=local)
        etcd.issue(self._pair("etcd-client"), "kube-apiserver-etcd-client")
        ensure_token_keys(self._tls)
        self.write_kubeconfig(self.kubeconfig, "admin", "system:masters")

    def _launch(self, name: str, flags: Sequence[tuple[str, str | None]]) -> None:
        argv = [str(self._binaries[name])]
        argv += [f"--{key}" if value is None else f"--{key}={value}" for key, value in flags]
        child = Child(name, argv, self.folder / "logs" / f"{name}.log")
        child.start({"GOGC": GARBAGE_PERCENT, "GOMAXPROCS": ONE_PROCESSOR})
        self.children.append(child)

    def _etcd(self) -> list[tuple[str, str | None]]:
        pair = self._pair("etcd")
        client = f"https://{self.address}:{ETCD_CLIENT_PORT}"
        peer = f"https://{self.address}:{ETCD_PEER_PORT}"
        # The source address of every loopback connection is 127.0.0.1, so peers authenticate by
        # certificate alone; the SANs above name 127.0.0.1 for that reason.
        name, joins = self._options.etcd_name, self._options.initial_cluster
        return [
            ("name", name),
            ("data-dir", str(self.folder / "db" / "etcd")),
            ("listen-client-urls", client),
            ("advertise-client-urls", client),
            ("listen-peer-urls", peer),
            ("initial-advertise-peer-urls", peer),
            ("initial-cluster", joins or f"{name}={peer}"),
            ("initial-cluster-state", "existing" if joins else "new"),
            ("heartbeat-interval", HEARTBEAT_MS),
            ("election-timeout", ELECTION_MS),
            *[(key, str(pair.cert)) for key in ("cert-file", "peer-cert-file")],
            *[(key, str(pair.key)) for key in ("key-file", "peer-key-file")],
            ("client-cert-auth", None),
            ("peer-client-cert-auth", None),
            ("trusted-ca-file", str(self._tls / "etcd-ca.crt")),
            ("peer-trusted-ca-file", str(self._tls / "etcd-ca.crt")),
            ("unsafe-no-fsync", None),
            ("log-level", "warn"),
        ]

    def _api_server(self) -> list[tuple[str, str | None]]:
        ca, serving = str(self.ca.files.cert), self._pair("apiserver")
        etcd, kubelet = self._pair("etcd-client"), self._pair("kubelet-client")
        extra = [(arg.partition("=")[0], arg.partition("=")[2]) for arg in self._options.api_args]
        return [
            ("etcd-servers", f"https://{self.address}:{ETCD_CLIENT_PORT}"),
            ("etcd-cafile", str(self._tls / "etcd-ca.crt")),
            ("etcd-certfile", str(etcd.cert)),
            ("etcd-keyfile", str(etcd.key)),
            ("bind-address", self.address),
            ("secure-port", str(self.port)),
            ("advertise-address", self.address),
            ("endpoint-reconciler-type", "none"),
            ("tls-cert-file", str(serving.cert)),
            ("tls-private-key-file", str(serving.key)),
            ("client-ca-file", ca),
            ("anonymous-auth", "false"),
            # K3s and kubespray both allow it; CNI and device plugins need it.
            ("allow-privileged", "true"),
            ("authorization-mode", "Node,RBAC"),
            ("service-account-issuer", "https://kubernetes.default.svc"),
            ("service-account-key-file", str(self._tls / "sa.pub")),
            ("service-account-signing-key-file", str(self._tls / "sa.key")),
            ("service-cluster-ip-range", SERVICE_RANGE),
            ("kubelet-client-certificate", str(kubelet.cert)),
            ("kubelet-client-key", str(kubelet.key)),
            ("kubelet-certificate-authority", ca),
            ("kubelet-preferred-address-types", "InternalIP"),
            *extra,
        ]

    def _delegated(self, name: str, port: int) -> list[tuple[str, str | None]]:
        config, pair = str(self.folder / f"{name}.kubeconfig"), self._pair(name)
        keys = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
        return [
            *[(key, config) for key in keys],
            ("bind-address", self.address),
            ("secure-port", str(port)),
            ("tls-cert-file", str(pair.cert)),
            ("tls-private-key-file", str(pair.key)),
            ("leader-elect", "false"),
        ]

    def _controller_manager(self) -> list[tuple[str, str | None]]:
        return [
            *self._delegated("controller-manager", CONTROLLER_MANAGER_PORT),
            ("service-account-private-key-file", str(self._tls / "sa.key")),
            ("root-ca-file", str(self.ca.files.cert)),
            ("use-service-account-credentials", "true"),
            ("kube-api-qps", "200"),
            ("kube-api-burst", "400"),
            # Longer than a lease of a node (fake_nodes.py): the lab says itself when one is lost.
            ("node-monitor-grace-period", "300s"),
        ]

    def _scheduler(self) -> list[tuple[str, str | None]]:
        return self._delegated("scheduler", SCHEDULER_PORT)


def render_kubeconfig(server: str, ca: Path, pair: KeyPair, name: str = "default") -> str:
    """Render a kubeconfig with its certificates inside, as K3s writes it (JSON is YAML)."""

    def inline(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    cluster: Doc = {"server": server, "certificate-authority-data": inline(ca)}
    user: Doc = {
        "client-certificate-data": inline(pair.cert),
        "client-key-data": inline(pair.key),
    }
    document: Doc = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
        "users": [{"name": name, "user": user}],
    }
    return json.dumps(document, indent=2) + "\n"
