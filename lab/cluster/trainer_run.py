"""Kubeflow Trainer and JobSet on a plane: definitions, webhooks, and the released controllers.

Both run with the rights of an administrator and beside the cluster, as the lab's MPI operator does;
their webhooks are called by address. What a release changes of its manifests by kustomize (the
selector of JobSet's webhooks of pods) is done here (docs/explanation/sources.md#trainer).
"""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import yaml

from lab.cluster.document import Doc
from lab.cluster.pki import KeyPair
from lab.cluster.plane import ControlPlane
from lab.cluster.process import Child, wait_until
from lab.cluster.trainer_build import DEFINITIONS, JOBSET, TRAINER, WEBHOOKS

_PORTS: Final = {TRAINER: 9443, JOBSET: 9444}
_OFF: Final = "0"
"""In the place of an address: nothing listens."""
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_OF_JOBSETS: Final = {
    "matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]
}
_DEADLINE_S: Final = 60.0


@dataclass(slots=True)
class TrainerControllers:
    """The two controllers of one plane."""

    plane: ControlPlane
    built: Path
    """What `ensure_trainer` gave."""
    folder: Path
    """For configuration, certificates and logs."""
    _children: list[Child] = field(default_factory=list[Child])

    def start(self) -> None:
        """Make the definitions, start both, and register their webhooks.

        Raises:
            DeviceError: The API refused an object, or a controller ended or never listened.
        """
        for file in DEFINITIONS:
            for body in _documents(self.built / file.name):
                self.plane.admin.apply(f"{_DEFINITIONS}/{_name(body)}", body)
        for group, kind in (("jobset.x-k8s.io/v1alpha2", "jobsets"), _TRAIN_JOBS):
            path = f"/apis/{group}/{kind}"
            wait_until(path, lambda path=path: self.plane.admin.answers(path), _DEADLINE_S)
        pair = KeyPair(self.folder / "tls.crt", self.folder / "tls.key")
        self.plane.ca.issue(pair, "webhooks", sans=[self.plane.address])
        for name in (JOBSET, TRAINER):
            self._launch(name, pair)
        for file in WEBHOOKS:
            self._register(self.built / file.name, file.name.removesuffix(".yaml"))

    def _launch(self, name: str, pair: KeyPair) -> None:
        own = self.folder / name
        certificates = own / "k8s-webhook-server" / "serving-certs"
        certificates.mkdir(parents=True)
        for file in (pair.cert, pair.key):
            (certificates / file.name).write_bytes(file.read_bytes())
        config = own / "config.json"
        config.write_text(json.dumps(_configuration(name, self.plane.address)))
        argv = [str(self.built / name), f"--config={config}"]
        child = Child(name, argv, self.folder / "logs" / f"{name}.log")
        # controller-runtime looks for certificates under the folder for temporary files.
        child.start({"KUBECONFIG": str(self.plane.kubeconfig), "TMPDIR": str(own)})
        self._children.append(child)

        def listens() -> bool:
            child.check_running()
            with suppress(OSError), socket.create_connection((self.plane.address, _PORTS[name]), 1):
                return True
            return False

        wait_until(f"the webhooks of {name}", listens, _DEADLINE_S)

    def _register(self, manifests: Path, name: str) -> None:
        authority = base64.b64encode(self.plane.ca.files.cert.read_bytes()).decode()
        for body in _documents(manifests):
            for hook in cast("Any", body)["webhooks"]:
                path = hook["clientConfig"]["service"]["path"]
                url = f"https://{self.plane.address}:{_PORTS[name]}{path}"
                hook["clientConfig"] = {"url": url, "caBundle": authority}
                if path.endswith("-v1-pod"):
                    hook["objectSelector"] = _OF_JOBSETS
            kind = str(body["kind"])
            cast("Any", body)["metadata"] = {"name": name}
            self.plane.admin.apply(f"{_ADMISSION}/{kind.lower()}s/{name}", body)

    def stop(self) -> None:
        """End both."""
        for child in reversed(self._children):
            child.stop()
        self._children.clear()


_TRAIN_JOBS: Final = ("trainer.kubeflow.org/v1alpha1", "trainjobs")


def _documents(file: Path) -> Iterable[Doc]:
    load = cast("Any", yaml.load_all)
    return [each for each in load(file.read_text(), Loader=yaml.CSafeLoader) if each]


def _name(body: Doc) -> str:
    return str(cast("Any", body)["metadata"]["name"])


def _configuration(name: str, address: str) -> Doc:
    """Webhooks on the plane's own address, and nothing else that listens; no leader is elected."""
    certificates = "certManagement" if name == TRAINER else "internalCertManagement"
    group = "trainer.kubeflow.org" if name == TRAINER else "jobset.x-k8s.io"
    return {
        "apiVersion": f"config.{group}/v1alpha1",
        "kind": "Configuration",
        "webhook": {"host": address, "port": _PORTS[name]},
        "metrics": {"bindAddress": _OFF},
        "health": {"healthProbeBindAddress": _OFF},
        "leaderElection": {"leaderElect": False},
        certificates: {"enable": False},
    }
