"""The MPI operator: its Deployment is played, its controller is real.

Once the release manifest's Deployment is ready, the controller runs as a process with a token of
the operator's own ServiceAccount, so the shipped RBAC is what lets it work.
"""

from __future__ import annotations

import json
from pathlib import Path

from lab.cluster.api import Api
from lab.cluster.document import Doc, Json, number_at, text_at
from lab.cluster.pki import write_private
from lab.cluster.process import Child

_DEPLOYMENT = "/apis/apps/v1/namespaces/mpi-operator/deployments/mpi-operator"
_TOKEN = "/api/v1/namespaces/mpi-operator/serviceaccounts/mpi-operator/token"  # noqa: S105 - a path
_TOKEN_LIFE_S = 365 * 24 * 3600


class MpiOperator:
    """Starts and ends the real controller as its Deployment comes and goes."""

    def __init__(self, api: Api, binary: Path, folder: Path) -> None:
        """Prepare for the cluster behind `api`; files go under `folder`."""
        self._api = api
        self._binary = binary
        self._folder = folder
        self._child: Child | None = None
        self._deployment = ""

    def follow(self) -> None:
        """Start the controller if its Deployment is ready, end it if that is gone."""
        deployment = self._api.find(_DEPLOYMENT)
        uid = text_at(deployment, "metadata", "uid")
        if self._child and (uid != self._deployment or not self._child.running):
            self.stop()
        if deployment and not self._child and number_at(deployment, "status", "readyReplicas"):
            self._deployment = uid
            self._start()

    def _start(self) -> None:
        request: Doc = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": _TOKEN_LIFE_S},
        }
        token = text_at(self._api.request("POST", _TOKEN, request), "status", "token")
        cluster: Json = {"server": self._api.server, "certificate-authority": str(self._api.ca)}
        config: Doc = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "lab", "cluster": cluster}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "mpi-operator"}}],
            "current-context": "lab",
            "users": [{"name": "mpi-operator", "user": {"token": token}}],
        }
        path = self._folder / "mpi-operator.kubeconfig"
        write_private(path, json.dumps(config).encode())
        argv = [str(self._binary), f"--kubeconfig={path}"]
        self._child = Child("mpi-controller", argv, self._folder / "logs" / "mpi-controller.log")
        self._child.start()

    def stop(self) -> None:
        """End the controller."""
        if self._child:
            self._child.stop()
        self._child = None
