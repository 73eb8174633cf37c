"""What a program registered, as plain values: assertions are made on these after the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from components.core.problem import Json

SECRET_KEY: Final = "4dabf18193072939515e22adb298388d"  # noqa: S105 - public: the protocol's
"""The engine's envelope of a secret value has this key."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One registered resource as the engine would see it."""

    type: str
    name: str
    urn: str
    parent: str
    custom: bool
    inputs: Mapping[str, Json]
    dependencies: tuple[str, ...]
    """Names of the resources it waits for, explicit and through inputs."""
    options: Mapping[str, Json]
    secret_outputs: tuple[str, ...]

    def is_secret(self, key: str) -> bool:
        """Whether the engine would keep this input encrypted."""
        return is_secret(self.inputs.get(key))

    def plain(self, key: str) -> Json:
        """An input, out of its secret envelope; None where there is none."""
        return unwrap(self.inputs.get(key))

    def text(self, key: str) -> str:
        """An input that is a text.

        Raises:
            TypeError: It is none.
        """
        value = self.plain(key)
        if not isinstance(value, str):
            raise TypeError(f"{self.name}: {key} is {value!r}, which is no text")
        return value


@dataclass(slots=True)
class Graph:
    """What one run registered, sorted by URN, and what it said."""

    resources: list[Recorded] = field(default_factory=list[Recorded])
    outputs: dict[str, Json] = field(default_factory=dict[str, Json])
    messages: list[str] = field(default_factory=list[str])
    answers: dict[str, dict[str, Json]] = field(default_factory=dict[str, dict[str, Json]])
    """URN to the resource's outputs in clear: what the state of a stack then holds."""

    def named(self, name: str) -> Recorded:
        """The resource of that name.

        Raises:
            LookupError: There is none, or there are several.
        """
        found = [item for item in self.resources if item.name == name]
        if len(found) != 1:
            names = ", ".join(item.name for item in self.resources)
            raise LookupError(f"{len(found)} resources are named {name}; there are: {names}")
        return found[0]

    def of_type(self, prefix: str) -> list[Recorded]:
        """The resources whose type begins so, for example `kubernetes:`."""
        return [item for item in self.resources if item.type.startswith(prefix)]

    def state(self) -> dict[str, Json]:
        """The answer of `readStackResourceOutputs` after this run, in the engine's own form.

        Recorded with the real engine 3.250.0: URN to `{type, outputs}`, secrets in clear.
        """
        types = {item.urn: item.type for item in self.resources}
        return {urn: {"type": types[urn], "outputs": own} for urn, own in self.answers.items()}


def is_secret(value: Json) -> bool:
    """Whether a recorded value is in a secret envelope."""
    return isinstance(value, dict) and SECRET_KEY in value


def unwrap(value: Json) -> Json:
    """Take a value out of its secret envelope, if it is in one."""
    if isinstance(value, dict) and SECRET_KEY in value:
        return value["value"]
    return value


def unwrap_all(value: Json) -> Json:
    """Take all values out of their secret envelopes, however deep."""
    value = unwrap(value)
    if isinstance(value, dict):
        return {key: unwrap_all(item) for key, item in value.items()}
    if isinstance(value, list):
        return [unwrap_all(item) for item in value]
    return value
