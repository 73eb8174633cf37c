"""What upstream serves, as far as the lab has it: K3s, three charts, and the names of images.

A site of the lab asks a mirror for it, as a site behind a firewall does: upstream's host is the
first part of the path. Charts are the lab's simulated ones under upstream's names and releases.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from components.core.record import record
from lab.cluster.artefact import checksums, read_artefact
from lab.cluster.release import K3S_VERSION

CHARTS: Final = Path(__file__).parents[1] / "cluster" / "charts"
_RELEASES: Final = f"github.com/k3s-io/k3s/releases/download/{K3S_VERSION}"
_SOURCE: Final = f"raw.githubusercontent.com/k3s-io/k3s/{K3S_VERSION}"


@record
class ServedChart:
    """One chart of the lab, as a repository of upstream lists it."""

    name: str
    repository: str
    version: str


SERVED_CHARTS: Final = (
    ServedChart("gpu-operator", "helm.ngc.nvidia.com/nvidia", "v26.7.0"),
    ServedChart("network-operator", "helm.ngc.nvidia.com/nvidia", "26.7.1"),
    ServedChart("nvidia-device-plugin", "nvidia.github.io/k8s-device-plugin", "0.20.0"),
)
"""The releases that the examples name."""
IMAGES: Final = (
    "ghcr.io/k8snetworkplumbingwg/multus-cni:v4.3.0",
    "ghcr.io/k8snetworkplumbingwg/whereabouts:v0.9.4",
    "ghcr.io/k8snetworkplumbingwg/sriov-cni:v2.10.0",
    "ghcr.io/k8snetworkplumbingwg/sriov-network-device-plugin:v3.11.0",
    "ghcr.io/k8snetworkplumbingwg/plugins:v1.6.2",
    "ghcr.io/mellanox/k8s-rdma-shared-dev-plugin:v1.5.3",
    "docker.io/mpioperator/mpi-operator:0.8.2",
    "ghcr.io/crusoecloud/nccl-tests:12.8.1-ubuntu24.04-nccl-2.26.5-1",
    "192.168.100.10_5000/nccl-roce-test:1",
    "icmp.harbor/deepspeed/rdma-test:0920",
    "icmp.harbor/deepspeed/zyg:0920",
    "nvcr.io/nvaie/tensorflow:21.07-tf1-py3",
    "nvcr.io/nvidia/mellanox/sriov-network-device-plugin:network-operator-v26.7.1",
    "nvcr.io/nvidia/gpu-operator:v26.7.0",
    "nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
    "nvcr.io/nvidia/k8s/container-toolkit:v1.20.0",
    "nvcr.io/nvidia/k8s/dcgm-exporter:4.6.0-4.8.3-distroless",
    "nvcr.io/nvidia/cloud-native/k8s-mig-manager:v0.15.0",
    "nvcr.io/nvidia/mellanox/network-operator:v26.7.1",
    "registry.k8s.io/nfd/node-feature-discovery:v0.19.0",
)
"""Every image that the examples and the charts name, as a site's registry has it: the whole name of
upstream below its address, an underscore for the colon of a port."""


def served_files() -> dict[str, bytes]:
    """Host and path of upstream to what is there."""
    sums = checksums()
    found = {
        f"{_RELEASES}/k3s": read_artefact("k3s"),
        f"{_RELEASES}/sha256sum-amd64.txt": f"{sums['k3s']}  k3s\n".encode(),
        f"{_SOURCE}/install.sh": read_artefact("install.sh"),
    }
    for repository in {chart.repository for chart in SERVED_CHARTS}:
        archives = {
            chart: pack_chart(chart) for chart in SERVED_CHARTS if chart.repository == repository
        }
        found[f"{repository}/index.yaml"] = _index(archives)
        found |= {_archive_of(chart): body for chart, body in archives.items()}
    return found


def pack_chart(chart: ServedChart) -> bytes:
    """The archive that `helm package` would make; the same folder gives the same bytes."""
    packed, folder = io.BytesIO(), CHARTS / chart.name
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            body = file.read_bytes()
            if file.name == "Chart.yaml":
                body = _released(body.decode(), chart.version).encode()
            entry = tarfile.TarInfo(f"{chart.name}/{file.relative_to(folder)}")
            entry.size = len(body)
            archive.addfile(entry, io.BytesIO(body))
    return gzip.compress(packed.getvalue(), mtime=0)


def _released(text: str, version: str) -> str:
    """`Chart.yaml` at upstream's release; `appVersion` keeps its own form, with or without a v."""
    number = version.removeprefix("v")
    text = re.sub(r"(?m)^version: .*$", f"version: {version}", text)
    return re.sub(r"(?m)^appVersion: (v?).*$", rf"appVersion: \g<1>{number}", text)


def _archive_of(chart: ServedChart) -> str:
    return f"{chart.repository}/charts/{chart.name}-{chart.version}.tgz"


def _index(archives: Mapping[ServedChart, bytes]) -> bytes:
    entries = {
        chart.name: [
            {
                "name": chart.name,
                "version": chart.version,
                "digest": hashlib.sha256(body).hexdigest(),
                "urls": [f"https://{_archive_of(chart)}"],
            }
        ]
        for chart, body in archives.items()
    }
    return yaml.safe_dump({"apiVersion": "v1", "entries": entries}).encode()
