"""What one server alone does for the whole cluster: controllers, kwok, the node agent.

K3s runs the controllers on every server and lets them elect a leader. In the lab they follow
etcd's leader instead: one election, and the memory of one set of processes.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from components.core.errors import DeviceError
from lab.cluster.etcd_members import follow_removals
from lab.cluster.fake_nodes import start_kwok
from lab.cluster.node_agent import NodeAgent
from lab.cluster.plane import ControlPlane

_STAGES = ("nodes_and_pods.yaml",)
_THREAD_S = 3.0


@dataclass(slots=True)
class Leader:
    """Starts and ends the cluster's one set of controllers as leadership comes and goes."""

    plane: ControlPlane
    kwok: Path
    """The kwok program."""
    make_agent: Callable[[], NodeAgent]
    _stop: threading.Event = field(default_factory=threading.Event)
    _worker: threading.Thread | None = None
    _seen: set[str] = field(default_factory=set[str])
    _followed: str = ""
    """The revision in which it last looked for members to remove."""

    def follow(self) -> None:
        """Act if this server leads, else do not; what etcd cannot say now changes nothing."""
        try:
            status = self.plane.members.status()
        except DeviceError as error:
            _log(f"etcd: {error}")
            return
        leads = status.leads
        try:
            if leads and self._worker is None:
                self.start()
            elif not leads and self._worker is not None:
                self.stop()
            if leads and status.revision != self._followed:
                follow_removals(self.plane.admin, self.plane.members, self._seen)
                self._followed = status.revision
        except DeviceError as error:
            _log(f"leader: {error}")
            if self._worker is None:
                self.stop()  # half started: the next look tries again

    def start(self) -> None:
        """Start everything.

        Raises:
            DeviceError: A process ended, or the API did not answer in time.
        """
        self.plane.start_controllers()
        plane = self.plane
        plane.children.append(
            start_kwok(self.kwok, plane.admin, plane.kubeconfig, plane.folder, _STAGES)
        )
        self._stop = threading.Event()
        self._worker = threading.Thread(
            target=self.make_agent().run, args=(self._stop, plane.members.status), daemon=True
        )
        self._worker.start()

    def stop(self) -> None:
        """End everything."""
        self._stop.set()
        if self._worker is not None:
            self._worker.join(_THREAD_S)
        self._worker = None
        self._seen.clear()
        self._followed = ""
        self.plane.stop_named("kwok", "kube-scheduler", "kube-controller-manager")


def _log(text: str) -> None:
    print(f'level=warning msg="{text}"', file=sys.stderr, flush=True)
