"""Build the programs of real nodes: `python -m lab.pods.build`.

kubelet and kube-proxy come from the module of the lab's API server, the others from one joint
module (`tools/`), and the device plugins and the SR-IOV plugin from one of their own each
(`shared/`, `sriov_plugin/`, `sriov_cni/`), for they need other releases of the libraries. runc is
Debian's: it is linked with libseccomp, without which containers with a seccomp profile do not
start. They go into the cache folder, under a key of modules and flags, so that a second clone
reuses them.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from components.core.errors import DeviceError
from components.core.record import record
from lab.cache import cache_root
from lab.cluster import build as cluster
from lab.cluster.build import Program, build_program
from lab.engine.go import find_go
from lab.engine.progress import locked

HERE: Final = Path(__file__).parent
TOOLS: Final = HERE / "tools"
SHARED: Final = HERE / "shared"
SRIOV_CNI: Final = HERE / "sriov_cni"
SRIOV_PLUGIN: Final = HERE / "sriov_plugin"
KUBERNETES: Final = cluster.PROGRAMS[0].module
_CONTAINERD: Final = "github.com/containerd/containerd/v2/cmd"
_CNI: Final = "github.com/containernetworking/plugins/plugins"
_MULTUS: Final = "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd"
_WHEREABOUTS: Final = "github.com/k8snetworkplumbingwg/whereabouts/cmd"
_SRIOV_CNI: Final = "github.com/intel/sriov-cni"
_SRIOV_PLUGIN: Final = "github.com/k8snetworkplumbingwg/sriov-network-device-plugin"
_STAMP: Final = cluster.PROGRAMS[0].stamp


def _of_tools(name: str, package: str, purpose: str) -> Program:
    return Program(name, package, purpose, module=TOOLS)


PROGRAMS: Final = (
    Program("kubelet", "k8s.io/kubernetes/cmd/kubelet", "runs pods", _STAMP, KUBERNETES),
    Program("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy", "Services", _STAMP, KUBERNETES),
    _of_tools("containerd", f"{_CONTAINERD}/containerd", "pulls images, keeps containers"),
    _of_tools("containerd-shim-runc-v2", f"{_CONTAINERD}/containerd-shim-runc-v2", "its shim"),
    _of_tools("ctr", f"{_CONTAINERD}/ctr", "asks containerd"),
    *(
        _of_tools(path.rpartition("/")[2], f"{_CNI}/{path}", "a CNI plugin")
        for path in (
            *("main/bridge", "main/loopback", "main/host-device", "main/macvlan"),
            *("ipam/host-local", "ipam/static", "ipam/dhcp", "meta/portmap"),
        )
    ),
    _of_tools("multus", f"{_MULTUS}/multus", "more networks for pods"),
    _of_tools("passthru", f"{_MULTUS}/passthru-cni", "comes with Multus"),
    _of_tools("thin_entrypoint", f"{_MULTUS}/thin_entrypoint", "configures Multus"),
    _of_tools("install_multus", f"{_MULTUS}/install_multus", "puts Multus on a node"),
    _of_tools("whereabouts", _WHEREABOUTS, "addresses for rails"),
    _of_tools("ip-control-loop", f"{_WHEREABOUTS}/controlloop", "frees addresses of ended pods"),
    _of_tools("ip-reconciler", f"{_WHEREABOUTS}/reconciler", "frees addresses of lost nodes"),
    _of_tools(
        "mpi-operator", "github.com/kubeflow/mpi-operator/cmd/mpi-operator", "the MPI operator"
    ),
    _of_tools("coredns", "./coredns", "the cluster's DNS"),
    Program(
        "k8s-rdma-shared-dp",
        "github.com/Mellanox/k8s-rdma-shared-dev-plugin/cmd/k8s-rdma-shared-dp",
        "publishes shared cards",
        module=SHARED,
    ),
    Program("sriov", f"{_SRIOV_CNI}/cmd/sriov", "gives VFs to pods", module=SRIOV_CNI),
    Program("sriovdp", f"{_SRIOV_PLUGIN}/cmd/sriovdp", "publishes VFs", module=SRIOV_PLUGIN),
)


@record
class ModuleFile:
    """A file that a Go module carries and an image needs."""

    name: str
    module: str
    path: str
    pinned: Path = TOOLS
    """The folder of the module that says which release."""


FILES: Final = (
    *(
        ModuleFile(
            f"whereabouts-{name}", "github.com/k8snetworkplumbingwg/whereabouts", f"script/{name}"
        )
        for name in ("install-cni.sh", "lib.sh", "token-watcher.sh")
    ),
    ModuleFile("sriov-cni-entrypoint.sh", _SRIOV_CNI, "images/entrypoint.sh", SRIOV_CNI),
    ModuleFile("sriovdp-entrypoint.sh", _SRIOV_PLUGIN, "images/entrypoint.sh", SRIOV_PLUGIN),
)


def build_key() -> str:
    """Hash what decides the programs: all module files, our own sources, packages and stamps."""
    digest = hashlib.sha256()
    for folder in (KUBERNETES, TOOLS, SHARED, SRIOV_CNI, SRIOV_PLUGIN):
        for source in (folder / "go.mod", folder / "go.sum", *sorted(folder.glob("*/*.go"))):
            digest.update(source.read_bytes())
    for program in PROGRAMS:
        digest.update(repr((program.name, program.package, program.stamp)).encode())
    digest.update(repr(FILES).encode())
    return digest.hexdigest()[:16]


def programs_folder(cache: Path | None = None) -> Path:
    """Where all programs and files lie once they are built."""
    return (cache or cache_root()) / "pods" / build_key()


def missing_programs(cache: Path | None = None) -> list[str]:
    """Names of what is not built yet."""
    folder = programs_folder(cache)
    names = (*(each.name for each in PROGRAMS), *(each.name for each in FILES))
    return [name for name in names if not (folder / name).exists()]


def ensure_programs(cache: Path | None = None) -> Path:
    """Build what is missing; the folder that has all of it.

    Raises:
        DeviceError: A build failed; the text holds Go's own words.
    """
    root = cache or cache_root()
    folder = programs_folder(root)
    if not missing_programs(root):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    # The builds of the cluster's programs hold the same lock: two at once starve each other.
    with locked(root / "cluster" / "build.lock"):
        go = find_go(root)
        missing = [each for each in PROGRAMS if not (folder / each.name).exists()]
        for number, program in enumerate(missing, 1):
            build_program(go, program, folder, f"{number} of {len(missing)}")
        for file in FILES:
            _copy_file(go, file, folder)
    return folder


def _copy_file(go: Path, file: ModuleFile, folder: Path) -> None:
    """From the module in the release that is pinned."""
    words = [str(go), "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", file.module]
    done = subprocess.run(
        words, cwd=file.pinned, capture_output=True, text=True, timeout=300, check=False
    )
    source = Path(done.stdout.strip()) / file.path
    if done.returncode or not source.is_file():
        raise DeviceError(f"cannot read {file.path} of {file.module}: {done.stderr.strip()}")
    draft = folder / f".{file.name}.new"
    shutil.copyfile(source, draft)
    draft.chmod(0o755)
    draft.replace(folder / file.name)


def main() -> int:
    """Build everything and print where it is; 1 with one message where it fails."""
    try:
        print(ensure_programs())
    except DeviceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
