"""The link from a lab host to the lab daemon: one JSON line there, one JSON line back."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import cast

from components.core.errors import DeviceError
from components.core.record import record
from lab.cluster.document import Doc, Json, as_doc, text_at
from lab.cluster.ipam import Asked
from lab.cluster.lab_socket import exchange


@record
class LabLink:
    """Where the lab daemon listens; without a socket every request is refused."""

    control: Path | None

    def ask(self, request: Doc) -> Doc:
        """Send one request to the lab daemon.

        Raises:
            DeviceError: there is no daemon, or it refused; the text is its own.
        """
        if self.control is None:
            raise DeviceError("no lab daemon is known here (RAILYARD_LAB_CONTROL is not set)")
        try:
            text = exchange(self.control, json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise DeviceError(
                f"the lab daemon at {self.control} does not answer: {error}"
            ) from error
        reply = as_doc(cast("Json", json.loads(text or "{}")))
        if not reply or text_at(reply, "error"):
            raise DeviceError(text_at(reply, "error") or "the lab daemon gave no answer")
        return reply

    def ask_dhcp(self, asked: Asked) -> str:
        """What a DHCP server in a VLAN of the fabric answers; empty where none does."""
        try:
            return text_at(self.ask({"op": "dhcp", **cast("Doc", asdict(asked))}), "address")
        except DeviceError:
            return ""  # a lab without such a server is a network without one
