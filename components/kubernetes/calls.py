"""One request to a Kubernetes API, with the status that it answered: for what needs more than CRUD.

An eviction that a disruption budget refuses is an answer (429), not a failure; so is a node that
is not there (404).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from components.core.errors import UnreachableError
from components.core.limits import LOG_BYTES, Deadline, end_within, read_all
from components.kubernetes.client import make_client

Body = Mapping[str, Any]
REQUEST_DEADLINE_S: Final = 5.0
"""Seconds for one try of a request."""
TRIES: Final = 4
"""How often the client tries before it gives up: urllib3's three retries, and the first try."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API answered."""

    status: int
    text: str

    @property
    def body(self) -> Body:
        """The object; empty where the answer is none."""
        try:
            document: object = json.loads(self.text)
        except ValueError:
            return {}
        return cast("Body", document) if isinstance(document, dict) else {}

    @property
    def words(self) -> str:
        """Why, in the API's words."""
        return str(self.body.get("message") or self.text.strip()[:200] or f"status {self.status}")


class Calls(Protocol):
    """A cluster that can be asked."""

    def call(self, method: str, path: str, body: Body | None = None) -> Answer:
        """Send one request.

        Raises:
            UnreachableError: There was no answer.
        """
        ...


class KubernetesCalls:
    """`Calls` over the official client, from the text of a kubeconfig.

    The client takes a second to load, and most runs on a host never need it.
    """

    def __init__(self, kubeconfig: str, deadline_s: float = REQUEST_DEADLINE_S) -> None:
        """Read the kubeconfig; nothing is connected yet. The deadline is that of one try.

        Raises:
            DeviceError: It cannot be used.
        """
        self._client, self._deadline_s = make_client(kubeconfig), deadline_s

    def call(self, method: str, path: str, body: Body | None = None) -> Answer:
        """Send one request; a PATCH is a JSON merge patch."""
        from kubernetes.client.exceptions import ApiException  # noqa: PLC0415 - lazy on purpose
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 - lazy on purpose

        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        sent = self._client.param_serialize(
            method,
            path,
            header_params={"Accept": "application/json, */*", "Content-Type": kind},
            body=dict(body) if body is not None else None,
            auth_settings=["BearerToken"],
        )
        try:
            with end_within(Deadline(TRIES * self._deadline_s)):
                answer = self._client.call_api(*sent, _request_timeout=self._deadline_s)
                # The client's own timeout starts again with each byte, and its `read` has no limit.
                data = read_all(answer.response.read1, Deadline(self._deadline_s), LOG_BYTES)
        except (HTTPError, ApiException, OSError) as error:
            words = str(error).strip().splitlines()[-1]
            raise UnreachableError(
                f"the cluster did not answer {method} {path}: {words}"
            ) from error
        return Answer(int(answer.status), data.decode(errors="replace"))
