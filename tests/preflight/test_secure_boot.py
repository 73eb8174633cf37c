"""Secure Boot with the shipped script: which modules the kernel would refuse, and which key signs.

The words of mokutil are those of mokutil 0.6 (lab/sources.md).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from components.core.problem import Finding
from components.preflight.wants import HostWants
from tests.hosts.fake_host import make_fake, module, tool
from tests.preflight.asking import ask

DISTRIBUTION = "Rocky kernel signing key"
VENDOR = "Mellanox Technologies signing key"
DKMS = "DKMS module signing key"
MOK = "/var/lib/shim-signed/mok/MOK.der"
TOOLS = "/usr/bin:/bin"


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    """A host with Secure Boot and a module of its distribution."""
    host = make_fake(tmp_path)
    (host / "secure_boot").write_text("SecureBoot enabled\n")
    own = "/lib/modules/x/kernel/drivers/net/mlx5_core.ko.xz"
    module(host, "mlx5_core", filename=own, signer=DISTRIBUTION)
    (host / "df").unlink()  # of this machine
    tool(host, "apt-get", "exit 0")  # that of this machine takes a second
    return host


def install(fake: Path, name: str, signer: str) -> None:
    module(fake, name, filename=f"/lib/modules/x/extra/{name}.ko", signer=signer, version="580.1")


def found(fake: Path, wants: HostWants) -> dict[str, Finding]:
    environ = {"PATH": f"{fake}:{TOOLS}", "FAKE": str(fake)}
    causes = ("signature-", "secure-boot", "gpu-driver-loaded")
    return {each.rule: each for each in ask(wants, environ) if each.rule.startswith(causes)}


def test_modules_of_the_distribution_are_no_lack(fake: Path) -> None:
    assert found(fake, HostWants("gpu01")) == {}


@pytest.mark.parametrize(("name", "signer"), [("mlx5_core", VENDOR), ("nvidia", DKMS)])
def test_a_module_whose_key_is_not_enrolled_is_named_with_its_key(
    fake: Path, name: str, signer: str
) -> None:
    install(fake, name, signer)
    lacks = found(fake, HostWants("gpu01", gpus=8, gpu_driver="host"))
    assert list(lacks) == [f"signature-{name}"], "the GPU driver that does not load has one cause"
    assert lacks[f"signature-{name}"].actual == f"it is signed by '{signer}'"
    assert "mokutil --import" in lacks[f"signature-{name}"].fix
    with (fake / "enrolled").open("a") as enrolled:
        enrolled.write(f"CN={signer}\n")
    assert f"signature-{name}" not in found(fake, HostWants("gpu01"))


def test_a_module_without_a_signature_is_refused_too(fake: Path) -> None:
    module(fake, "nvidia", filename="/lib/modules/x/updates/dkms/nvidia.ko", version="580.1")
    (lack,) = found(fake, HostWants("gpu01")).values()
    assert (lack.rule, lack.actual) == ("signature-nvidia", "it has no signature")


def test_what_is_built_into_the_kernel_needs_no_signature(fake: Path) -> None:
    module(fake, "mlx5_core", filename="(builtin)")
    assert found(fake, HostWants("gpu01")) == {}


def test_without_secure_boot_every_key_is_good(fake: Path) -> None:
    install(fake, "nvidia", DKMS)
    (fake / "secure_boot").write_text("SecureBoot disabled\n")
    assert found(fake, HostWants("gpu01", driver_room=True, packages=True)) == {}


def test_a_driver_that_is_built_here_needs_a_key_that_is_enrolled(fake: Path) -> None:
    builds = HostWants("gpu01", driver_room=True, packages=True)
    (lack,) = found(fake, builds).values()
    assert lack.rule == "secure-boot"
    assert "mokutil --import" in lack.fix
    assert MOK in lack.fix
    tool(fake, "ofed_info", "echo MLNX_OFED_LINUX-24.10-1.1.4.0:")
    assert found(fake, builds) == {}, "its modules are there, and their signature is looked at"


def test_an_enrolled_key_of_the_host_is_enough(fake: Path) -> None:
    mokutil = (fake / "mokutil").read_text()
    words = f'--test-key) case $2 in {MOK}) echo "$2 is already enrolled" && exit 1 ;; esac ;;'
    (fake / "mokutil").write_text(
        mokutil.replace('--test-key) echo "$2 is not enrolled" ;;', words)
    )
    assert found(fake, HostWants("gpu01", driver_room=True, packages=True)) == {}


def test_packages_of_dnf_bring_their_modules_ready_made(fake: Path) -> None:
    tool(fake, "dnf", "exit 0")
    assert found(fake, HostWants("gpu01", driver_room=True, packages=True)) == {}
