"""Where kubespray comes from: real git and archives, each refused unless it is the pinned one."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Final

import pytest

from components.core.errors import DeviceError
from components.kubernetes.kubespray.tree import bring_tree, tree_digest
from components.kubernetes.kubespray.wanted import Source
from tests.preflight.served import Answer, serve

RELEASE: Final = "v2.31.0"
VERSION: Final = "v1.34.7"
FILES: Final = {
    "galaxy.yml": "version: 2.31.0\n",
    "cluster.yml": "[]\n",
    "roles/kubespray_defaults/vars/main/checksums.yml": (
        "kubelet_checksums: {amd64: {1.35.4: x, 1.34.7: y}}\n"
    ),
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "railyard" / "kubespray" / "trees"


def git(folder: Path, *words: str) -> str:
    person = ("-c", "user.name=x", "-c", "user.email=x@example", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(folder), *person, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def repository(folder: Path) -> tuple[Path, str]:
    """A repository whose annotated tag is the release, and the tag's commit."""
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch", "master")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder, tagged(folder)


def tagged(folder: Path) -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "release")
    git(folder, "tag", "--force", "--annotate", "--message", "release", RELEASE)
    return git(folder, "rev-parse", "HEAD")


def archive(**changed: str) -> bytes:
    """A `.tar.gz` as GitHub makes it: everything in one folder."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, text in {**FILES, **changed}.items():
            entry = tarfile.TarInfo(f"kubespray-2.31.0/{name}")
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()


def refused(source: Source, pin: str, release: str = RELEASE) -> str:
    with pytest.raises(DeviceError) as caught:
        bring_tree(source, release, pin, VERSION)
    return str(caught.value)


def test_a_tag_with_the_commit_of_the_file_is_cloned_once(tmp_path: Path, cache: Path) -> None:
    folder, commit = repository(tmp_path / "kubespray")
    source = Source("git", f"file://{folder}")
    tree, digest = bring_tree(source, RELEASE, commit, VERSION)
    assert tree == cache / commit
    assert (tree / "cluster.yml").read_text() == "[]\n"

    (tree / "cluster.yml").write_text("- hosts: all\n")
    assert bring_tree(source, RELEASE, commit, VERSION) == (tree, digest), "cloned again"
    assert (tree / "cluster.yml").read_text() == "[]\n"

    shutil.rmtree(folder)
    assert bring_tree(source, RELEASE, commit, VERSION) == (tree, digest), "nothing is asked"


def test_a_tag_that_was_moved_is_refused(tmp_path: Path, cache: Path) -> None:
    folder, commit = repository(tmp_path / "kubespray")
    (folder / "cluster.yml").write_text("- hosts: all\n")
    moved = tagged(folder)
    said = refused(Source("git", f"file://{folder}"), commit)
    assert f"the tag v2.31.0 is commit {moved}, and the file says {commit}" in said
    assert not (cache / commit).exists()


def test_a_tag_or_a_repository_that_is_not_there_is_said(tmp_path: Path) -> None:
    folder, commit = repository(tmp_path / "kubespray")
    said = refused(Source("git", f"file://{folder}"), commit, "v2.30.0")
    assert "Remote branch v2.30.0 not found" in said
    assert "fix    correct kubernetes.source.git and release" in said
    said = refused(Source("git", f"file://{tmp_path}/none"), commit)
    assert "does not appear to be a git repository" in said


def test_an_archive_with_its_checksum_is_unpacked_once(tmp_path: Path, cache: Path) -> None:
    packed = archive()
    pin = hashlib.sha256(packed).hexdigest()
    place = tmp_path / "kubespray.tar.gz"
    place.write_bytes(packed)
    tree, digest = bring_tree(Source("archive", str(place)), RELEASE, pin, VERSION)
    assert (tree, digest) == (cache / pin, tree_digest(tree))
    assert (tree / "galaxy.yml").read_text() == "version: 2.31.0\n"
    place.unlink()
    assert bring_tree(Source("archive", str(place)), RELEASE, pin, VERSION) == (tree, digest)


def test_an_archive_is_fetched_over_https(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = archive()
    pin = hashlib.sha256(packed).hexdigest()
    with serve({"/kubespray.tar.gz": Answer(body=packed)}, tmp_path) as served:
        monkeypatch.setenv("SSL_CERT_FILE", str(served.authority))
        source = Source("archive", f"{served.address}/kubespray.tar.gz")
        tree, _ = bring_tree(source, RELEASE, pin, VERSION)
        assert (tree / "cluster.yml").is_file()
        said = refused(source, "1" * 64)
        gone = refused(Source("archive", f"{served.address}/none.tar.gz"), "1" * 64)
    assert pin in said
    assert "1" * 64 in said
    assert "404" in gone


def test_another_archive_is_refused(tmp_path: Path, cache: Path) -> None:
    place = tmp_path / "kubespray.tar.gz"
    source = Source("archive", str(place))
    assert f"{place} is not there" in refused(source, "1" * 64)
    packed = archive()
    place.write_bytes(packed)
    found = hashlib.sha256(packed).hexdigest()
    wrong = f"{place} has the checksum {found}, and the file says {'1' * 64}"
    assert wrong in refused(source, "1" * 64)
    older = archive(**{"galaxy.yml": "version: 2.30.0\n"})
    place.write_bytes(older)
    said = refused(source, hashlib.sha256(older).hexdigest())
    assert "the tree says to be release v2.30.0, and the file says v2.31.0" in said
    assert not (cache / ("1" * 64)).exists()


def test_half_an_archive_and_one_that_climbs_out_are_refused(tmp_path: Path, cache: Path) -> None:
    place = tmp_path / "kubespray.tar.gz"
    whole = archive()
    for packed in (whole[: len(whole) // 2], archive(**{"../../climbed": "x"}), b"no archive"):
        place.write_bytes(packed)
        pin = hashlib.sha256(packed).hexdigest()
        said = refused(Source("archive", str(place)), pin)
        assert f"{place}: cannot be unpacked" in said
        assert not (cache / pin).exists()
    assert not list(tmp_path.rglob("climbed"))
