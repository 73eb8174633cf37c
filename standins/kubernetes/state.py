"""What the plugin keeps in Pulumi's state for an object: its live form and the inputs beside it."""

from __future__ import annotations

from dataclasses import dataclass

from standins.kubernetes.values import (
    JsonMap,
    annotate_secrets,
    as_map,
    as_text,
    copy_map,
    to_dashed,
    to_underscored,
)
from standins.values import is_secret, reveal, seal

INPUTS = "__inputs"
API_VERSION = "__initialApiVersion"
FIELD_MANAGER = "__fieldManager"


class InitFailedError(Exception):
    """Something was created or changed but is not complete: the engine keeps it, half done."""

    def __init__(
        self,
        message: str,
        resource_id: str,
        state: JsonMap,
        reasons: list[str],
        inputs: JsonMap | None = None,
    ) -> None:
        """Keeps what the engine has to record."""
        super().__init__(message)
        self.resource_id = resource_id
        self.state = state
        self.reasons = [message, *reasons]
        self.inputs = inputs


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An object's recorded state, opened: without secret envelopes, in Kubernetes' spelling."""

    inputs: JsonMap
    live: JsonMap
    raw: JsonMap


def open_checkpoint(state: JsonMap) -> Checkpoint:
    """Reads recorded state."""
    plain = as_map(to_dashed(reveal(state)))
    live = {key: item for key, item in plain.items() if not key.startswith("__")}
    return Checkpoint(as_map(plain.get(INPUTS)), live, as_map(reveal(state)))


def make_checkpoint(
    inputs: JsonMap, live: JsonMap, secret_inputs: JsonMap, field_manager: str, api_version: str
) -> JsonMap:
    """Builds the state to record: what was secret in `secret_inputs` stays secret in it."""
    state = copy_map(as_map(to_underscored(live)))
    recorded = copy_map(as_map(to_underscored(inputs)))
    annotate_secrets(state, secret_inputs)
    annotate_secrets(recorded, secret_inputs)
    if is_secret(secret_inputs.get("stringData")) and "data" in state:
        state["data"] = seal(state["data"])
    state[INPUTS] = recorded
    state[API_VERSION] = api_version
    state[FIELD_MANAGER] = field_manager
    return state


def api_version_of(checkpoint: Checkpoint) -> str:
    """Returns the API version that the object was created with."""
    return as_text(checkpoint.raw.get(API_VERSION)) or as_text(checkpoint.inputs.get("apiVersion"))
