"""Debian's packages that the lab unpacks, from a repository in a folder, with the real apt-get."""

import hashlib
import subprocess
from pathlib import Path

import pytest

from lab.debian import unpacked

pytestmark = pytest.mark.lab

_CONTROL = """\
Package: rail-tools
Version: {version}
Architecture: all
Maintainer: Nobody <nobody@example.com>
Description: a package for a test
"""


def _offer(folder: Path) -> None:
    """A repository with version 1.0 of the package."""
    tree = folder / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(_CONTROL.format(version="1.0"))
    (tree / "usr").mkdir()
    (tree / "usr/rail").write_text("1.0\n")
    package = folder / "rail-tools_1.0_all.deb"
    subprocess.run(["dpkg-deb", "-b", tree, package], check=True, capture_output=True)
    digest = hashlib.sha256(package.read_bytes()).hexdigest()
    size = f"Filename: ./{package.name}\nSize: {package.stat().st_size}\nSHA256: {digest}\n"
    (folder / "Packages").write_text(_CONTROL.format(version="1.0") + size)


def test_an_installed_version_without_a_source_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make lab-vm` installs debootstrap from backports, and `make lab-pods` unpacks it later."""
    _offer(tmp_path)
    installed = _CONTROL.format(version="2.0~bpo") + "Status: install ok installed\n"
    (tmp_path / "status").write_text(installed)
    (tmp_path / "sources.list").write_text(f"deb [trusted=yes] file:{tmp_path} ./\n")
    for name in ("lists/partial", "archives/partial"):
        (tmp_path / name).mkdir(parents=True)
    values = {
        "Dir::Etc::SourceList": tmp_path / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": tmp_path / "lists",
        "Dir::State::status": tmp_path / "status",
        "Dir::Cache": tmp_path,
        "Dir::Cache::Archives": tmp_path / "archives",
        "APT::Sandbox::User": "root",
    }
    config = tmp_path / "apt.conf"
    config.write_text("".join(f'{key} "{value}";\n' for key, value in values.items()))
    monkeypatch.setenv("APT_CONFIG", str(config))
    subprocess.run(["apt-get", "update"], check=True, capture_output=True)
    folder = unpacked(tmp_path / "cache", ("rail-tools",))
    assert (folder / "usr/rail").read_text() == "1.0\n"
