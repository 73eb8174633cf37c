"""Lines of a port on what its link runs at: speed with lanes, and error correction.

Sources: docs/explanation/sources.md#eos; a guess is marked.
"""

from __future__ import annotations

from typing import Final

from lab.switches.eos.config import Port
from lab.switches.eos.configure import Place
from lab.switches.eos.grammar import EosError, table

_ENCODING: Final = "error-correction encoding"


def _port(place: Place, **values: object) -> str:
    port: Port = place.held()
    for key, value in values.items():
        setattr(port, key, value)
    return ""


def _speed(place: Place, word: str) -> str:
    """Speed and lanes, not negotiated; what the model has not is refused (a guessed wording)."""
    if word not in place.config.speeds:
        raise EosError(f"% Unsupported speed {word}")
    return _port(place, speed=word)


def _auto_speed(place: Place, word: str) -> str:
    _speed(place, word)
    return _port(place, speed=f"auto {word}")


def _no_speed(place: Place) -> str:
    return _port(place, speed=None)


def _encoding(place: Place, kind: str) -> str:
    """Two kinds can be there together; a line for one ends that none is."""
    held = {*place.held().fec} - {"no", f"no {kind}"}
    return _port(place, fec=sorted({*held, kind}))


def _no_encoding(place: Place, kind: str = "") -> str:
    held = {*place.held().fec} - {kind} if kind else set[str]()
    return _port(place, fec=sorted({*held, f"no {kind}".strip()}))


def _default_encoding(place: Place) -> str:
    return _port(place, fec=[])


LINK: Final = table(
    (
        ("speed <word>", _speed),
        ("speed auto <word>", _auto_speed),
        ("no speed", _no_speed),
        ("default speed", _no_speed),
        # What a line of one kind does to another one's is a guess: the driver begins from none.
        (f"{_ENCODING} reed-solomon|fire-code", _encoding),
        (f"no {_ENCODING}", _no_encoding),
        (f"no {_ENCODING} reed-solomon|fire-code", _no_encoding),
        (f"default {_ENCODING}", _default_encoding),
    )
)
