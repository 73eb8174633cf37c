"""A record behaves like a frozen dataclass with slots, which compiles more and starts slower."""

from __future__ import annotations

import copy
import pickle
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace

import pytest

from components.core.record import record


@record
class Link:
    port: str
    mtu_bytes: int = 9216
    seen: str = field(default="", compare=False)
    secret: str = field(default="", repr=False)


@record
class Trunk(Link):
    vlans: tuple[int, ...] = ()


@record
class Nothing:
    pass


@record
class Named:
    """It defines its own methods."""

    name: str

    def __repr__(self) -> str:
        """Show the bare name."""
        return self.name

    def __hash__(self) -> int:
        """Let all be alike."""
        return 7


def standard(name: str, link: Link) -> object:
    """The same values in a frozen dataclass of the standard library."""
    made = dataclass(frozen=True, slots=True)(
        type(name, (), {"__annotations__": {"port": str, "mtu_bytes": int}})
    )
    return made(link.port, link.mtu_bytes)


def test_equal_values_are_equal_records_of_one_class() -> None:
    assert Link("swp1") == Link("swp1", seen="now")
    assert hash(Link("swp1")) == hash(Link("swp1", seen="now"))
    assert Link("swp1") != Link("swp2")
    assert Link("swp1") != Trunk("swp1")
    assert Link("swp1") != "swp1"
    assert Trunk("swp1", vlans=(1,)) != Trunk("swp1", vlans=(2,))
    assert {Link("swp1"), Link("swp1"), Link("swp2")} == {Link("swp2"), Link("swp1")}
    assert Nothing() == Nothing()
    assert Nothing() != Named("")
    assert len({Nothing(), Nothing()}) == 1


def test_a_record_of_what_cannot_be_hashed_cannot_be_hashed_either() -> None:
    @record
    class Names:
        all: list[str]

    assert Names(["a"]) == Names(["a"])
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        hash(Names([]))


def test_it_is_shown_as_a_dataclass_is() -> None:
    link = Link("swp1", secret="hidden")
    assert repr(link) == "Link(port='swp1', mtu_bytes=9216, seen='')"
    assert repr(standard("Link", link)) == "Link(port='swp1', mtu_bytes=9216)"
    assert repr(Nothing()) == "Nothing()"


def test_own_methods_stay() -> None:
    assert repr(Named("a")) == "a"
    assert hash(Named("a")) == 7
    assert Named("a") == Named("a")


def test_what_reads_dataclasses_reads_it() -> None:
    trunk = Trunk("swp1", vlans=(1,))
    assert is_dataclass(trunk)
    assert [each.name for each in fields(trunk)] == ["port", "mtu_bytes", "seen", "secret", "vlans"]
    assert replace(trunk, port="swp2") == Trunk("swp2", vlans=(1,))
    assert asdict(Named("a")) == {"name": "a"}
    assert copy.deepcopy(trunk) == trunk
    assert pickle.loads(pickle.dumps(trunk)) == trunk  # noqa: S301 - written one line above
    with pytest.raises(AttributeError):
        trunk.other = 1  # pyright: ignore[reportAttributeAccessIssue]


def test_the_type_checker_refuses_an_assignment() -> None:
    """Pyright reports a comment that silences nothing, so this one shows that it refuses."""
    link = Link("swp1")
    link.port = "swp2"  # pyright: ignore[reportAttributeAccessIssue]
