"""What is worked out once: for one value, for as long as it lives, and never for another."""

from __future__ import annotations

import gc
from dataclasses import dataclass

from components.model.once import once
from components.reading.load import load_site
from tests.reading.test_load import EXAMPLE


@dataclass(frozen=True)
class Value:
    """Equal to another of the same number, and yet another one."""

    number: int


def test_it_is_built_once_for_each_value_and_goes_with_it() -> None:
    built: list[int] = []

    @once
    def double(value: Value) -> int:
        built.append(value.number)
        return 2 * value.number

    one, same = Value(1), Value(1)
    assert (double(one), double(one), double(same)) == (2, 2, 2)
    assert built == [1, 1]
    for number in range(100):  # new values take the places of those that are gone
        assert double(Value(number)) == 2 * number
        gc.collect(0)
    assert len(built) == 102


def test_a_changed_copy_of_a_site_finds_its_own_hosts() -> None:
    spec = load_site(EXAMPLE).spec
    assert spec is not None
    assert spec.host("gpu01") is spec.hosts[1]
    assert [host.name for host in spec.workers] == ["gpu01", "gpu02"]
    renamed = spec.hosts[1].model_copy(update={"name": "new01"})
    changed = spec.model_copy(update={"hosts": (spec.hosts[0], renamed)})
    assert changed.host("new01") is renamed
    assert changed.host("gpu01") is None
    assert [host.name for host in changed.workers] == ["new01"]
    assert spec.host("gpu01") is spec.hosts[1]
    assert spec == load_site(EXAMPLE).spec
