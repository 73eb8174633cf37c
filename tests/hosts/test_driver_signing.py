"""Secure Boot: a key that is not enrolled is told before the modules that run are taken away."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.hosts.fake_host import converge, make_fake, module, sh, tool

VENDOR = "Mellanox Technologies signing key"
KERNEL = "5.14.0-427.el9.x86_64"
EXTRA = f"/lib/modules/{KERNEL}/extra/mlnx-ofa_kernel/mlx5_core.ko"
ROCKY = 'ID=rocky\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n'
PACKAGE = "doca-host-3.2.0-125000_25.10_rhel9.x86_64.rpm"
DNF = f"""echo "dnf $*" >>$FAKE/calls
case "$*" in *install*)
  printf 'filename={EXTRA}\\nsigner={VENDOR}\\nsrcversion=BBB\\n' >$FAKE/modules/mlx5_core
  printf '#!/bin/sh\\necho OFED-internal-25.10-1.7.1:\\n' >$FAKE/ofed_info
  cp $FAKE/restart $FAKE/etc/init.d/openibd
  chmod 755 $FAKE/ofed_info $FAKE/etc/init.d/openibd ;;
esac"""
RESTART = 'echo "openibd $*" >>$FAKE/calls; echo BBB >$FAKE/sys/module/mlx5_core/srcversion'
REJECTED = "modprobe: ERROR: could not insert 'mlx5_core': Key was rejected by service"


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    return make_fake(tmp_path)


@pytest.fixture
def rocky(fake: Path) -> Path:
    """Secure Boot, the kernel's own RDMA modules, and a package whose modules the vendor signed."""
    (fake / "kernel").write_text(f"{KERNEL}\n")
    (fake / "secure_boot").write_text("SecureBoot enabled\n")
    for folder in ("sys/module/mlx5_core", "etc/init.d", "boot"):
        (fake / folder).mkdir(parents=True)
    (fake / "sys/module/mlx5_core/srcversion").write_text("AAA\n")
    (fake / f"boot/vmlinuz-{KERNEL}").touch()
    (fake / "etc/os-release").write_text(ROCKY)
    (fake / PACKAGE).write_text("x")
    own = f"/lib/modules/{KERNEL}/kernel/drivers/net/mlx5_core.ko.xz"
    module(fake, "mlx5_core", filename=own, signer="Rocky kernel signing key", srcversion="AAA")
    tool(fake, "dnf", DNF)
    tool(fake, "restart", RESTART)
    tool(fake, "grubby", "exit 1")
    tool(fake, "modprobe", f'echo "{REJECTED}" >&2; exit 1')
    for name in ("rpm", "ip", "systemctl", "sync"):
        tool(fake, name, ":")
    return fake


def desired(fake: Path) -> str:
    digest = hashlib.sha256(b"x").hexdigest()
    return (
        "driver.kind=doca_ofed\ndriver.line=25.10\ndriver.modules=built\ndriver.loaded=installed\n"
        f"driver_source={fake}/{PACKAGE}\ndriver_sha256={digest}\n"
    )


def test_a_vendors_key_that_is_not_enrolled_leaves_the_running_driver(rocky: Path) -> None:
    for _ in range(2):
        done = converge(rocky, desired(rocky))
        assert done.returncode == 1
        assert f"for {KERNEL} are signed by '{VENDOR}', which is not enrolled" in done.stderr
        assert "mokutil --import the vendor's public key (mlnx_signing_key_pub.der" in done.stderr
        assert "openibd" not in (rocky / "calls").read_text()
        assert (rocky / "sys/module/mlx5_core/srcversion").read_text() == "AAA\n"


def test_with_the_key_enrolled_the_modules_are_loaded(rocky: Path) -> None:
    (rocky / "enrolled").write_text(f"C=IL, O=Mellanox Technologies, CN={VENDOR}\n")
    done = converge(rocky, desired(rocky))
    assert done.returncode == 0, done.stderr
    assert '"reboot_required":false' in done.stdout
    assert "openibd restart" in (rocky / "calls").read_text()


def test_where_nothing_lists_the_keys_it_is_a_note(rocky: Path) -> None:
    tool(rocky, "mokutil", "[ $1 = --sb-state ] && echo SecureBoot enabled")
    (rocky / "sys/module/rpcrdma").mkdir()
    (rocky / "sys/module/rpcrdma/initstate").write_text("live\n")  # so that it waits for a boot
    done = converge(rocky, desired(rocky))
    assert done.returncode == 0, done.stderr
    assert "rpcrdma; Secure Boot is on, and nothing tells here whether the key" in done.stdout
    assert VENDOR in done.stdout


def test_a_module_that_the_kernel_rejects_names_its_key(rocky: Path) -> None:
    module(rocky, "mlx5_core", filename=EXTRA, signer=VENDOR, srcversion="BBB")
    done = sh(rocky, "read_driver_loaded() { echo absent; }\nload_modules\n")
    assert done.returncode == 1
    assert f"no RDMA driver is loaded: modprobe mlx5_core: {REJECTED}" in done.stderr
    assert f"service. the RDMA modules for {KERNEL} are signed by '{VENDOR}'" in done.stderr
    assert "mokutil --import" in done.stderr
    assert "left loaded" not in done.stderr


@pytest.mark.parametrize(
    ("enrolled", "keys", "answer"),
    [
        ("C=GB, ST=Isle of Man, O=Site, CN=Site, Inc. modules", "", "yes"),
        ("CN = Site, Inc. modules, emailAddress = a@b.c", "", "yes"),
        ("O=Site, CN=Site, Inc. modules/emailAddress=a@b.c", "", "yes"),
        ("CN=Site, Inc. modules 2", "", "no"),
        ("CN=x", "Site, Inc. modules: fc7c0e9f152f32eca50ea2d9722926e5127af244", "yes"),
        ("CN=x", "Owner: Site, Inc. modules: fc7c0e9f", "yes"),
        ("CN=x", "Site, Inc. modules 2: fc7c0e9f", "no"),
    ],
)
def test_a_signer_is_found_among_the_keys(
    fake: Path, enrolled: str, keys: str, answer: str
) -> None:
    (fake / "enrolled").write_text(f"{enrolled}\n")
    line = (
        f"01b7ab74 I------     1 perm 1f030000     0     0 asymmetri {keys}: X509.RSA 127af244 []"
    )
    (fake / "keys").write_text(f"{line}\n")
    script = "KERNEL_KEYS=$FAKE/keys\nsigner_enrolled 'Site, Inc. modules'\n"
    assert sh(fake, script).stdout == f"{answer}\n"


def test_validation_that_shim_leaves_out_is_no_secure_boot(fake: Path) -> None:
    text = "SecureBoot enabled\nSecureBoot validation is disabled in shim\n"
    (fake / "secure_boot").write_text(text)
    assert sh(fake, "secure_boot\n").stdout == "disabled\n"


@pytest.mark.parametrize("debian", [False, True])
def test_the_key_to_enrol_is_one_of_the_system(fake: Path, *, debian: bool) -> None:
    (fake / "secure_boot").write_text("SecureBoot enabled\n")
    told = sh(fake, "SHIM_KEY=/no/MOK.der DKMS_KEY=/no/mok.pub\ncheck_secure_boot\n", debian=debian)
    wanted = "/no/MOK.der (update-secureboot-policy" if debian else "/no/mok.pub (dkms makes it"
    assert f"mokutil --import {wanted}" in told.stderr


def test_a_key_that_is_not_enrolled_is_drift_before_the_boot(fake: Path) -> None:
    """DKMS built for the kernel of the next boot, and signed with a key of this host."""
    (fake / "secure_boot").write_text("SecureBoot enabled\n")
    (fake / "enrolled").write_text("CN=key\n")
    signer = "host1 Secure Boot Module Signature key"
    tool(fake, "grubby", "echo /boot/vmlinuz-6.8.0-50-generic")
    tool(
        fake,
        "modinfo",
        f"""case "$*" in
  *6.8.0-50*filename*) echo /lib/modules/6.8.0-50-generic/updates/dkms/mlx5_core.ko ;;
  *filename*) echo /lib/modules/K/updates/dkms/mlx5_core.ko ;;
  *6.8.0-50*signer*) echo '{signer}' ;;
  *signer*) echo key ;;
esac""",
    )
    assert sh(fake, "read_key driver.modules\n").stdout == "untrusted:6.8.0-50-generic\n"
    done = sh(fake, "check_packages() { :; }\nrebuild_modules\n", debian=True)
    assert f"6.8.0-50-generic are signed by '{signer}', which is not enrolled" in done.stderr
    assert "mokutil --import /var/lib/shim-signed/mok/MOK.der" in done.stderr
