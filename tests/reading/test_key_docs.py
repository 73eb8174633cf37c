"""The docstring below a key, as users read it in the schema and in refusals."""

from __future__ import annotations

from pydantic import BaseModel

from components.model.kubernetes import VirtualAddress
from components.reading.members import docs_of


class Base(BaseModel):
    kept: int = 1
    """Of the base."""
    bare: int = 2
    said_twice: int = 3
    """Of the base, too."""


class Derived(Base):
    """Not a key's."""

    own: int = 4
    """One line,

    and more below.
    """
    said_twice: int = 5
    """Of the derived."""


def test_a_key_has_the_text_below_it_and_the_last_one_said() -> None:
    assert docs_of(Derived) == {
        "kept": "Of the base.",
        "said_twice": "Of the derived.",
        "own": "One line,\n\nand more below.",
    }


def test_the_model_is_documented_by_its_source() -> None:
    text = docs_of(VirtualAddress)["address"]
    assert text == "A free address of the network that both balancers are in."
