"""Rules on the payload without Kubernetes: containers on the hosts, and their image."""

from __future__ import annotations

from typing import Final

from components.checks.rule import Finding, Findings, at, places
from components.model.cluster import ClusterSpec
from components.model.containers import DOCKER_HUB, registry_of

_CLOSED: Final = (DOCKER_HUB, "nvcr.io", "ghcr.io", "quay.io")
"""Public registries: each takes a push only from who is logged in."""


def check_payload_choice(spec: ClusterSpec) -> Findings:
    """A site has either `kubernetes` or `containers`.

    Both would hand the same GPUs and cards to two schedulers that do not know of each other; with
    neither there is nothing that could run a job.
    """
    if spec.kubernetes is not None and spec.containers is not None:
        yield Finding(
            "the site has both kubernetes and containers, and each would take all GPUs.",
            places(spec, "kubernetes", "containers"),
            "keep one of them.",
        )
    if spec.kubernetes is None and spec.containers is None:
        yield Finding(
            "the site has neither kubernetes nor containers, so nothing could run a job.",
            (at(()),),
            "add one: kubernetes for a cluster, containers for MPI over SSH.",
        )


def check_container_hosts(spec: ClusterSpec) -> Findings:
    """Containers run under Docker, and their cards have addresses.

    They are in the host's own network: RoCE v2 needs an IPv4 address on the card itself, which in a
    cluster the pod's attachment would bring.
    """
    if spec.containers is None:
        return
    if not spec.host_defaults.docker:
        yield Finding(
            "containers run under Docker, and host_defaults.docker is false.",
            places(spec, "host_defaults.docker", "containers"),
            "set host_defaults.docker to true: it installs Docker and NVIDIA's toolkit.",
        )
    for h, host in enumerate(spec.hosts):
        for n, nic in enumerate(host.nics):
            if host.role == "worker" and nic.address is None:
                yield Finding(
                    f"{host.name}'s card on {nic.rail} has no address, which a container needs.",
                    (at(("hosts", h, "nics", n)),),
                    f"give it a free address of {nic.rail}'s subnet.",
                )


def check_container_image(spec: ClusterSpec) -> Findings:
    """An image that is built here is named by a tag: its digest is known only after the build."""
    containers = spec.containers
    if containers is not None and containers.build is not None and "@" in containers.image:
        yield Finding(
            "the image is built here, and its digest is known only after that.",
            (at(("containers", "image"), containers.image), at(("containers", "build"))),
            "name the image by a tag; hosts recognise the build by its label.",
        )


def check_image_download(spec: ClusterSpec) -> Findings:
    """The RDMA libraries that the image's build downloads have a version and a checksum.

    The guide takes them over plain HTTP and installs whatever came.
    """
    build = spec.containers.build if spec.containers else None
    if build is None or (build.mofed_version is None) == (build.mofed_sha256 is None):
        return
    path = ("containers", "build")
    if build.mofed_sha256 is None:
        yield Finding(
            f"the archive of MLNX_OFED {build.mofed_version} has no checksum.",
            (at((*path, "mofed_version"), build.mofed_version),),
            "add mofed_sha256, or leave both out: then rdma-core of the image's system is used.",
        )
    else:
        yield Finding(
            "there is a checksum of an archive of MLNX_OFED, and no version.",
            (at((*path, "mofed_sha256"), build.mofed_sha256),),
            "add mofed_version.",
        )


def check_registry_login(spec: ClusterSpec) -> Findings:
    """An image that is built and pushed to a public registry has a login for it."""
    containers = spec.containers
    if containers is None or containers.build is None or containers.login is not None:
        return
    registry = registry_of(containers.image)
    if registry in _CLOSED:
        yield Finding(
            f"the image is pushed to {registry}, which takes nothing without a login.",
            places(spec, "containers.image"),
            "add containers.login: {user: …, password: {secret: registry_password}}.",
        )


def check_payload_benchmark(spec: ClusterSpec) -> Findings:
    """ResNet-50 is run only in `containers`: the jobs of a cluster have no TensorFlow 1."""
    if spec.acceptance.resnet50 is not None and spec.containers is None:
        yield Finding(
            "acceptance runs ResNet-50, and there are no containers to run it in.",
            (at(("acceptance", "resnet50")),),
            "remove it; the NCCL collectives prove the same path on a cluster.",
        )


def check_docker_runtime(spec: ClusterSpec) -> Findings:
    """Docker is asked for where something runs in it.

    K3s has its own containerd: a Docker beside it would hold images and GPUs of containers that
    Kubernetes does not know of.
    """
    k3s = spec.k3s
    if spec.host_defaults.docker and k3s is not None and k3s.container_runtime == "containerd":
        yield Finding(
            "Docker is asked for on the hosts, and K3s runs its pods in containerd.",
            places(spec, "host_defaults.docker", "kubernetes.container_runtime"),
            "remove host_defaults.docker, or set kubernetes.container_runtime to docker.",
        )
