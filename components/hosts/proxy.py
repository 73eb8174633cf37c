"""The HTTP proxy of a site: what hosts know of it, and what they reach without it."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, collapse_addresses
from typing import Final

from components.model.cluster import ClusterSpec
from components.model.places import each_ssh
from components.remote.tools import ToolCall

_ALWAYS: Final = ("localhost", "127.0.0.0/8", "::1", ".svc", ".cluster.local")
_NETWORK_BITS: Final = 24
"""The file has addresses of devices and no networks: the /24 around each is taken for its network,
so that the list does not grow with the hosts."""


def proxy_settings(spec: ClusterSpec) -> dict[str, str]:
    """`http_proxy`, `https_proxy` and `no_proxy` as programs read them; empty without a proxy."""
    proxy = spec.proxy
    if proxy is None:
        return {}
    http, https = proxy.http or proxy.https, proxy.https or proxy.http
    return {
        "http_proxy": http or "",
        "https_proxy": https or "",
        "no_proxy": ",".join(dict.fromkeys((*proxy.no_proxy, *_ALWAYS, *_own_networks(spec)))),
    }


def _own_networks(spec: ClusterSpec) -> tuple[str, ...]:
    """Networks and names of the site itself: what must never be asked for through a proxy."""
    addresses = [ssh.address for _, ssh, _ in each_ssh(spec)]
    addresses += [host.address for host in spec.hosts if host.address]
    networks = [rail.subnet for rail in spec.rails]
    names: list[str] = []
    for address in dict.fromkeys(addresses):
        try:
            networks.append(IPv4Network((int(IPv4Address(address)), _NETWORK_BITS), strict=False))
        except ValueError:
            names.append(address)  # a name, or IPv6: few, and written as they are
    if (ours := spec.k3s or spec.kubespray) is not None:
        networks += [ours.pod_cidr, ours.service_cidr]
        names += [ours.registry_mirror.partition(":")[0]] if ours.registry_mirror else []
    return (*(str(each) for each in collapse_addresses(networks)), *dict.fromkeys(names))


def through_proxy(spec: ClusterSpec, call: ToolCall) -> ToolCall:
    """The same verb, with the proxy in the environment of what it downloads with."""
    words = tuple(f"{key}={value}" for key, value in proxy_settings(spec).items())
    return replace(call, arguments=(*call.arguments, *words)) if words else call


def proxy_file(spec: ClusterSpec) -> str:
    """The settings as a file for systemd's `EnvironmentFile`, in both spellings; else empty."""
    settings = proxy_settings(spec)
    both = {**settings, **{key.upper(): value for key, value in settings.items()}}
    return "".join(f"{key}={value}\n" for key, value in sorted(both.items()))
