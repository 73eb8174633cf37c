"""Parts of other makers by the names that people write, and NVIDIA's, which are never refused."""

from __future__ import annotations

import pytest

from components.catalogue.cards import (
    CARDS,
    gpu_vendor,
    nic_vendor,
    prefix_vendor,
    software_vendor,
)


@pytest.mark.parametrize(
    ("name", "vendor"),
    [
        ("Thor2", "Broadcom"),
        ("Broadcom Thor 2", "Broadcom"),
        ("BCM57608", "Broadcom"),
        ("P2200G", "Broadcom"),
        ("Pensando Pollara 400", "AMD Pensando"),
        ("AMD Pensando DSC3-400", "AMD Pensando"),
        ("E810", "Intel"),
        ("Intel E830-CQDA2", "Intel"),
        ("EFA", "Amazon"),
        *((card, None) for card in CARDS),
        ("ConnectX-6 Lx", None),
        ("BlueField-2", None),
        ("ConnectX-9", None),
    ],
)
def test_cards(name: str, vendor: str | None) -> None:
    assert nic_vendor(name) == vendor


@pytest.mark.parametrize(
    ("name", "vendor"),
    [
        ("MI300X", "AMD"),
        ("Instinct MI325X", "AMD"),
        ("AMD MI250", "AMD"),
        ("Gaudi3", "Intel"),
        ("Intel Gaudi 2", "Intel"),
        ("Trainium2", "Amazon"),
        ("H100", None),
        ("A100-SXM4-80GB", None),
        ("Tesla V100", None),
        ("GB200", None),
        ("RTX PRO 6000", None),
        ("", None),
    ],
)
def test_gpus(name: str, vendor: str | None) -> None:
    assert gpu_vendor(name) == vendor


@pytest.mark.parametrize(
    ("address", "vendor"),
    [
        ("https://rocm.github.io/gpu-operator/gpu-operator-charts", "AMD"),
        ("docker.io/rocm/pytorch:6.4", "AMD"),
        ("oci://registry.example/amd-gpu-operator", "AMD"),
        ("https://vault.habana.ai/artifactory/charts/habana-device-plugin", "Intel"),
        ("https://helm.ngc.nvidia.com/nvidia/gpu-operator", None),
        ("192.168.100.10:5000/nccl-roce-test", None),
        ("nvcr.io/nvidia/pytorch:25.03-py3", None),
    ],
)
def test_software(address: str, vendor: str | None) -> None:
    assert software_vendor(address) == vendor


def test_prefixes() -> None:
    found = {
        prefix: prefix_vendor(prefix)
        for prefix in ("amd.com", "intel.com", "rdma", "nvidia.com", "example.org")
    }
    assert found == {
        "amd.com": "AMD",
        "intel.com": None,
        "rdma": None,
        "nvidia.com": None,
        "example.org": None,
    }
