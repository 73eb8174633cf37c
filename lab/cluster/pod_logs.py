"""Logs of the lab's pods, kept in files so that they outlive a restart of K3s."""

from __future__ import annotations

from pathlib import Path

from components.core.record import record
from lab.cluster.pod_view import Pod


@record
class PodLogs:
    """A folder with one file per pod; all containers of a pod share its log."""

    folder: Path

    def _file(self, namespace: str, pod: str) -> Path:
        # Both names are DNS labels or subdomains, so they hold no slash.
        return self.folder / namespace / f"{pod}.log"

    def write(self, pod: Pod, text: str) -> None:
        """Keep the log of a pod that has ended."""
        path = self._file(pod.namespace, pod.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def read(self, namespace: str, pod: str) -> str:
        """Give a pod's log; empty where it has printed nothing."""
        if "/" in namespace or "/" in pod:
            return ""
        path = self._file(namespace, pod)
        return path.read_text() if path.is_file() else ""
