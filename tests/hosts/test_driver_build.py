"""Modules for a kernel that has none, on a system where DKMS does not build them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.fake_host import ROOT_PATH, make_fake, run, sh, tool
from tests.hosts.host_text import library_text

NEXT = "5.14.0-503.26.1.el9_5.x86_64"
PACKAGE = "doca-kernel-5.14.0.503.26.1.el9.5.x86.64"
MODINFO = f"""case "$*" in
  *{NEXT}*filename*) [ -e "$FAKE/built" ] && echo /lib/modules/K/extra/mlx5_core.ko ;;
  *filename*) echo /lib/modules/K/extra/mlnx-ofa_kernel/mlx5_core.ko ;;
  *srcversion*) echo AAA ;;
esac"""
DNF = """echo "dnf $*" >>$FAKE/calls
case "$*" in
  *repoquery*) echo there ;;
  *doca-extra*) cp $FAKE/support.new $FAKE/support ;;
  *doca-kernel-5*) touch $FAKE/built ;;
esac"""
SUPPORT = """echo "support $*" >>$FAKE/calls
mkdir -p $FAKE/tmp/DOCA.x
touch $FAKE/tmp/DOCA.x/doca-kernel-repo-25.10.rpm"""
NO_MATCH = """case "$*" in *install*)
  echo 'No match for argument: doca-extra'
  echo 'Error: Unable to find a match: doca-extra'
  exit 1 ;;
esac"""
SCRIPT = """DOCA_KERNEL_SUPPORT=$FAKE/support DOCA_PRODUCTS=$FAKE/tmp
check_kernel_sources() { :; }
wait_for_rpm() { :; }
load_modules() { :; }
rebuild_modules
"""


@pytest.fixture
def red_hat(tmp_path: Path) -> Path:
    """DOCA-OFED for the running kernel; the next boot takes one that came by hand."""
    fake = make_fake(tmp_path)
    tool(fake, "ofed_info", "echo OFED-internal-25.10-1.7.1:")
    tool(fake, "modinfo", MODINFO)
    tool(fake, "grubby", f"echo /boot/vmlinuz-{NEXT}")
    tool(fake, "dnf", DNF)
    tool(fake, "rpm", 'echo "rpm $*" >>$FAKE/calls')
    tool(fake, "support.new", SUPPORT)
    return fake


def test_docas_tool_builds_for_the_next_kernel(red_hat: Path) -> None:
    done = sh(red_hat, SCRIPT)
    assert done.returncode == 0, done.stderr
    calls = [
        line
        for line in (red_hat / "calls").read_text().replace(f"{red_hat}/", "").splitlines()
        if "check --dup" not in line and "repoquery" not in line
    ]
    held = "--exclude=kernel --exclude=kernel-core --exclude=kernel-modules"
    assert calls == [
        f"dnf -y {held} install doca-extra",
        f"support -k {NEXT}",
        "rpm -U --replacepkgs tmp/DOCA.x/doca-kernel-repo-25.10.rpm",
        f"dnf -y {held} install {PACKAGE}",
        f"dnf -y {held} install doca-ofed",
    ]


@pytest.mark.parametrize(
    ("dnf", "words"),
    [
        (NO_MATCH, "repository has them (no repository of this host has the driver"),
        (":", "repository has them (it brought no"),
    ],
)
def test_without_the_tool_the_kernel_is_told(red_hat: Path, dnf: str, words: str) -> None:
    tool(red_hat, "dnf", dnf)
    done = sh(red_hat, SCRIPT)
    assert done.returncode == 1
    assert f"kernel {NEXT} has no modules of the driver" in done.stderr
    assert words in done.stderr.replace("\n", " ")


def test_a_build_that_brings_nothing_is_told_by_its_kernel(red_hat: Path) -> None:
    (red_hat / "support.new").write_text("#!/bin/sh\nexit 0\n")
    done = sh(red_hat, SCRIPT)
    assert done.returncode == 1
    assert f"kernel {NEXT} has no modules of the driver, though {red_hat}/support" in done.stderr


@pytest.mark.parametrize(
    ("source", "options"), [("/opt/ofed.tgz", "--add-kernel-support --kernel"), ("", "")]
)
def test_only_an_archive_builds_for_another_kernel(
    red_hat: Path, source: str, options: str
) -> None:
    tool(red_hat, "ofed_info", "echo MLNX_OFED_LINUX-24.10-1.1.4.0:")
    install = 'install_driver() { echo "got $driver_installer" >&2; }\n'
    done = sh(red_hat, f"driver_source={source}\n{install}{SCRIPT}")
    assert f"got {options}" in done.stderr
    assert ("--add-kernel-support" in done.stderr) is bool(options)
    assert f"kernel {NEXT} has no modules of the driver, though its packages" in done.stderr


RUNS, NEWER = "5.15.0-1-generic", "6.8.0-50-generic"
ADVANCED = "gnulinux-advanced-0a1b>gnulinux-%s-advanced-0a1b"
TITLE = "Advanced options for Ubuntu>Ubuntu, with Linux %s"


@pytest.mark.parametrize(
    ("grub", "env", "kernels"),
    [
        ("GRUB_DEFAULT=0", "", [RUNS, NEWER]),
        (f'GRUB_DEFAULT="{TITLE % RUNS}"', "", [RUNS]),
        (f"GRUB_DEFAULT='{ADVANCED % RUNS}'", "", [RUNS]),
        (f'GRUB_DEFAULT="{TITLE % "5.15.0-1"}"', "", [RUNS, NEWER]),
        (f'GRUB_DEFAULT="{TITLE % NEWER}"', "", [RUNS, NEWER]),
        ("GRUB_DEFAULT=saved", f"saved_entry={ADVANCED % RUNS}", [RUNS]),
        ("GRUB_DEFAULT=saved", "", [RUNS, NEWER]),
        (f'GRUB_DEFAULT="{TITLE % RUNS}"', f"next_entry={TITLE % NEWER}", [RUNS, NEWER]),
    ],
)
def test_a_kernel_that_grub_is_told_to_start_is_that_of_the_next_boot(
    tmp_path: Path, grub: str, env: str, kernels: list[str]
) -> None:
    """Words of GRUB 2.06: its titles and identifiers of /etc/grub.d/10_linux."""
    fake = make_fake(tmp_path)
    for folder in ("boot/grub", "etc/default/grub.d"):
        (fake / folder).mkdir(parents=True)
    for name in (RUNS, NEWER):
        (fake / f"boot/vmlinuz-{name}").touch()
    (fake / "etc/default/grub").write_text(f"GRUB_DEFAULT=0\nGRUB_TIMEOUT=0\n{grub}\n")
    (fake / "boot/grub/grubenv").write_text(f"# GRUB Environment Block\n{env}\n")
    text = library_text().replace(ROOT_PATH, "")
    for folder in ("/boot/", "/etc/default/"):
        text = text.replace(folder, f"{fake}{folder}")
    assert run(fake, f"{text}driver_kernels\n").stdout.split() == kernels
