"""The names of the secrets that a site needs; never their values."""

from __future__ import annotations

from components.model.cluster import ClusterSpec


def secret_names(spec: ClusterSpec) -> tuple[str, ...]:
    """Every secret that the file refers to, sorted, once each."""
    found = {spec.kubernetes.token.secret}
    for device in (*spec.switches, *spec.hosts):
        for reference in (device.ssh.password, device.ssh.private_key):
            if reference is not None:
                found.add(reference.secret)
    return tuple(sorted(found))
