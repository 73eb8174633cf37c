"""`make catalogue`, against git repositories of this machine and a web server of its own."""

from __future__ import annotations

import re
import subprocess
from datetime import date
from pathlib import Path

import pytest

from ci.catalogue import main, newest_of, propose
from ci.catalogue_sources import LISTED, OPERATORS, UPSTREAM, Listed
from components.catalogue import upstream
from tests.artefacts.web_server import Site, serve

ROOT = Path(__file__).parents[2]
TODAY = date(2027, 1, 31)
INDEX = b"""
entries:
  gpu-operator:
  - {version: v26.10.0-rc.1}
  - {version: v26.7.1}
  - {version: v26.10.0}
  - {version: v26.9.9}
  network-operator:
  - {version: 26.7.1}
"""


def _tree(folder: Path) -> Path:
    for file in (UPSTREAM, OPERATORS):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes((ROOT / file).read_bytes())
    return folder


def _git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    done = subprocess.run(
        ["git", "-C", folder, *identity, *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def _repository(folder: Path, *tags: str) -> Path:
    """A repository with one commit, whose last tag is an annotated one."""
    folder.mkdir()
    _git(folder, "init", "-q")
    _git(folder, "commit", "-q", "--allow-empty", "-m", "one")
    for tag in tags[:-1]:
        _git(folder, "tag", tag)
    _git(folder, "tag", "-a", "-m", tags[-1], tags[-1])
    return folder


def test_each_release_of_the_catalogue_has_a_source() -> None:
    text = (ROOT / UPSTREAM).read_text("utf-8")
    named = set(re.findall(r'^([A-Z0-9_]+): Final = f?"[^"]*?\bv?\d+\.\d+', text, re.MULTILINE))
    # The base of the image is chosen for its NCCL and CUDA, and limits of NCCL are no releases.
    named -= {"PROBE_IMAGE_BASE", "PROBE_CUDA", "NCCL_ON_MACVLAN", "NCCL_SUSPECT_ON_V100"}
    named |= {each.name for each in upstream.SOURCES} | {"MPI_OPERATOR"}
    assert named == {each.name for each in LISTED}


def test_a_run_proposes_what_is_behind_as_a_diff_that_applies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = _tree(tmp_path / "tree")
    multus = _repository(tmp_path / "multus", "v4.10.0", "v4.3.0", "v5.0.0-beta.1", "v4.9.1")
    k3s = _repository(tmp_path / "k3s", "v1.99.0", "v1.98.2-rc1+k3s1", "v1.98.1+k3s2")
    nccl = _repository(tmp_path / "nccl", "nccl-9.9", "v2.19.6", "v2.20.0")
    with serve(tmp_path / "web", None, Site({"/charts/index.yaml": INDEX})) as web:
        sources = (
            Listed("GPU_OPERATOR_RELEASE", f"{web.address}/charts", "gpu-operator"),
            Listed("NETWORK_OPERATOR_RELEASE", f"{web.address}/charts", "network-operator"),
            Listed("MULTUS", str(multus)),
            Listed("K3S_RELEASE", str(k3s)),
            Listed("nccl-tests", str(nccl), built=True),
        )
        assert main(sources, tree) == 1
        assert propose(sources, tree, TODAY).silent == {}
    printed = capsys.readouterr()
    before = (tree / UPSTREAM).read_text("utf-8").splitlines()
    line = 1 + before.index(f'GPU_OPERATOR_RELEASE: Final = "{upstream.GPU_OPERATOR_RELEASE}"')
    assert (
        f"{UPSTREAM}:{line}: GPU_OPERATOR_RELEASE {upstream.GPU_OPERATOR_RELEASE} -> v26.10.0 ("
        in printed.out
    )
    assert "4 behind, of 5 whose source answered (0 did not)" in printed.err
    _git(tree, "init", "-q")
    (tmp_path / "proposal").write_text(printed.out, "utf-8")
    _git(tree, "apply", str(tmp_path / "proposal"))
    after = (tree / UPSTREAM).read_text("utf-8")
    assert 'GPU_OPERATOR_RELEASE: Final = "v26.10.0"\n' in after
    assert 'MULTUS: Final = f"{_PLUMBING}/multus-cni:v4.10.0"\n' in after
    assert 'K3S_RELEASE: Final = "v1.98.1+k3s2"\n' in after
    commit = _git(nccl, "rev-parse", "HEAD")
    assert f'        "v2.20.0",\n        "{commit}",\n' in after
    assert upstream.NETWORK_OPERATOR_RELEASE in after


def test_the_date_follows_when_all_sources_answered_and_nothing_is_behind(tmp_path: Path) -> None:
    tree = _tree(tmp_path / "tree")
    sources = (Listed("MULTUS", str(_repository(tmp_path / "multus", "v1.0", "v4.3.0"))),)
    found = propose(sources, tree, TODAY)
    assert (found.exit_code, found.behind, [*found.changes]) == (0, (), [OPERATORS])
    before, after = found.changes[OPERATORS]
    assert after == re.sub(r"(?<=AS_OF: Final = date\()[\d, ]+", "2027, 1, 31", before)
    assert after != before


def test_a_source_without_an_answer_is_no_good_news(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = _tree(tmp_path / "tree")
    with serve(tmp_path / "web", None, Site({"/index.yaml": b"entries: {}"})) as web:
        sources = (
            Listed("GPU_OPERATOR_RELEASE", web.address, "gpu-operator"),
            Listed("NETWORK_OPERATOR_RELEASE", f"{web.address}/none", "network-operator"),
            Listed("MULTUS", str(tmp_path / "gone")),
            Listed("RDMA_CNI", str(_repository(tmp_path / "rdma", "nightly", "weekly"))),
        )
        assert main(sources, tree) == 4
    printed = capsys.readouterr()
    assert printed.out == ""
    for words in (
        "no answer for GPU_OPERATOR_RELEASE: it is no index with a chart gpu-operator",
        "no answer for NETWORK_OPERATOR_RELEASE: ",
        "404",
        "no answer for MULTUS: ",
        "no answer for RDMA_CNI: it lists no release like v1.6.0",
        "0 behind, of 0 whose source answered (4 did not)",
    ):
        assert words in printed.err


def test_a_release_that_is_not_where_its_row_says_ends_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main((Listed("NO_SUCH_RELEASE", str(tmp_path)),), _tree(tmp_path / "tree")) == 2
    assert "components/catalogue/upstream.py has no release of NO_SUCH_RELEASE" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("releases", "ours", "newest"),
    [
        (("v1.9.0", "v1.10.0", "v1.10.0-rc.1"), "v1.8.0", "v1.10.0"),
        (("26.10.0", "26.9.0"), "v26.7.0", "v26.10.0"),
        (("v0.20.1",), "0.19.3", "0.20.1"),
        (("v1.37.0+k3s1", "v1.37.0+k3s2", "v1.38.0"), "v1.36.5+k3s1", "v1.37.0+k3s2"),
    ],
)
def test_newest(releases: tuple[str, ...], ours: str, newest: str) -> None:
    assert newest_of(releases, ours) == newest
