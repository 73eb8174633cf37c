"""The DaemonSets that put CNI programs where the container runtime of a node looks for them."""

from __future__ import annotations

from components.catalogue.cni_folders import CniPaths
from components.kubernetes.manifest import Body
from components.pod_network.manifests import (
    JsonObject,
    daemon_set,
    host_path,
    mount,
    resources,
)


def sriov_cni_daemon_set(image: str, paths: CniPaths) -> Body:
    """sriov-cni: puts its plugin where K3s looks for it."""
    return _program_daemon_set(
        "sriov-cni",
        image,
        paths,
        {
            "allowPrivilegeEscalation": False,
            "privileged": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    )


def program_daemon_set(name: str, image: str, paths: CniPaths) -> Body:
    """ib-sriov-cni, ipoib-cni or rdma-cni: each puts its program there; upstream's own settings."""
    return _program_daemon_set(name, image, paths, {"privileged": True})


def _program_daemon_set(name: str, image: str, paths: CniPaths, security: JsonObject) -> Body:
    main: JsonObject = {
        "name": name,
        "image": image,
        "resources": resources("100m", "50Mi"),
        "securityContext": security,
        "volumeMounts": [mount("cnibin", "/host/opt/cni/bin")],
    }
    pod: JsonObject = {"containers": [main], "volumes": [host_path("cnibin", paths.bin)]}
    return daemon_set(name, pod)


def reference_cni_daemon_set(
    plugin: str, image: str, paths: CniPaths, *, keep: bool = False
) -> Body:
    """A reference plugin that K3s does not bring, macvlan or tuning: it is put where K3s looks.

    It alone: the image's other plugins would be written over those that K3s links there.

    Args:
        plugin: Name of its program.
        image: Of the reference plugins.
        paths: The CNI folders of every node.
        keep: One that is there stays: the cluster is not ours.
    """
    return daemon_set(
        f"{plugin}-cni",
        {
            "containers": [
                {
                    "name": f"{plugin}-cni",
                    "image": image,
                    "command": [
                        "/bin/sh",
                        "-c",
                        f"set -eu\n{_copied(plugin, keep=keep)}exec sleep infinity\n",
                    ],
                    "resources": resources("100m", "50Mi"),
                    "securityContext": {"privileged": True},
                    "volumeMounts": [mount("cnibin", "/host/opt/cni/bin")],
                }
            ],
            "volumes": [host_path("cnibin", paths.bin)],
        },
    )


def _copied(plugin: str, *, keep: bool) -> str:
    unless = f"[ -x /host/opt/cni/bin/{plugin} ] || {{\n" if keep else ""
    return (
        f"{unless}cp /usr/src/cni/bin/{plugin} /host/opt/cni/bin/.{plugin}.new\n"
        f"mv -f /host/opt/cni/bin/.{plugin}.new /host/opt/cni/bin/{plugin}\n"
        f"{'}' + chr(10) if keep else ''}"
    )


def dhcp_daemon_set(image: str, paths: CniPaths, *, keep: bool) -> Body:
    """The DHCP plugin with its daemon, which asks for addresses in pods' names and renews them.

    The daemon enters the pods' network namespaces, which the container runtime mounts under
    /var/run/netns; it does not start while the socket of one before it is there.
    """
    script = (
        f"set -eu\n{_copied('dhcp', keep=keep)}"
        "rm -f /host/run/cni/dhcp.sock\n"
        "exec /usr/src/cni/bin/dhcp daemon -hostprefix /host\n"
    )
    main: JsonObject = {
        "name": "dhcp-cni",
        "image": image,
        "command": ["/bin/sh", "-c", script],
        "resources": resources("100m", "50Mi"),
        "securityContext": {"privileged": True},
        "volumeMounts": [
            mount("cnibin", "/host/opt/cni/bin"),
            mount("socket", "/host/run/cni"),
            mount("netns", "/host/var/run/netns", mountPropagation="HostToContainer"),
        ],
    }
    pod: JsonObject = {
        "containers": [main],
        "volumes": [
            host_path("cnibin", paths.bin),
            host_path("socket", "/run/cni", "DirectoryOrCreate"),
            host_path("netns", "/var/run/netns", "DirectoryOrCreate"),
        ],
    }
    return daemon_set("dhcp-cni", pod)
