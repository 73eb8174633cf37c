"""The IOMMU by the kernel's command line: which words count on which maker's processor."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.folder_host import FolderHost, folder_host

PT, OFF = "kernel.cmdline.iommu=pt", "kernel.cmdline.iommu=off"
SITE = "etc/default/grub.d/50-site.cfg"
OURS = "etc/default/grub.d/zz-railyard.cfg"
UPDATE_GRUB = """
words=$(sed -n 's/^GRUB_CMDLINE_LINUX_DEFAULT="\\(\\$[A-Z_]* \\)*\\(.*\\)"$/\\2/p' \
  $F/etc/default/grub.d/*.cfg | tr '\\n' ' ')
echo "  linux /vmlinuz root=/dev/sda1 $words" >$F/boot/grub/grub.cfg"""


def booted(host: FolderHost, maker: str, words: str) -> FolderHost:
    """A host whose site file has these words, after a boot with them."""
    host.tool("update-grub", UPDATE_GRUB)
    host.write("boot/grub/grub.cfg", "")
    host.write("proc/cpuinfo", f"processor\t: 0\nvendor_id\t: {maker}\ncpu family\t: 6\n")
    host.write("proc/cmdline", f"BOOT_IMAGE=/vmlinuz root=/dev/sda1 {words}\n")
    host.write(SITE, f'GRUB_CMDLINE_LINUX_DEFAULT="{words}"\n')
    assert host.sh("run update-grub").returncode == 0
    return host


@pytest.fixture
def host(tmp_path: Path) -> FolderHost:
    return folder_host(tmp_path)


@pytest.mark.parametrize(
    ("line", "intel", "amd"),
    [
        ("quiet", "absent", "absent"),
        ("intel_iommu=on iommu=pt", "pt", "pt"),
        ("iommu=pt quiet iommu=nopt", "absent", "absent"),
        ("iommu=nopt iommu=force,pt", "pt", "pt"),
        ("iommu=pt intel_iommu=off", "off", "pt"),
        ("intel_iommu=off iommu=pt intel_iommu=on", "pt", "pt"),
        ("intel_iommu=on,sm_on", "absent", "absent"),
        ("intel_iommu=sm_on,off", "off", "absent"),
        ("amd_iommu=off iommu.passthrough=1", "pt", "off"),
        ("amd_iommu=off amd_iommu=on iommu=pt", "pt", "off"),
        ("iommu=off iommu=pt intel_iommu=on", "off", "off"),
        ("iommu.passthrough=1 iommu.passthrough=0", "absent", "absent"),
    ],
)
def test_the_words_that_count(host: FolderHost, line: str, intel: str, amd: str) -> None:
    for maker, mode in (("GenuineIntel", intel), ("AuthenticAMD", amd)):
        booted(host, maker, line)
        done = host.sh("next_cmdline | iommu_mode; iommu_mode </proc/cmdline")
        assert done.stdout.splitlines() == [mode, mode], maker


@pytest.mark.parametrize(
    ("maker", "words", "added"),
    [
        ("GenuineIntel", "intel_iommu=off iommu=nopt", "intel_iommu=on iommu=pt"),
        ("GenuineIntel", "amd_iommu=off iommu=nopt", "intel_iommu=on iommu=pt"),
        ("AuthenticAMD", "intel_iommu=off iommu=nopt", "iommu=pt"),
    ],
)
def test_what_a_site_has_is_overruled_and_comes_back(
    host: FolderHost, maker: str, words: str, added: str
) -> None:
    booted(host, maker, words)
    assert "until this host reboots, then pt" in str(host.report("converge", PT)["notes"])
    assert f" {added}" in (host.root / OURS).read_text()
    assert host.report("converge", PT)["changed"] == []
    host.report("converge", OFF)
    assert host.sh("next_cmdline | iommu_mode").stdout == "off\n"
    host.report("undo")
    assert not (host.root / OURS).exists()


@pytest.mark.parametrize(
    ("maker", "word"),
    [
        ("AuthenticAMD", "amd_iommu=off"),
        ("AuthenticAMD", "iommu=off"),
        ("GenuineIntel", "iommu=off"),
    ],
)
def test_a_word_that_none_takes_back_is_told_with_its_file(
    host: FolderHost, maker: str, word: str
) -> None:
    booted(host, maker, f"quiet {word}")
    done = host.run("converge", PT)
    assert done.returncode != 0
    assert f"switched off by {word} on the kernel's command line, want pt" in done.stderr
    assert f"take it out of {host.root / SITE} and run again" in done.stderr
    assert not (host.root / OURS).exists()

    booted(host, maker, "quiet")
    assert "until this host reboots, then pt" in str(host.report("converge", PT)["notes"])
    host.report("undo")
    assert host.sh("next_cmdline | iommu_mode").stdout == "absent\n"


def test_undo_takes_our_words_from_the_menu_though_our_file_is_gone(host: FolderHost) -> None:
    booted(host, "GenuineIntel", "quiet")
    host.report("converge", PT)
    (host.root / OURS).unlink()
    assert host.report("undo")["left"] == []
    assert host.sh("next_cmdline | iommu_mode").stdout == "absent\n"


def test_without_update_grub_the_word_is_to_be_taken_off_by_hand(host: FolderHost) -> None:
    booted(host, "AuthenticAMD", "amd_iommu=off")
    (host.root / "boot/grub/grub.cfg").unlink()
    (host.root / SITE).unlink()
    told = host.run("converge", PT).stderr
    assert "--remove-args=amd_iommu=off" in told
    assert "add 'iommu=pt'" not in told


def test_undo_ends_where_a_site_switched_the_iommu_off_since(host: FolderHost) -> None:
    booted(host, "AuthenticAMD", "iommu=pt")
    host.report("converge", OFF)
    assert (host.root / OURS).exists()
    host.write(SITE, 'GRUB_CMDLINE_LINUX_DEFAULT="iommu=pt amd_iommu=off"\n')
    assert host.report("undo")["left"] == ["kernel.cmdline.iommu"]
    assert not (host.root / OURS).exists()
