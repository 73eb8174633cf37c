"""`Watched`: a step whose device can be read, so that drift from it is seen and repaired."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from components.core.key_values import HostState, parse_state
from components.core.placeholder import Facts, fill_known
from components.remote.step import RemoteStep
from components.remote.tools import ToolCall

RUN_PARAMETERS: Final = frozenset({"stack", "repair"})
"""Keys on every step's stdin that say how a run is done, and are no settings."""


@dataclass(frozen=True, slots=True)
class Watched:
    """One step, the settings that it leaves behind, and the script that reads them.

    The step's stdin is the settings and the parameters of the run (`PARAMETERS` and the room's
    own). The reading script gets the settings as `key=value` lines, and prints their present
    values in the same form.
    """

    device: str
    """As reports name it: the host, or the host and what runs on it (`lb-0 haproxy`)."""
    step: RemoteStep
    desired: HostState
    observe: ToolCall
    """A verb that only reads."""
    parameters: frozenset[str] = frozenset()
    """Keys of the step's stdin that are no settings."""
    looks: str = ""
    """A line for the reading script alone: what else it shall look at."""
    beside: HostState = field(default_factory=lambda: HostState({}))
    """Settings that are not ours and are read with ours, each with a value that it may have: for
    the reading script alone."""

    def known(self, facts: Facts) -> Watched:
        """The same with what is known of the instances in its holes."""
        values = {key: fill_known(value, facts) for key, value in self.desired.values.items()}
        return replace(self, step=self.step.known(facts), desired=HostState(values))

    def settings_in(self, stdin: str) -> HostState:
        """The settings in a recorded stdin of the step, without the parameters of that run."""
        left_out = RUN_PARAMETERS | self.parameters
        values = parse_state(stdin).values
        return HostState({key: value for key, value in values.items() if key not in left_out})
