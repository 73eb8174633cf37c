"""The lab's kubelet endpoint: serves container logs to the API server, and to nobody else.

kwok's own endpoint checks no identity; this one demands the API
server's kubelet client certificate.
"""

from __future__ import annotations

from collections.abc import Callable

from lab.cluster.https import OK, Request, Response

PORT = 10250
API_SERVER = "kube-apiserver-kubelet-client"
_FORBIDDEN = 403
_NOT_FOUND = 404
_PATH_PARTS = 4
"""`containerLogs`, namespace, pod, container."""

ReadLog = Callable[[str, str], str]


def make_kubelet(read_log: ReadLog) -> Callable[[Request], Response]:
    """Make the answering side of a kubelet; `read_log(namespace, pod)` gives the text."""

    def answer(request: Request) -> Response:
        if request.client != API_SERVER:
            return Response(_FORBIDDEN, b"Forbidden: this certificate may not ask a kubelet\n")
        parts = request.path.strip("/").split("/")
        if len(parts) != _PATH_PARTS or parts[0] != "containerLogs":
            return Response(_NOT_FOUND, b"the lab's kubelet serves /containerLogs only\n")
        text = read_log(parts[1], parts[2])
        tail = request.query.get("tailLines", "")
        if tail.isdigit():
            lines = text.splitlines(keepends=True)
            text = "".join(lines[len(lines) - min(int(tail), len(lines)) :])
        return Response(OK, text.encode())

    return answer
