"""What the evidence step hands to `railyard evidence collect`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import TypeAdapter, ValidationError

from components.acceptance.plan import AcceptancePlan
from components.core.errors import Bug
from components.core.to_json import to_json

EVIDENCE_STEP: Final = "acceptance-evidence"
VERDICT_STEP: Final = "acceptance-gate"
UNASKED: Final = "nothing asks for another proof"
"""The note of the evidence step in such a run; it is in no input."""


@dataclass(frozen=True, slots=True)
class AcceptRequest:
    """What the evidence resource hands to `railyard evidence collect` on stdin."""

    plan_digest: str
    stack: str
    provenance: Literal["real", "lab"]
    acceptance: AcceptancePlan
    shared: str = ""
    """Digest of what all hosts of a cluster share: while it stays, a scope may be proven alone."""


def render_accept_request(request: AcceptRequest) -> str:
    """The request as indented JSON; the number of the run is in the command."""
    return json.dumps(to_json(request), indent=1, sort_keys=True) + "\n"


def parse_accept_request(text: str) -> AcceptRequest:
    """Read a request.

    Raises:
        Bug: The text is no request: only our own component writes them.
    """
    try:
        return TypeAdapter(AcceptRequest).validate_json(text)
    except ValidationError as error:
        raise Bug(f"the acceptance request cannot be read: {error}") from error
