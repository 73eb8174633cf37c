"""Recorded values: what is asked for, how they are written, and those of ports that came later."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from components.core.settings import asked
from components.fabric.parts import IbState
from components.fabric.state import PortState, SwitchState
from components.fabric.systems import system_of

PACK_ABOVE: Final = 1_000
"""Characters of a baseline. The state holds it twice, and 32 ports that are alike pack to a tenth;
Linux takes 131,072 characters in one variable, which some 400 ports would fill."""
PACKED: Final = "zlib:"


def baseline_file(stack: str, device: str) -> Path:
    """The imported baseline of one switch; mostly there is none."""
    return Path(".railyard") / stack / "baseline" / f"{device}.json"


def with_new_ports(baseline: SwitchState, owned: SwitchState, system: str) -> SwitchState:
    """The recorded values, and the factory's of parts that were not there when they were taken."""
    parts = {part for each in (owned.splits or {}).values() for part in each}
    new = tuple(name for name in owned.ports if name in parts and name not in baseline.ports)
    if not new:
        return baseline
    factory = system_of(system).driver.factory_state(new).ports
    return baseline.model_copy(update={"ports": {**baseline.ports, **factory}})


def every_key(ports: Sequence[str], desired: SwitchState) -> SwitchState:
    """A wish for all that a file may own. `roce` only on demand: its `off` text is not public."""
    own = {
        "roce": desired.roce,
        "splits": desired.splits or {},
        "ports": dict.fromkeys(ports, PortState().model_copy(update=asked(PortState))),
        "ib": desired.ib and desired.ib.model_copy(update=asked(IbState)),
    }
    return SwitchState().model_copy(update=asked(SwitchState) | own)


def render_baseline(state: SwitchState) -> str:
    """The recorded values as JSON; ports that are alike are one, with spaces between the names."""
    document = state.model_dump(mode="json")
    alike: dict[str, list[str]] = {}
    for name, port in document.pop("ports").items():
        alike.setdefault(_short(port), []).append(name)
    ports = [f'"{" ".join(names)}":{port}' for port, names in alike.items()]
    others = [f'"{key}":{_short(value)}' for key, value in document.items()]
    return "{" + ",\n".join((*others, '"ports":{\n' + ",\n".join(ports) + "}")) + "}\n"


def read_baseline(text: str) -> dict[str, object]:
    """The recorded values with each port by itself."""
    document = json.loads(text)
    ports = document.get("ports", {}).items()
    return {**document, "ports": {name: port for names, port in ports for name in names.split()}}


def _short(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def pack_baseline(text: str) -> str:
    """A recorded baseline for the environment: one line, and packed where it would be too long."""
    line = _short(json.loads(text))
    if len(line) <= PACK_ABOVE:
        return line
    return PACKED + base64.b64encode(zlib.compress(line.encode(), 9)).decode()


def unpack_baseline(text: str) -> str:
    """The other way."""
    packed = text.removeprefix(PACKED)
    return text if packed == text else zlib.decompress(base64.b64decode(packed)).decode()
