"""Build Kubeflow Trainer and JobSet: `python -m lab.cluster.trainer_build`.

Both are the released programs. They have a module of their own (`trainer/`), because no cluster of
the lab needs them before a story plays a TrainJob.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Final

from components.core.errors import DeviceError
from lab.cluster.build import Program, build_program
from lab.cluster.module_files import ModuleFile, copy_module_file
from lab.engine.go import find_go
from lab.engine.install import cache_root
from lab.engine.progress import locked

_MODULE: Final = Path(__file__).parent / "trainer"
_TRAINER: Final = "github.com/kubeflow/trainer/v2"
_JOBSET: Final = "sigs.k8s.io/jobset"
TRAINER: Final = "trainer-controller-manager"
JOBSET: Final = "jobset-controller-manager"
PROGRAMS: Final = (
    Program(TRAINER, f"{_TRAINER}/cmd/{TRAINER}", "Kubeflow Trainer", module=_MODULE),
    Program(JOBSET, _JOBSET, "JobSet, which Trainer makes", module=_MODULE),
)
DEFINITIONS: Final = tuple(
    ModuleFile(path.rpartition("/")[2], module, path, _MODULE)
    for module, path in (
        *(
            (_TRAINER, f"manifests/base/crds/trainer.kubeflow.org_{plural}.yaml")
            for plural in ("clustertrainingruntimes", "trainingruntimes", "trainjobs")
        ),
        (_JOBSET, "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"),
    )
)
WEBHOOKS: Final = (
    ModuleFile(f"{TRAINER}.yaml", _TRAINER, "manifests/base/webhook/manifests.yaml", _MODULE),
    ModuleFile(f"{JOBSET}.yaml", _JOBSET, "config/components/webhook/manifests.yaml", _MODULE),
)


def build_key() -> str:
    """Hash what decides the programs: the files of the module and the packages."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((_MODULE / name).read_bytes())
    digest.update(repr([(each.name, each.package) for each in PROGRAMS]).encode())
    return digest.hexdigest()[:16]


def ensure_trainer(cache: Path | None = None) -> Path:
    """Build what is missing; the folder that has programs and manifests.

    Raises:
        DeviceError: Go is missing or too old, or a build failed; the text holds Go's own words.
    """
    root = cache or cache_root()
    folder = root / "trainer" / build_key()
    files = (*DEFINITIONS, *WEBHOOKS)
    if all((folder / each.name).exists() for each in (*PROGRAMS, *files)):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    # The builds of the cluster's programs hold the same lock: two at once starve each other.
    with locked(root / "cluster" / "build.lock"):
        go = find_go(root)
        missing = [each for each in PROGRAMS if not (folder / each.name).exists()]
        for number, program in enumerate(missing, 1):
            build_program(go, program, folder, f"{number} of {len(missing)}")
        for file in files:
            copy_module_file(go, file, folder)
    return folder


def main() -> int:
    """Build everything and print where it is; 1 with one message where it fails."""
    try:
        print(ensure_trainer())
    except DeviceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
