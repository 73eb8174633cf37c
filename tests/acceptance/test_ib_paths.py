"""Which paths a host asks its subnet for, and who is to get none."""

from __future__ import annotations

from components.acceptance.probes.ib_look import (
    PathAsk,
    parse_ib_look,
    plan_ib_limits,
    plan_ib_looks,
    plan_paths,
    plan_rails,
)
from components.model.cluster import ClusterSpec
from components.model.infiniband import IbMember, IbPartition
from tests.fabric.ib_lab import load_spec
from tests.golden.site import load_example


def asks(spec: ClusterSpec, host: str) -> list[tuple[str, str, str, bool]]:
    found = spec.host(host)
    assert found is not None
    return [
        (each.name, each.to, f"0x{each.pkey:04x}", each.wanted) for each in plan_paths(spec, found)
    ]


def partitioned(*members: IbMember) -> ClusterSpec:
    """The example quantum-ib with one partition."""
    spec = load_spec()
    assert spec.infiniband is not None
    only = IbPartition(name="p", pkey=0x101, members=members)
    fabric = spec.infiniband.model_copy(update={"partitions": (only,)})
    return spec.model_copy(update={"infiniband": fabric})


def test_a_member_asks_for_another_one_and_for_a_port_that_is_none() -> None:
    spec = load_example("quantum-ufm")
    assert asks(spec, "gpu01") == [
        ("training.1", "gpu02/hca-0", "0x8101", True),
        ("storage.1", "gpu02/hca-0", "0x8201", True),
        ("storage.2", "gpu02/hca-1", "0x8201", False),
    ]


def test_who_is_no_member_asks_and_is_to_get_no_path() -> None:
    spec = partitioned(IbMember(host="gpu02"))
    assert asks(spec, "gpu01") == [
        ("p.1", "gpu02/hca-0", "0x0101", False),
    ]
    assert asks(spec, "gpu02") == [("p.2", "gpu01/hca-0", "0x8101", False)]


def test_two_limited_members_are_not_asked_for_a_path() -> None:
    limited = (IbMember(host=host, membership="limited") for host in ("gpu01", "gpu02"))
    assert asks(partitioned(*limited), "gpu01") == []


def test_a_partition_of_all_ports_needs_no_question() -> None:
    spec = load_spec(members="all")
    assert [name for name, *_ in asks(spec, "gpu01")] == ["training.1"]


def test_the_script_is_given_each_question_as_one_word() -> None:
    first = plan_ib_looks(load_spec())[0].script.splitlines()[1]
    assert first == (
        "paths='training.1,fe80:0000:0000:0000:a088:c203:0001:1000,"
        "fe80:0000:0000:0000:a088:c203:0002:1000,0x8101 "
        "storage.1,fe80:0000:0000:0000:a088:c203:0001:1000,"
        "fe80:0000:0000:0000:a088:c203:0002:1000,0x8201'"
    )
    limits = plan_ib_limits(load_spec())
    assert limits is not None
    assert isinstance(limits.paths["gpu01"][0], PathAsk)


def test_a_rail_is_the_same_hca_of_each_worker() -> None:
    rails = plan_rails(load_spec())
    assert [rail.name for rail in rails] == [f"hca-{number}" for number in range(8)]
    assert rails[7].ports == {"gpu01": "a088c20300011070", "gpu02": "a088c20300021070"}


def test_an_answer_without_a_record_is_no_path() -> None:
    text = (
        "=== sminfo\n=== path a.1\nPathRecord dump:\n\t\tsl......0x0\nstatus: 0\n"
        "=== path a.2\nstatus: 0\n"
        "=== path a.3\nQuery SA failed: Connection timed out\nstatus: 110\n"
    )
    paths = parse_ib_look(text).paths
    assert (paths["a.1"].found, paths["a.2"].found, paths["a.2"].why_nothing) == (True, False, "")
    assert paths["a.3"].why_nothing == "Query SA failed: Connection timed out (status: 110)"
