"""Build the lab's Kubernetes from one joint Go module: `python -m lab.cluster.build`.

Nine programs, all from pinned modules (`tools/go.mod`, `tools/go.sum`). They go into the cache
folder, under a key made of the module files, the flags and our own source, so that a second clone
reuses them. A lock lets two builders wait for each other, every program is put in place in one
step, and one that is already there is not built again. The manifests that the modules carry (the
MPI operator's, Multus') are copied beside them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from components.core.errors import DeviceError
from components.core.record import record
from lab.cache import cache_root
from lab.cluster.document import Json, text_at
from lab.cluster.release import K3S_VERSION
from lab.engine.go import COMPILER_ENVIRONMENT, COMPILER_FLAGS, find_go
from lab.engine.progress import locked, run_shown

KUBERNETES_VERSION = "v1.36.3"

_TOOLS = Path(__file__).parent / "tools"
_STAMP = "k8s.io/component-base/version"
_KUBE_FLAGS = f"-X {_STAMP}.gitVersion={K3S_VERSION} -X {_STAMP}.gitMajor=1 -X {_STAMP}.gitMinor=36"
_ENV = {"CGO_ENABLED": "0", "GOFLAGS": "-trimpath -buildvcs=false -mod=readonly"}
_PACKAGES = 3058
"""`go list -deps` of all programs: what is compiled if Go's cache is empty."""
_BUILD_DEADLINE_S = 3600.0
"""252 s cold on two idle cores (sources.md#kubernetes-in-the-lab); a shared machine needs more."""


@record
class Program:
    """One program to build: what for, from which package, with which linker flags."""

    name: str
    package: str
    purpose: str
    stamp: str = ""
    module: Path = _TOOLS
    """The folder of the joint module that pins it."""

    @property
    def linker_flags(self) -> str:
        """What `-ldflags` gets: no tables of symbols, and the stamp."""
        return f"-s -w {self.stamp}".strip()


PROGRAMS = (
    Program("kubectl", "k8s.io/kubernetes/cmd/kubectl", "the command line", _KUBE_FLAGS),
    Program("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", "the API", _KUBE_FLAGS),
    Program(
        "kube-controller-manager",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
        "Deployments, Jobs, DaemonSets",
        _KUBE_FLAGS,
    ),
    Program("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", "places pods", _KUBE_FLAGS),
    Program("etcd", "go.etcd.io/etcd/server/v3", "the API's store"),
    Program("etcdutl", "go.etcd.io/etcd/etcdutl/v3", "restores snapshots of it"),
    Program(
        "kwok",
        "sigs.k8s.io/kwok/cmd/kwok",
        "plays nodes and pods",
        "-X sigs.k8s.io/kwok/pkg/consts.Version=v0.8.0",
    ),
    Program("mpi-controller", "./mpicontroller", "the MPI operator's controller"),
    Program(
        "helm",
        "helm.sh/helm/v3/cmd/helm",
        "installs charts",
        "-X helm.sh/helm/v3/internal/version.version=v3.19.5",
    ),
)


@record
class Manifest:
    """A manifest that a Go module carries, at an exact version."""

    name: str
    module: str
    version: str
    path: str


MANIFESTS = (
    Manifest(
        "mpi-operator.yaml",
        "github.com/kubeflow/mpi-operator",
        "v0.8.2",
        "deploy/v2beta1/mpi-operator.yaml",
    ),
    Manifest(
        "multus-daemonset.yml",
        "gopkg.in/k8snetworkplumbingwg/multus-cni.v4",
        "v4.3.0",
        "deployments/multus-daemonset.yml",
    ),
)


def build_key() -> str:
    """Hash what decides the programs: module files, our sources, flags and stamps."""
    digest = hashlib.sha256()
    sources = [_TOOLS / "go.mod", _TOOLS / "go.sum", *sorted(_TOOLS.glob("*/*.go"))]
    for source in sources:
        digest.update(source.relative_to(_TOOLS).as_posix().encode())
        digest.update(source.read_bytes())
    for program in PROGRAMS:
        digest.update(repr((program.name, program.package, program.stamp)).encode())
    digest.update(repr(sorted(_ENV.items())).encode())
    return digest.hexdigest()[:16]


def build_folder(cache: Path) -> Path:
    """Name the folder of this build under the cache folder."""
    return cache / "cluster" / build_key()


def built(cache: Path | None = None) -> dict[str, Path]:
    """Give the paths of the programs that are there already, by name."""
    folder = build_folder(cache or cache_root())
    paths = {program.name: folder / program.name for program in PROGRAMS}
    return {name: path for name, path in paths.items() if path.exists()}


def whole_build() -> dict[str, Path]:
    """Give the paths of all programs, for who must not build them.

    Raises:
        DeviceError: One is missing.
    """
    paths = built()
    missing = sorted({program.name for program in PROGRAMS} - set(paths))
    if missing:
        raise DeviceError(
            f"the lab's Kubernetes is not built ({', '.join(missing)} missing): "
            "run `python -m lab.cluster.build`"
        )
    return paths


def ensure_binaries(cache: Path | None = None) -> dict[str, Path]:
    """Build what is missing and give all paths by name: programs and manifests.

    Raises:
        DeviceError: Go is missing or too old, or a build failed; the text holds Go's own words.
    """
    root = cache or cache_root()
    folder = build_folder(root)
    paths = {program.name: folder / program.name for program in PROGRAMS}
    paths |= {manifest.name: folder / manifest.name for manifest in MANIFESTS}
    if all(path.exists() for path in paths.values()):
        return paths
    folder.mkdir(parents=True, exist_ok=True)
    with locked(root / "cluster" / "build.lock"):
        go = find_go(root)
        for manifest in MANIFESTS:
            if not paths[manifest.name].exists():
                _copy_manifest(go, manifest, paths[manifest.name])
        if missing := [program for program in PROGRAMS if not paths[program.name].exists()]:
            _build_together(go, missing, folder)
    return paths


def _build_together(go: Path, programs: Sequence[Program], folder: Path) -> None:
    """Build programs of the joint module in one call, which reads the module once, not nine times.

    Raises:
        DeviceError: It did not end well; the text holds Go's own words.
    """
    stamps = [f"-ldflags={each.package}={each.linker_flags}" for each in programs]
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as draft:
        _go_build(
            [str(go), "build", "-v", *COMPILER_FLAGS, *stamps, "-o", f"{draft}/"],
            [each.package for each in programs],
            f"building {len(programs)} programs of the lab's Kubernetes",
            _TOOLS,
            _PACKAGES,
        )
        for each in programs:
            (Path(draft) / _file_name(each.package)).replace(folder / each.name)


def _file_name(package: str) -> str:
    """The name that Go gives a program: the last part of its path that is no version."""
    *_, before, last = package.split("/")
    return before if re.fullmatch(r"v\d+", last) else last


def _go_env() -> Mapping[str, str]:
    local = {"GOTOOLCHAIN": "local", "GOWORK": "off"}
    return {**os.environ, **_ENV, **COMPILER_ENVIRONMENT, **local}


def build_program(go: Path, program: Program, folder: Path, position: str) -> None:
    """Build one program into a folder; it appears there whole or not at all.

    Args:
        go: A Go that is new enough.
        program: What to build.
        folder: Where it goes.
        position: For the person who waits: `2 of 8`.

    Raises:
        DeviceError: It did not build; the text holds Go's own words.
    """
    draft = folder / f".{program.name}.new"
    _go_build(
        [str(go), "build", *COMPILER_FLAGS, f"-ldflags={program.linker_flags}", "-o", str(draft)],
        [program.package],
        f"building {program.name} ({program.purpose}), {position}",
        program.module,
    )
    draft.replace(folder / program.name)


def _go_build(
    command: list[str], packages: list[str], what: str, module: Path, lines: int = 0
) -> None:
    status, output = run_shown(
        [*command, *packages],
        what,
        _BUILD_DEADLINE_S,
        directory=module,
        environment=_go_env(),
        lines=lines,
    )
    if status:
        raise DeviceError(
            f"{what} failed (go build {' '.join(packages)} in {module}):\n"
            f"{output[-3000:]}\nCheck that the Go module proxy can be reached "
            f"(`{command[0]} env GOPROXY`), then run the same command again; what is built is kept."
        )


def _copy_manifest(go: Path, manifest: Manifest, target: Path) -> None:
    wanted = f"{manifest.module}@{manifest.version}"
    print(f"fetching {manifest.name} from {wanted}", flush=True)
    # Outside the joint module: these versions are only read, and do not belong to its graph.
    done = subprocess.run(
        [str(go), "mod", "download", "-json", wanted],
        cwd=target.parent,
        env={**_go_env(), "GOFLAGS": "-mod=mod"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    folder = text_at(cast("Json", json.loads(done.stdout or "{}")), "Dir")
    if done.returncode or not folder:
        raise DeviceError(f"cannot fetch the module {wanted}: {done.stderr or done.stdout}")
    draft = target.with_name(f".{target.name}.new")
    shutil.copyfile(Path(folder) / manifest.path, draft)
    draft.replace(target)


def main() -> int:
    """Build everything and print the paths; exit code 1 with one message where it fails."""
    try:
        paths = ensure_binaries()
    except DeviceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for name, path in sorted(paths.items()):
        print(f"{name}\t{path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
