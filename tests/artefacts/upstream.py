"""All that the clean site brings, on a web server and a real registry of 127.0.0.1."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.artefacts.certificates import Authority
from tests.artefacts.charts import GPU_VALUES, make_chart, make_index
from tests.artefacts.registry_server import PASSWORD, USER, Registry, registry
from tests.artefacts.web_server import Site, serve
from tests.checks.cases import CLEAN

OURS = Authority("ours")
K3S, K3S_IMAGES = b"a k3s binary" * 1000, b"K3s' own images" * 5000
SCRIPT = b"#!/bin/sh\necho installed\n"
CHART = make_chart("gpu-operator", "v26.3.3", GPU_VALUES)
RELEASES = "/github.com/k3s-io/k3s/releases/download/v1.36.3%2Bk3s1"
SCRIPT_PATH = "/raw.githubusercontent.com/k3s-io/k3s/v1.36.3%2Bk3s1/install.sh"
CHARTS = "/helm.ngc.nvidia.com/nvidia"
NVIDIA = "https://helm.ngc.nvidia.com/nvidia"
SITE_IMAGES = (
    "ghcr.io/k8snetworkplumbingwg/multus-cni:v4.3.0",
    "ghcr.io/k8snetworkplumbingwg/whereabouts:v0.9.4",
    "ghcr.io/k8snetworkplumbingwg/sriov-cni:v2.10.0",
    "ghcr.io/k8snetworkplumbingwg/sriov-network-device-plugin:v3.11.0",
    "docker.io/mpioperator/mpi-operator:0.8.2",
    "192.168.100.10_5000/nccl-roce-test:1",
)
"""In the registry: what upstream's names become below its address."""
CHART_IMAGES = (
    "nvcr.io/nvidia/gpu-operator:v26.3.3",
    "nvcr.io/nvidia/k8s-device-plugin:v0.19.3",
    "registry.k8s.io/nfd/node-feature-discovery:v0.18.2",
)
"""What the chart names, apart from a driver and a part that are switched off."""
PASSWORD_VARIABLE = "RAILYARD_SECRET_REGISTRY_PASSWORD"


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


@dataclass(frozen=True)
class Upstream:
    """The servers, and a site that names them."""

    web: Site
    images: Registry
    digests: dict[str, str]
    """Name of an image below the registry to its digest."""
    site: Path


def own_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy and no login of this machine, and the site's password where commands look for it."""
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(folder / "no-docker"))
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)


@contextmanager
def upstream(folder: Path) -> Generator[Upstream]:
    """Run both servers, and write a site that takes everything from them."""
    filled, digests = _filled()
    shutil.copytree(filled.name, folder / "registry")
    with serve(folder / "web", OURS) as web, registry(folder / "registry", OURS) as images:
        sums = f"{sha256(K3S)}  k3s\n{sha256(K3S_IMAGES)}  k3s-airgap-images-amd64.tar.zst\n"
        web.files |= {
            f"{RELEASES}/k3s": K3S,
            f"{RELEASES}/k3s-airgap-images-amd64.tar.zst": K3S_IMAGES,
            f"{RELEASES}/sha256sum-amd64.txt": sums.encode(),
            SCRIPT_PATH: SCRIPT,
            f"{CHARTS}/index.yaml": make_index(NVIDIA, {("gpu-operator", "v26.3.3"): CHART}),
            f"{CHARTS}/charts/gpu-operator-v26.3.3.tgz": CHART,
        }
        site = folder / "site" / "site.yaml"
        site.parent.mkdir()
        site.write_text(site_text(web.address, images.host))
        yield Upstream(web, images, digests.copy(), site)


@cache
def _filled() -> tuple[TemporaryDirectory[str], dict[str, str]]:
    """The folder of a registry that got all images, and their digests; each test has a copy."""
    folder = TemporaryDirectory(prefix="registry-")
    with registry(Path(folder.name), OURS) as images:
        names = (*SITE_IMAGES, *CHART_IMAGES)
        digests = {name: images.put_image(name, ("amd64", "arm64")) for name in names}
    return folder, digests


def site_text(web: str, registry_host: str, sources: str = "") -> str:
    """The clean site, which takes everything from a mirror and a registry."""
    kept, skipped = list[str](), False
    for line in CLEAN.read_text().splitlines():
        if line == "  source:":
            skipped = True
        elif not (skipped and line.startswith("    ")):
            skipped = False
            if "registry_mirror" not in line:
                kept.append(line)
    pem = "".join(f"      {line}\n" for line in OURS.pem.splitlines())
    return (
        "\n".join(kept)
        + f"\nsources:\n  mirror:\n    url: {web}\n    ca: |\n{pem}  registry:\n"
        + f"    address: {registry_host}\n    ca: |\n{pem}    login: {{user: {USER}, "
        + f"password: {{secret: registry_password}}}}\n{sources}"
    )
